"""The live stream: a sample each second, changes of resources and warnings, as server-sent events.

Nothing is done while no client listens. A client that does not keep up loses events and receives their number. A slow
client never delays another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from functools import partial
from heapq import nlargest
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.broker import facts as f
from penstock.doors.http.admin.instants import made_at
from penstock.doors.http.admin.records import Count
from penstock.engine.port import Listener, Queue
from penstock.engine.statistics import DOOR_COUNTS
from penstock.services.samples import SERVER_FIELDS, SUBSCRIPTION_FIELDS, TOPIC_FIELDS, Samples
from penstock.services.traffic import Interval

WAITING_MAX = 256  # events that one client has not taken
CLIENTS_MAX = 100
BUSIEST = 10  # topics, and as many subscriptions, for a client that names none
NAMED_MAX = 100
QUIET_SECONDS = 15.0  # without events, until a comment is sent that keeps the connection open
NOTICE_BYTES_MAX = 2000

_SERVER = [field.name for field in SERVER_FIELDS]
_TOPIC = [field.name for field in TOPIC_FIELDS]
_SUBSCRIPTION = [field.name for field in SUBSCRIPTION_FIELDS]
ResourceKind: TypeAlias = Literal["topic", "subscription", "snapshot"]
Change: TypeAlias = Literal["created", "changed", "deleted", "detached"]
_KINDS: Mapping[type[f.Fact], tuple[ResourceKind, Change]] = {
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


class Hello(msgspec.Struct):
    """The first event. `fields`: the columns of the samples of the server."""

    at: datetime
    fields: list[str]


def _floats(fields: Iterable[str]) -> Any:
    return msgspec.defstruct("Floats", [(field, float) for field in fields])


class ServerSample(_floats(_SERVER)):  # type: ignore[misc]
    pass


class DoorSample(_floats(DOOR_COUNTS)):  # type: ignore[misc]
    pass


class TopicSample(_floats(_TOPIC)):  # type: ignore[misc]
    pass


class SubscriptionSample(_floats(_SUBSCRIPTION)):  # type: ignore[misc]
    pass


class Sample(msgspec.Struct):
    """The traffic of one second. Topics and subscriptions without traffic are left out."""

    at: datetime
    server: ServerSample
    doors: dict[str, DoorSample]
    topics: dict[str, TopicSample]
    subscriptions: dict[str, SubscriptionSample]


class ResourceEvent(msgspec.Struct):
    """A resource was created, changed, deleted or detached."""

    kind: ResourceKind
    name: str
    change: Change


class Notice(msgspec.Struct):
    """A warning or an error in the log."""

    at: datetime
    level: str
    text: str


class Lost(msgspec.Struct):
    """The number of events that the client lost because it did not keep up."""

    events: Count


EVENTS = (Hello, Sample, ResourceEvent, Notice, Lost)


def event(name: str, data: msgspec.Struct) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


class Client:
    """The events that wait for one client."""

    def __init__(self, topics: Iterable[str], subscriptions: Iterable[str], *, notices: bool = True) -> None:
        """`notices`: send log lines, which may name paths on the server's machine."""
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
        """Return all waiting events, or a comment after QUIET_SECONDS without events."""
        if not self._waiting:
            self._called.clear()
            try:
                await asyncio.wait_for(self._called.wait(), QUIET_SECONDS)
            except TimeoutError:
                return b": nothing happened\n\n"
        text = b"".join(self._waiting)
        self._waiting.clear()
        if self._lost:
            text += event("lost", Lost(self._lost))
            self._lost = 0
        return text


class Events:
    def __init__(self, queue: Queue, samples: Samples) -> None:
        self._queue = queue
        self._samples = samples
        self._clients: set[Client] = set()
        self._names: dict[tuple[str, int], str] = {}  # of topics and subscriptions by number, while a client listens
        self._listeners: list[Listener] = []
        self._notices = _Notices(self)
        self.loop: asyncio.AbstractEventLoop | None = None  # while a client listens
        samples.on_sample.append(self._on_sample)

    @property
    def is_full(self) -> bool:
        return len(self._clients) >= CLIENTS_MAX

    async def listen(self, client: Client) -> AsyncGenerator[bytes, None]:
        """Yield events until the client disconnects."""
        self._clients.add(client)
        self._samples.watch(client.topics, client.subscriptions)
        try:
            if not self._listeners:
                await self._begin()
            yield event("hello", Hello(made_at(self._queue.clock.now()), _SERVER))
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
        topics, subscriptions = (
            await self._queue.numbered_names("topics"),
            await self._queue.numbered_names("subscriptions"),
        )
        self._names |= {("topic", number): name for number, name in topics.items()}
        self._names |= {("subscription", number): name for number, name in subscriptions.items()}

    def _end(self) -> None:
        for listener in self._listeners:
            self._queue.off(listener)
        self._listeners, self._names = [], {}
        logging.getLogger("penstock").removeHandler(self._notices)

    # ------------------------------------------------------------------ sending

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
        self._send(event("resource", ResourceEvent(what, name, change)))

    def notice(self, level: str, text: str) -> None:
        shown = text.encode(errors="replace")[:NOTICE_BYTES_MAX].decode(errors="ignore")
        line = event("notice", Notice(made_at(self._queue.clock.now()), level, shown))
        for client in self._clients:
            if client.notices:
                client.add(line)

    def _on_sample(self, interval: Interval) -> None:
        if not self._clients:
            return
        topics, traffic = interval.topics, interval.subscriptions
        busy_topics = nlargest(BUSIEST, topics, key=lambda number: topics[number])
        busy = nlargest(BUSIEST, traffic, key=lambda number: sum(traffic[number].counted))
        names = interval.names
        usual = self._sample(interval, map(names.__getitem__, busy_topics), map(names.__getitem__, busy))
        for client in self._clients:
            if client.topics or client.subscriptions:
                client.add(self._sample(interval, client.topics, client.subscriptions))
            else:
                client.add(usual)

    def _sample(self, interval: Interval, topics: Iterable[str], subscriptions: Iterable[str]) -> bytes:
        chosen = self._samples.traffic_of(interval, topics, subscriptions)
        sample = Sample(
            made_at(interval.at),
            ServerSample(*self._samples.last_row),
            {door: DoorSample(**rates) for door, rates in self._samples.last_doors.items()},
            {name: TopicSample(*sample) for name, sample in chosen.topics.items()},
            {name: SubscriptionSample(*sample.counted, *sample[1:]) for name, sample in chosen.subscriptions.items()},
        )
        return event("sample", sample)


class _Notices(logging.Handler):
    """A log handler that sends warnings and errors of any thread to the clients."""

    def __init__(self, events: Events) -> None:
        super().__init__(logging.WARNING)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        loop = self._events.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._events.notice, record.levelname.lower(), record.getMessage())
