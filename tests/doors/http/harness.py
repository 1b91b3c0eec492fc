"""A server's HTTP door with a queue in memory, in a thread, for tests that call it over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from penstock.assembly import SERVER_LIMITS
from penstock.doors.azure.seeds import Seeds
from penstock.doors.google import dead_letters
from penstock.doors.http.admin.calls import Context
from penstock.doors.http.admin.events import Events
from penstock.doors.http.options import HttpOptions
from penstock.doors.http.server import HttpDoor
from penstock.doors.port import OPEN, Condition
from penstock.doors.resources import Names
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.seeding.seeding import Seeding
from penstock.seeding.topology import Vendors
from penstock.services.moves.registry import Moves
from penstock.services.services import Services

T = TypeVar("T")
SECONDS = 20  # only a failing test waits this long
PREFIX = "/admin/v1"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"] == "application/json", self
        return json.loads(self.body)

    @property
    def sentence(self) -> str:
        """Return the text of an error, after checking that its code is the status."""
        error = self.json["error"]
        assert error["code"] == self.status
        return str(error["message"])


class Harness:
    """The door, its queue, and a thread with the event loop that runs both."""

    def __init__(self, options: HttpOptions | None = None, host: str = "127.0.0.1", **parts: Any) -> None:
        self.options = options or HttpOptions()
        self.host = host
        self._parts = parts
        self.clock = parts.get("clock")
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Harness:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS)
        self.loop.close()

    async def _start(self) -> None:
        self.queue = AsyncMessageQueue(MemoryJournal(), **{"limits": SERVER_LIMITS, **self._parts})
        await self.queue.start()
        self.condition = Condition()
        self.condition.doors["http"] = OPEN
        self.condition.names = Names((), "penstock")
        queue = self.queue.at("http")
        self.services = Services(queue, Moves(queue, dead_letters))
        events = Events(queue, self.services.samples)
        self.context = Context(
            queue, queue.engine, self.condition, version="1.2.3", services=self.services, events=events
        )
        self.context.topologies = Seeding(self.queue, "penstock", lambda: Vendors({"azure": Seeds(), "pubsub": None}))
        self.door = HttpDoor(
            host=self.host,
            port=0,
            statistics=self.queue.engine,
            condition=self.condition,
            log=logging.getLogger("test.http"),
            version="1.2.3",
            options=self.options,
            admin=self.context,
        )
        await self.door.start()

    async def _stop(self) -> None:
        self.queue.stop_waiting()
        await self.door.stop(grace_seconds=0)
        await self.queue.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def do(self, work: Callable[[], Any]) -> Any:
        """Call a method of the queue inside its event loop."""

        async def awaited() -> Any:
            return await work()

        return self.run(awaited())

    def call(self, function: Callable[..., Any], *words: Any) -> Any:
        """Call a function inside the event loop."""

        async def called() -> Any:
            return function(*words)

        return self.run(called())

    @property
    def port(self) -> int:
        return int(self.door.address.rpartition(":")[2])

    def ask(
        self, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None, **query: object
    ) -> Answer:
        """Send a request to a path below /admin/v1. A body that is not bytes becomes JSON."""
        sent = {"Host": "localhost", **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        target = f"{PREFIX}{path}{'?' + urlencode(query) if query else ''}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, target, body=body, headers=sent)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Any:
        """Return the JSON of an answer, which must be a success."""
        answer = self.ask("GET", path, **query)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, body: object = None, **query: object) -> Any:
        answer = self.ask("POST", path, body, **query)
        assert answer.status in (200, 201, 202, 204), answer
        return answer.json if answer.body else None


def segment(name: str) -> str:
    return quote(name, safe="")
