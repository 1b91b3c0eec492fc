"""The records of a topology that a seed describes, and the interface of doors with data of their own.

A seed changes only the options that it contains; `given` has their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.errors import InvalidArgumentError

Place: TypeAlias = tuple[str | int, ...]  # path of a value in a document: ("topics", 2, "labels")

SEEDED = "seed"  # key in a topic's extras: the first messages that were published
TOPIC, SUBSCRIPTION, QUEUE, SCHEMA = "topic", "subscription", "queue", "schema"


class SeedError(InvalidArgumentError):
    """A seed is invalid. Nothing was changed."""

    def __init__(self, reason: str, place: Place = ()) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{format_place(place)}: {reason}" if place else reason)

    @classmethod
    def at(cls, place: Place, reason: str) -> SeedError:
        return cls(reason, place)


def format_place(place: Place) -> str:
    """Return a path such as `topics[2].labels`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


class Document(NamedTuple):
    """A record that a door stores in the broker, such as a schema."""

    kind: str
    name: str
    body: bytes
    place: Place = ()


@dataclass(frozen=True, slots=True)
class TopicSeed:
    name: str
    options: TopicOptions
    given: frozenset[str] = frozenset()  # fields of the options that the seed contains
    drafts: tuple[Draft, ...] = ()
    place: Place = ()


@dataclass(frozen=True, slots=True)
class SubscriptionSeed:
    name: str
    topic: str
    options: SubscriptionOptions
    given: frozenset[str] = frozenset()
    at_head: bool = False  # True: starts at the topic's first stored message
    place: Place = ()


@dataclass(frozen=True, slots=True)
class QueueSeed:
    """A queue: a topic and its subscription of the same name."""

    topic: TopicSeed
    subscription: SubscriptionSeed


@dataclass(frozen=True, slots=True)
class Topology:
    schemas: list[Document] = field(default_factory=list)
    topics: list[TopicSeed] = field(default_factory=list)
    queues: list[QueueSeed] = field(default_factory=list)
    subscriptions: list[SubscriptionSeed] = field(default_factory=list)

    def all_topics(self) -> Iterator[TopicSeed]:
        yield from self.topics
        yield from (queue.topic for queue in self.queues)


class Vendor(Protocol):
    """The interface of a door that stores data of its own in the extras of topics and subscriptions."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the extras that this door writes."""

    def read(self, kind: str, given: Mapping[str, Any], project: str, options: Any) -> Mapping[str, str]:
        """Return the extras for a table of a seed. `options` are the broker's options of the resource."""

    def show(self, kind: str, extras: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the table of a seed for these extras."""

    def merge(self, kind: str, known: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
        """Return the extras that must change to get the wanted ones. Empty: none."""

    def needs(self, kind: str, extras: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the kind and name of each document that must exist."""


class SchemaVendor(Protocol):
    """The interface of the door whose clients have schemas."""

    @property
    def schemas(self) -> str:
        """The kind of the documents of schemas."""

    def read_schema(self, name: str, given: Mapping[str, Any]) -> bytes: ...

    def show_schema(self, body: bytes) -> Mapping[str, Any]: ...

    def merge_schemas(self, known: bytes, wanted: bytes) -> bytes:
        """Return the known schema with the wanted revisions added; unchanged if there are none.

        Raise InvalidArgumentError if a revision is incompatible with a known one.
        """


class Vendors(NamedTuple):
    by_name: Mapping[str, Vendor | None]  # by door; None: its packages are missing
    schemas: SchemaVendor | None = None
