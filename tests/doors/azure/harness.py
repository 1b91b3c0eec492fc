"""The Azure API over a broker in memory, on a free port, with a clock that tests move."""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree

from penstock.assembly import SERVER_LIMITS
from penstock.doors.azure.accounts import read_accounts
from penstock.doors.azure.options import AzureOptions
from penstock.doors.azure.server import AzureDoor
from penstock.doors.google import dead_letters
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import ManualClock
from penstock.journal.memory import MemoryJournal
from penstock.services.moves.registry import Moves
from penstock.wire.budget import Budget
from tests.doors.azure.signing import ACCOUNT, VERSION, account_sas
from tests.doors.clocks import clock_at
from tests.doors.stopping import stop

T = TypeVar("T")
SECONDS = 20  # only a failing test waits this long


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The error code. It must be the same in the header and the body."""
        code = self.headers.get("x-ms-error-code", "")
        if self.body:
            assert (self.xml.findtext("Code") or "") == code
        return code

    @property
    def xml(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.body)

    def texts(self, name: str) -> list[str]:
        return [element.text or "" for element in self.xml.iter(name)]

    def text(self, name: str) -> str:
        return self.texts(name)[0]


def body_of(text: str) -> bytes:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<QueueMessage><MessageText>{escaped}</MessageText></QueueMessage>".encode()


class Harness:
    def __init__(
        self, port: int, clock: ManualClock, queue: AsyncMessageQueue, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.port = port
        self.clock = clock
        self.queue = queue
        self._loop = loop
        self.sas = account_sas()
        self.secure: ssl.SSLContext | None = None

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine in the event loop of the server."""

        async def done() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(SECONDS)

    def send(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send one request, exactly as given."""
        if self.secure is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                "localhost", self.port, timeout=SECONDS, context=self.secure
            )
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, target, body=body, headers=headers or {})
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        sas: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send a request to `/account/path`, with an account SAS unless another one is given."""
        sas = self.sas if sas is None else sas
        sent = {"x-ms-version": VERSION} | {name.replace("_", "-"): value for name, value in headers.items()}
        joint = "&" if "?" in path else "?"
        return self.send(method, f"/{ACCOUNT}/{path}{joint + sas if sas else ''}", body, sent)

    def dialect(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send a request in the dialect of the specification."""
        return self.send(method, f"/queue/myaccount/{path}", body, {"Content-Type": "application/xml"} | headers)

    def create(self, name: str = "orders") -> str:
        answer = self.ask("PUT", name)
        assert answer.status == 201, answer
        return name

    def put(self, text: str = "hello", queue: str = "orders", **parameters: object) -> Answer:
        answer = self.ask("POST", with_query(f"{queue}/messages", parameters), body_of(text))
        assert answer.status == 201, answer
        return answer

    def get(self, queue: str = "orders", **parameters: object) -> Answer:
        answer = self.ask("GET", with_query(f"{queue}/messages", parameters))
        assert answer.status == 200, answer
        return answer

    def peek(self, queue: str = "orders", **parameters: object) -> Answer:
        return self.get(queue, peekonly="true", **parameters)

    def count(self, queue: str = "orders") -> int:
        return int(self.ask("GET", f"{queue}?comp=metadata").headers["x-ms-approximate-messages-count"])


def with_query(path: str, parameters: dict[str, Any]) -> str:
    text = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"{path}?{text}" if text else path


def place_of(answer: Answer, queue: str = "orders") -> str:
    """Return the path of the first message in an answer, with its receipt."""
    return f"{queue}/messages/{answer.text('MessageId')}?popreceipt={answer.text('PopReceipt')}"


@contextmanager
def opened(
    *, accounts: str | None = None, now: int | None = None, budget: Budget | None = None, **options: Any
) -> Iterator[Harness]:
    """Run a server during the block."""
    clock = clock_at(now)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def open_door() -> tuple[AsyncMessageQueue, AzureDoor]:
        queue = AsyncMessageQueue(
            MemoryJournal(), limits=SERVER_LIMITS, clock=clock, describe_source=dead_letters.source_attributes
        )
        await queue.start()
        door = AzureDoor(
            host="127.0.0.1",
            port=0,
            queue=queue,
            accounts=read_accounts(accounts),
            moves=Moves(queue, dead_letters),
            log=logging.getLogger("test.azure"),
            options=AzureOptions(**options),
            budget=budget,
        )
        await door.start()
        return queue, door

    async def close_door() -> None:
        await stop(door, queue, 1)
        await queue.close()

    queue, door = asyncio.run_coroutine_threadsafe(open_door(), loop).result(SECONDS)
    harness = Harness(int(door.address.rpartition(":")[2]), clock, queue, loop)
    try:
        yield harness
    finally:
        harness.run(close_door)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


RFC1123 = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
