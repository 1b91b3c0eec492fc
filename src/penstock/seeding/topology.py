"""The topology that a seed describes: records, and what a door has to say about its own part of them.

A seed says what should be there. What it does not mention is nobody's business: `given` names the options that it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.errors import InvalidArgumentError

Place: TypeAlias = tuple[str | int, ...]  # of a value in a document: ("topics", 2, "labels")

SEEDED = "seed"  # among the extras of a topic: the first messages that it got
TOPIC, SUBSCRIPTION, QUEUE, SCHEMA = "topic", "subscription", "queue", "schema"


class SeedError(InvalidArgumentError):
    """A seed is wrong at some place; nothing was changed."""

    def __init__(self, reason: str, place: Place = ()) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{shown_place(place)}: {reason}" if place else reason)

    @classmethod
    def at(cls, place: Place, reason: str) -> SeedError:
        return cls(reason, place)


def shown_place(place: Place) -> str:
    """`topics[2].labels`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


class Document(NamedTuple):
    """Something that a door keeps with the broker, such as a schema."""

    kind: str
    name: str
    body: bytes
    place: Place = ()


@dataclass(frozen=True, slots=True)
class TopicSeed:
    name: str
    options: TopicOptions
    given: frozenset[str] = frozenset()  # fields of the options
    drafts: tuple[Draft, ...] = ()
    place: Place = ()


@dataclass(frozen=True, slots=True)
class SubscriptionSeed:
    name: str
    topic: str
    options: SubscriptionOptions
    given: frozenset[str] = frozenset()
    at_head: bool = False  # begins with what the topic keeps
    place: Place = ()


@dataclass(frozen=True, slots=True)
class QueueSeed:
    """A topic and the subscription of the same name that reads it."""

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
    """What a door keeps of its own about topics and subscriptions, in the words of its clients.

    It lives among the extras of a resource, in a form that only the door knows.
    """

    @property
    def keys(self) -> frozenset[str]:
        """Of the extras that this door writes."""

    def read(self, kind: str, given: Mapping[str, Any], project: str, options: Any) -> Mapping[str, str]:
        """The extras for what a seed says; `options`: what the broker will know about it."""

    def show(self, kind: str, extras: Mapping[str, str]) -> Mapping[str, Any]:
        """What a seed would say to get these extras."""

    def merge(self, kind: str, known: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
        """What has to change among the extras that are there to have what is wanted; empty: nothing."""

    def needs(self, kind: str, extras: Mapping[str, str]) -> list[tuple[str, str]]:
        """Documents that must be there: kind and name."""


class SchemaVendor(Protocol):
    """The door whose clients have schemas."""

    @property
    def schemas(self) -> str:
        """The kind of document that a schema is."""

    def read_schema(self, name: str, given: Mapping[str, Any]) -> bytes: ...

    def show_schema(self, body: bytes) -> Mapping[str, Any]: ...

    def merge_schemas(self, known: bytes, wanted: bytes) -> bytes:
        """What is known, with what is wanted added to it; as it was if nothing is new."""


class Vendors(NamedTuple):
    by_name: Mapping[str, Vendor | None]  # of their door; None: its packages are missing
    schemas: SchemaVendor | None = None
