"""What the server and its reader process say to each other, as records.

The rule kept here: plain values in the broker's words. Both sides come from one installation, so nothing here is
kept for older ones.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec

from penstock.broker.limits import Limits
from penstock.broker.model import Draft

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode


class Letter(msgspec.Struct, array_like=True):
    def packed(self) -> bytes:
        return _encode(self)


def pack(value: Any) -> bytes:
    return _encode(value)


def unpack(body: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(body, type=kind)


class Hello(Letter):
    """How the reader process is to serve; secrets come this way and not on its command line."""

    host: str
    port: int
    project: str  # of topics named without one
    data: str | None  # the folder of the store; None: messages are asked for over the link
    limits: Limits
    tokens: list[str]
    certificate: bytes  # PEM; empty: no TLS
    private_key: bytes
    unfinished: list[str]  # queries whose decided rows were not all copied


class TopicBounds(Letter):
    name: str
    number: int
    identity: str
    first_id: int
    head: int
    tail: int
    head_position: int
    position: int  # at the tail


class BoundsAsked(Letter):
    names: list[str] | None  # None: all topics
    after: dict[str, int] = {}
    wait_seconds: float = 0
    missing_ok: bool = False  # topics that are not there are left out


class FindAsked(Letter):
    topic: str
    at: int  # nanoseconds


class ReadAsked(Letter):
    topic: int
    first: int
    until: int


class Slice(Letter):
    """A stored batch, on its way over the link."""

    first: int
    until: int
    body: bytes


Row: TypeAlias = tuple[bytes, dict[str, str], str]  # the fields of a draft that a row can have


class Rows(Letter):
    """Rows that the reader process has checked, and their sizes."""

    drafts: list[Row]
    sizes: list[int]


class Publish(Letter):
    """Publish these rows, after those that were sent before under the same number."""

    topic: str
    producer: str  # empty: without a publish-once key
    epoch: int
    sequence: int
    rows: Rows


class Drafts(Letter):
    """Rows as the server reads them."""

    drafts: list[Draft]
    sizes: list[int]


class PublishDrafts(Letter):
    topic: str
    producer: str
    epoch: int
    sequence: int
    rows: Drafts


class Published(Letter):
    first: int
    rows: int
    repeated: bool


class CursorAt(Letter):
    """A cursor that is to be, or to go, somewhere."""

    subscription: str  # what it is called if it is new
    consumer: str
    topic: str
    offset: int
    identity: str = ""  # of the topic that is meant; empty: whichever has the name
    other: str = ""  # what it may be called as well


class CursorSeen(Letter):
    consumer: str
    topic: str
    offset: int
    lag: int
    opened: bool = False
    replaced: bool = False  # it stood in a topic that was deleted, and begins anew


class Decision(Letter):
    """Which staged rows of a query count for an epoch."""

    query: str
    epoch: int
    ranges: list[tuple[int, int]]  # (first, until), in the order of publishing
    finished: bool = False


class Decided(Letter):
    decision: Decision
    repeated: bool  # another one was there before
