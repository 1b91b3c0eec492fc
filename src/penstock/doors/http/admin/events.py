"""The live stream: a sample each second, resources that come and go, and warnings, as server-sent events.

While nobody listens nothing is done. A client that does not keep up loses events and is told how many; it never holds
up anybody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from heapq import nlargest
from typing import Any

import msgspec

from penstock.broker import facts as f
from penstock.doors.http.admin.records import made_at
from penstock.doors.http.admin.samples import SERVER_FIELDS, Samples
from penstock.engine.port import Listener, Queue
from penstock.engine.traffic import Interval

WAITING_MAX = 256  # events that one client has not taken
CLIENTS_MAX = 100
BUSIEST = 10  # topics, and as many subscriptions, for a client that names none
NAMED_MAX = 100
QUIET_SECONDS = 15.0  # without an event for so long, a comment shows that the connection lives
NOTICE_BYTES_MAX = 2000

_SERVER = [field.name for field in SERVER_FIELDS]
_KINDS: Mapping[type[f.Fact], tuple[str, str]] = {
    f.TopicCreated: ("topic", "created"),
    f.TopicChanged: ("topic", "changed"),
    f.TopicDeleted: ("topic", "deleted"),
    f.SubscriptionCreated: ("subscription", "created"),
    f.SubscriptionChanged: ("subscription", "changed"),
    f.SubscriptionDeleted: ("subscription", "deleted"),
    f.Detached: ("subscription", "detached"),
    f.SnapshotTaken: ("snapshot", "created"),
    f.SnapshotDropped: ("snapshot", "deleted"),
}


def event(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


class Client:
    """What one listener has still to take."""

    def __init__(self, topics: Iterable[str], subscriptions: Iterable[str], *, notices: bool = True) -> None:
        """`notices`: log lines as well. They may name places on the server's machine."""
        self.notices = notices
        self.topics = list(topics)
        self.subscriptions = list(subscriptions)
        self._waiting: deque[bytes] = deque()
        self._lost = 0
        self._called = asyncio.Event()

    def add(self, text: bytes) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._lost += 1
        else:
            self._waiting.append(text)
            self._called.set()

    async def next(self) -> bytes:
        """All that waits, or a comment after a quiet time."""
        if not self._waiting:
            self._called.clear()
            try:
                await asyncio.wait_for(self._called.wait(), QUIET_SECONDS)
            except TimeoutError:
                return b": nothing happened\n\n"
        text = b"".join(self._waiting)
        self._waiting.clear()
        if self._lost:
            text += event("lost", {"events": self._lost})
            self._lost = 0
        return text


class Events:
    def __init__(self, queue: Queue, samples: Samples) -> None:
        self._queue = queue
        self._samples = samples
        self._clients: set[Client] = set()
        self._names: dict[tuple[str, int], str] = {}  # of topics and subscriptions by number, while somebody listens
        self._listeners: list[Listener] = []
        self._notices = _Notices(self)
        self.loop: asyncio.AbstractEventLoop | None = None  # while somebody listens
        samples.on_sample.append(self._on_sample)

    @property
    def is_full(self) -> bool:
        return len(self._clients) >= CLIENTS_MAX

    async def listen(self, client: Client) -> AsyncGenerator[bytes, None]:
        """Until the one who takes them leaves."""
        self._clients.add(client)
        self._samples.watch(client.topics, client.subscriptions)
        try:
            if not self._listeners:
                await self._begin()
            yield event("hello", {"at": made_at(self._queue.clock.now()), "fields": _SERVER})
            while True:
                yield await client.next()
        finally:
            self._clients.discard(client)
            if not self._clients:
                self._end()

    async def _begin(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._listeners = [self._queue.on([kind], partial(self._on_fact, kind)) for kind in _KINDS]
        logging.getLogger("penstock").addHandler(self._notices)
        topics, subscriptions = await self._queue.topics(), await self._queue.subscriptions()
        self._names |= {("topic", each.number): each.name for each in topics}
        self._names |= {("subscription", each.number): each.name for each in subscriptions}

    def _end(self) -> None:
        for listener in self._listeners:
            self._queue.off(listener)
        self._listeners, self._names = [], {}
        logging.getLogger("penstock").removeHandler(self._notices)

    # ------------------------------------------------------------------ what is told

    def _send(self, text: bytes) -> None:
        for client in self._clients:
            client.add(text)

    def _on_fact(self, kind: type[f.Fact], fact: Any) -> None:
        what, change = _KINDS[kind]
        if what == "snapshot":
            name = fact.name
        else:
            key = (what, getattr(fact, what))
            if change == "created":
                self._names[key] = fact.name
            name = self._names.pop(key, "") if change == "deleted" else self._names.get(key, "")
        self._send(event("resource", {"kind": what, "name": name, "change": change}))

    def notice(self, level: str, text: str) -> None:
        shown = text.encode(errors="replace")[:NOTICE_BYTES_MAX].decode(errors="ignore")
        line = event("notice", {"at": made_at(self._queue.clock.now()), "level": level, "text": shown})
        for client in self._clients:
            if client.notices:
                client.add(line)

    def _on_sample(self, interval: Interval) -> None:
        if not self._clients:
            return
        server = dict(zip(_SERVER, self._samples.last_row, strict=True))
        head = {"at": made_at(interval.at), "server": server, "doors": self._samples.last_doors}
        busy_topics = nlargest(BUSIEST, interval.topics, key=lambda name: interval.topics[name].published)
        traffic = interval.subscriptions
        busy = nlargest(BUSIEST, traffic, key=lambda name: traffic[name].delivered + traffic[name].acked)
        usual = event("sample", head | self._resources(interval, busy_topics, busy))
        for client in self._clients:
            if client.topics or client.subscriptions:
                client.add(event("sample", head | self._resources(interval, client.topics, client.subscriptions)))
            else:
                client.add(usual)

    def _resources(self, interval: Interval, topics: Iterable[str], subscriptions: Iterable[str]) -> dict[str, Any]:
        """By name; those without traffic are left out."""
        return {
            "topics": {name: interval.topics[name]._asdict() for name in topics if name in interval.topics},
            "subscriptions": {
                name: interval.subscriptions[name]._asdict() for name in subscriptions if name in interval.subscriptions
            },
        }


class _Notices(logging.Handler):
    """Log lines from a warning on, in whatever thread they are written."""

    def __init__(self, events: Events) -> None:
        super().__init__(logging.WARNING)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        loop = self._events.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._events.notice, record.levelname.lower(), record.getMessage())
