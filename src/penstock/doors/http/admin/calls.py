"""One call of the admin API: its route, the arguments of its handler, and the names in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

import msgspec

from penstock.broker.counts import SAMPLED_OF_SUBSCRIPTIONS, SAMPLED_OF_TOPICS
from penstock.doors.consumers import Consumers
from penstock.doors.decoding import Decoder
from penstock.doors.port import Condition
from penstock.doors.resources import SNAPSHOTS, SUBSCRIPTIONS, TOPICS, full_name, parts_of
from penstock.engine.port import Queue, SubscriptionMetadata
from penstock.engine.statistics import Statistics
from penstock.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from penstock.wire.http1 import Request
from penstock.wire.turns import Share

if TYPE_CHECKING:
    from penstock.doors.http.admin.events import Events
    from penstock.doors.http.admin.topology import Topologies
    from penstock.services.faults.faults import Faults
    from penstock.services.services import Services

Q = TypeVar("Q")
B = TypeVar("B")
T = TypeVar("T")

JSON_TYPE = "application/json"
NDJSON_TYPE = "application/x-ndjson"


class Rates(Protocol):
    """Recent rates per second."""

    def of_topic(self, name: str) -> Sequence[float]:
        """Return the rates of the sampled counters of a topic, in their order."""

    def of_subscription(self, name: str) -> Sequence[float]:
        """Return the rates of the sampled counters of a subscription, in their order."""

    def busy_topics(self) -> Collection[str]:
        """Return the topics that may have a rate. All others have none."""

    def busy_subscriptions(self) -> Collection[str]:
        """Return the subscriptions that may have a rate. All others have none."""

    def recent_of_topic(self, name: str, seconds: int) -> list[float]:
        """Return messages published in each of the last seconds, or nothing if no samples of the topic are kept."""

    def recent_of_subscription(self, name: str, seconds: int) -> list[float]:
        """Return messages delivered in each of the last seconds."""


class NoRates:
    def of_topic(self, name: str) -> Sequence[float]:
        return [0.0] * len(SAMPLED_OF_TOPICS)

    def of_subscription(self, name: str) -> Sequence[float]:
        return [0.0] * len(SAMPLED_OF_SUBSCRIPTIONS)

    def busy_topics(self) -> Collection[str]:
        return ()

    busy_subscriptions = busy_topics

    def recent_of_topic(self, name: str, seconds: int) -> list[float]:
        return []

    recent_of_subscription = recent_of_topic


class ShownSetting(NamedTuple):
    """A setting in force, without its value if it is a secret."""

    name: str
    value: Any
    default: Any
    changed: bool
    help: str
    is_path: bool  # on the server's machine: not shown to every caller


@dataclass(frozen=True, slots=True)
class About:
    """Facts about the server that do not change while it runs."""

    started_at: int = 0
    data: str | None = None  # None: in memory
    settings: Sequence[ShownSetting] = field(default_factory=tuple)


@dataclass(slots=True)
class Context:
    """Everything that handlers use. The assembly fills it."""

    queue: Queue
    statistics: Statistics
    condition: Condition
    version: str = ""
    default_project: str = "penstock"
    about: About = field(default_factory=About)
    services: Services | None = None
    events: Events | None = None
    is_pushed: Callable[[SubscriptionMetadata], bool] = lambda _: False  # whether it is a push subscription
    backup_folder: str | None = None  # the server writes backups below this folder only
    topologies: Topologies | None = None
    decoder: Decoder | None = None
    faults: Faults | None = None  # None unless the server was started for tests
    count_decisions: Callable[[], int] | None = None  # of the broker so far; None: it counts as always busy
    reading: Share = field(init=False)  # of the event loop, for all readers of messages together
    listing: Share = field(init=False)  # of the event loop, for all lists and scrapes together
    rates: Rates = field(init=False)
    consumers: Consumers = field(init=False)  # clients that pull through this API

    def __post_init__(self) -> None:
        self.reading, self.listing = Share(self.count_decisions), Share(self.count_decisions)
        self.rates = self.services.samples if self.services is not None else NoRates()
        self.consumers = Consumers(self.queue.clock.now)


@dataclass(slots=True)
class Call(Generic[Q, B]):
    context: Context
    path: Mapping[str, str]  # values of the named segments of the path
    query: Q
    body: B
    request: Request
    may_change: bool  # the caller may do everything, not only read

    @property
    def queue(self) -> Queue:
        return self.context.queue

    @property
    def services(self) -> Services:
        if self.context.services is None:
            raise UnavailableError("This server runs no samples, stories, time travel or moves")
        return self.context.services

    def check_testing(self) -> None:
        """Raise FailedPreconditionError unless the server was started for tests."""
        assert self.faults is not None

    @property
    def faults(self) -> Faults:
        if self.context.faults is None:
            raise FailedPreconditionError("This works only on a server started with --testing")
        return self.context.faults

    async def run_while_connected(self, work: Awaitable[T]) -> T:
        """Return the result of `work`, which is cancelled when the client disconnects."""
        running = asyncio.ensure_future(work)
        self.request.on_left = running.cancel
        try:
            return await running
        except asyncio.CancelledError:
            if not running.cancelled():
                raise
            raise UnavailableError("The client disconnected") from None
        finally:
            self.request.on_left = None
            running.cancel()

    @property
    def project(self) -> str:
        """The project of short names: as the query or the body says, else the server's default project."""
        for given in (self.body, self.query):
            named = getattr(given, "project", None)
            if named:
                return project_name(named)
        return self.context.default_project

    def topic(self, name: str | None = None) -> str:
        """Return the full name of a topic: the given one, or the one in the path."""
        return self._full(TOPICS, self.path["topic"] if name is None else name)

    def subscription(self, name: str | None = None) -> str:
        return self._full(SUBSCRIPTIONS, self.path["subscription"] if name is None else name)

    def snapshot(self, name: str | None = None) -> str:
        return self._full(SNAPSHOTS, self.path["snapshot"] if name is None else name)

    def _full(self, kind: str, name: str) -> str:
        """Return the full name. A new resource must be in the project that its body names."""
        full, said = full_name(self.project, kind, name), getattr(self.body, "project", "")
        if said and name == getattr(self.body, "name", None) and parts_of(full, kind)[0] != said:
            raise InvalidArgumentError(f"{full} is not in the project {said}")
        return full


