"""A call of the admin API: what a row of the table says of it, what its handler gets, and how a name in it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from penstock.doors.consumers import Consumers
from penstock.doors.decoding import Decoder
from penstock.doors.port import Condition
from penstock.doors.resources import SNAPSHOTS, SUBSCRIPTIONS, TOPICS, full_name, parts_of
from penstock.engine.port import Queue, SubscriptionMetadata
from penstock.engine.statistics import Statistics
from penstock.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from penstock.wire.http1 import Request

if TYPE_CHECKING:
    from penstock.doors.http.admin.live import Live
    from penstock.doors.http.admin.topology import Topologies
    from penstock.faults.faults import Faults

Q = TypeVar("Q")
B = TypeVar("B")

JSON_TYPE = "application/json"
NDJSON_TYPE = "application/x-ndjson"


class Rates(Protocol):
    """How much happened a second, of late."""

    def of_topic(self, name: str) -> tuple[float, float]:
        """Messages and bytes published."""

    def of_subscription(self, name: str) -> Sequence[float]:
        """Messages delivered, acked, returned and dead-lettered."""

    def recent_of_topic(self, name: str, seconds: int) -> list[float]:
        """Messages published in each of the last seconds; none where nothing is kept of it."""

    def recent_of_subscription(self, name: str, seconds: int) -> list[float]:
        """Messages delivered in each of the last seconds."""


class NoRates:
    def of_topic(self, name: str) -> tuple[float, float]:
        return 0.0, 0.0

    def of_subscription(self, name: str) -> Sequence[float]:
        return 0.0, 0.0, 0.0, 0.0

    def recent_of_topic(self, name: str, seconds: int) -> list[float]:
        return []

    recent_of_subscription = recent_of_topic


class ShownSetting(NamedTuple):
    """A setting as it is in force; the value of a secret is not in it."""

    name: str
    value: Any
    default: Any
    changed: bool
    help: str
    is_path: bool  # of the server's machine: not for everybody's eyes


@dataclass(frozen=True, slots=True)
class About:
    """What the assembly knows of the server and does not change."""

    started_at: int = 0
    data: str | None = None  # None: in memory
    settings: Sequence[ShownSetting] = field(default_factory=tuple)


def _never(_: SubscriptionMetadata) -> bool:
    return False


@dataclass(slots=True)
class Context:
    """What handlers work with; the assembly fills it."""

    queue: Queue
    statistics: Statistics
    condition: Condition
    version: str = ""
    default_project: str = "penstock"
    about: About = field(default_factory=About)
    rates: Rates = field(default_factory=NoRates)
    live: Live | None = None
    is_pushed: Callable[[SubscriptionMetadata], bool] = _never  # whether messages go to an endpoint of its own
    backup_folder: str | None = None  # below it the server writes backups
    topologies: Topologies | None = None
    decoder: Decoder | None = None
    faults: Faults | None = None  # only of a server for tests
    consumers: Consumers = field(init=False)  # those who pull through this API

    def __post_init__(self) -> None:
        self.consumers = Consumers(self.queue.clock.now)


@dataclass(slots=True)
class Call(Generic[Q, B]):
    context: Context
    path: Mapping[str, str]  # what stands in the places of the path that have a name
    query: Q
    body: B
    request: Request
    may_change: bool  # the caller may do everything, not only read

    @property
    def queue(self) -> Queue:
        return self.context.queue

    @property
    def live(self) -> Live:
        if self.context.live is None:
            raise UnavailableError("This server takes no samples and moves nothing")
        return self.context.live

    def check_testing(self) -> None:
        """Faults are there on a server for tests, and only there."""
        assert self.faults is not None

    @property
    def faults(self) -> Faults:
        if self.context.faults is None:
            raise FailedPreconditionError("This is for servers of tests only, which are started with --testing")
        return self.context.faults

    @property
    def project(self) -> str:
        """Where short names are: as the query or the body says, else the server's own."""
        for given in (self.body, self.query):
            named = getattr(given, "project", None)
            if named:
                return project_name(named)
        return self.context.default_project

    def topic(self, name: str | None = None) -> str:
        """The full name of a topic: of the one in the path, or of one that was given otherwise."""
        return self._full(TOPICS, self.path["topic"] if name is None else name)

    def subscription(self, name: str | None = None) -> str:
        return self._full(SUBSCRIPTIONS, self.path["subscription"] if name is None else name)

    def snapshot(self, name: str | None = None) -> str:
        return self._full(SNAPSHOTS, self.path["snapshot"] if name is None else name)

    def _full(self, kind: str, name: str) -> str:
        """What a body makes is in the project that the body says, however its name is written."""
        full, said = full_name(self.project, kind, name), getattr(self.body, "project", "")
        if said and name == getattr(self.body, "name", None) and parts_of(full, kind)[0] != said:
            raise InvalidArgumentError(f"{full} is not in the project {said}")
        return full


def project_name(text: str) -> str:
    if not text or "/" in text or not text.isprintable():
        raise InvalidArgumentError("A project is a name without slashes")
    return text


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Project(msgspec.Struct, forbid_unknown_fields=True):
    """Only the project of short names."""

    project: str = ""


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]


class Route(NamedTuple):
    """A row of the table: serving, checking and describing follow from it."""

    method: str
    path: str  # below /admin/v1; {topic} is one segment
    handler: Handler  # answers with a record, with nothing (204), or with a Response of its own
    summary: str
    answer: Any = None  # the type of the record; in a stream, the types that a line may have
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    status: int = 200
    dry_answer: type[msgspec.Struct] | None = None  # of a dry run, where that is another record, with 200
    media: str = JSON_TYPE
