"""The records everything else is made of: messages, deliveries and the options of topics and subscriptions.

Instants are nanoseconds since 1970 (`now`, `*_at`, `deadline`, `due`), durations are seconds, sizes are bytes, an
exclusive end is called `until`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple

SECOND = 1_000_000_000
FOREVER = 2**63 - 1  # a lease without a deadline: it lasts as long as the process that gave it

NO_ATTRIBUTES: dict[str, str] = {}  # shared by every message without attributes; never written to


class Draft(NamedTuple):
    """What a publisher hands in; the broker turns it into a Message."""

    data: bytes
    attributes: dict[str, str] = NO_ATTRIBUTES
    ordering_key: str = ""
    delay_seconds: float = 0  # invisible for so long after the publish
    ttl_seconds: float = 0  # 0: lives until acked or retention ends it


class Message(NamedTuple):
    """A message as the log of its topic holds it, once, however many subscriptions read it."""

    data: bytes
    attributes: dict[str, str]
    ordering_key: str
    publish_time: int  # never runs backwards within a topic
    offset: int
    position: int  # bytes of the topic's messages before this one, so that any two offsets give a size
    size: int  # data, attributes and ordering key, in bytes
    visible_at: int  # 0: at once
    expires_at: int  # 0: never


class Batch(NamedTuple):
    """Consecutive messages of one topic, written together."""

    topic: int
    first: int
    messages: list[Message]


class Producer(NamedTuple):
    """What a topic remembers of a publisher that numbers its publishes, so that a repeat is stored once."""

    epoch: int
    seen_at: int
    answers: dict[int, tuple[int, int]]  # sequence -> (first offset, count) of this epoch


class Options:
    """Durations are floats, however they were written, so that options read back are the same to the byte."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, each.name)
            if each.name.endswith("_seconds") and type(value) is int:
                object.__setattr__(self, each.name, float(value))


@dataclass(frozen=True, slots=True)
class TopicOptions(Options):
    retention_seconds: float = 0  # keep acked messages so long; 0: only what a subscription still needs
    retention_bytes: int = 0  # and at most so many bytes of them; 0: no cap
    labels: dict[str, str] = field(default_factory=dict)
    extras: dict[str, str] = field(default_factory=dict)  # settings a door keeps here, opaque to the broker


@dataclass(frozen=True, slots=True)
class SubscriptionOptions(Options):
    lease_seconds: float = 10
    strict_receipts: bool = True  # a receipt dies with its deadline; otherwise with the next delivery
    exactly_once: bool = False  # strict, and a consumer learns whether its ack counted
    ordering: bool = False
    ordering_window: int = 1  # messages of one key outstanding at a time
    filter: str = ""
    retry_minimum_seconds: float = 0  # both 0: redelivered at once
    retry_maximum_seconds: float = 0
    dead_letter_topic: str = ""
    max_delivery_attempts: int = 5  # counts only with a dead letter topic
    expired_topic: str = ""  # where messages go whose time to live ended; empty: they are dropped
    flow_max_messages: int = 0  # leased at a time; 0: no limit
    flow_max_bytes: int = 0
    retention_seconds: float = 7 * 86400  # how long an unacked message is kept; 0: no limit
    retain_acked: bool = False  # keep acked ones as long, so that seek can go back
    expiration_seconds: float = 0  # unused for so long, the subscription is deleted; 0: never
    labels: dict[str, str] = field(default_factory=dict)
    extras: dict[str, str] = field(default_factory=dict)