def project_name(text: str) -> str:
    if not text or "/" in text:
        raise InvalidArgumentError("A project is a name without slashes")
    return text


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Project(msgspec.Struct, forbid_unknown_fields=True):
    """The project of short names, and nothing else."""

    project: str = ""


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]


class Route(NamedTuple):
    """One row of the table of routes. Serving, checking and the OpenAPI document follow from it."""

    method: str
    path: str  # below /admin/v1; {topic} is one segment
    handler: Handler  # returns a record, None (204) or a Response
    summary: str
    query: type[msgspec.Struct]
    body: type[msgspec.Struct] | None
    answer: Any  # type of the record; for a stream, the types of its lines
    status: int = 200
    dry_answer: type[msgspec.Struct] | None = None  # record of a dry run, if it differs; sent with status 200
    media: str = JSON_TYPE


def route(method: str, path: str, handler: Handler, summary: str, *, answer: Any = None, **more: Any) -> Route:
    """Return the route of a handler: its signature names the types of the query, the body and the record.

    `answer`: the type of the record, where the handler returns a Response or one of two records.
    """
    types = get_type_hints(handler)
    query, body = (None if given in (Any, NoneType) else given for given in get_args(types["call"]))
    record = answer or (None if types["return"] is NoneType else types["return"])
    return Route(method, path, handler, summary, query or NoQuery, body, record, **more)
