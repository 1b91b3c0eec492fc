"""Records between the server and its reader process, as MessagePack; actions of clients are forwarded as they came.

Both processes come from one installation, so nothing is kept for older ones, but for Decision: it is stored as well.
"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from penstock.broker.limits import Limits

T = TypeVar("T")

REQUEST = "REQUEST"  # before a line of the request log, among the log lines of the reader process

pack = msgspec.msgpack.Encoder().encode


def unpack(body: bytes, kind: Any) -> Any:
    return msgspec.msgpack.decode(body, type=kind)


class Record(msgspec.Struct, array_like=True):
    pass


class Hello(Record):
    """How the reader process is to serve; secrets come this way and not on its command line."""

    host: str
    port: int
    project: str  # of topics named without one
    data: str | None  # the folder of the store; None: messages are read over the link
    limits: Limits
    tokens: list[str]
    certificate: bytes  # PEM; empty: no TLS
    private_key: bytes
    unfinished: list[str] = []  # queries whose decided rows were not all copied
    log_level: int = 20
    log_requests: bool = False


class TopicBounds(Record):
    """What a scan has to know of a topic: fields of TopicMetadata."""

    name: str
    number: int
    identity: str
    first_id: int
    head: int
    tail: int
    head_position: int
    position: int  # at the tail


Row: TypeAlias = tuple[bytes, dict[str, str], str]  # the fields of a draft that a row can have


class Rows(Record, Generic[T]):
    """Checked by the reader process: sent as Row, received as Draft."""

    drafts: list[T]
    sizes: list[int]


class Publish(Record, Generic[T]):
    """Publish these rows, after those that were sent before under the same number."""

    topic: str
    producer: str  # empty: without a publish-once key
    epoch: int
    sequence: int
    rows: Rows[T]


class PublishResult(Record):
    first: int
    rows: int
    repeated: bool


class Decision(Record):
    """Which staged rows of a query count for an epoch."""

    query: str
    epoch: int
    ranges: list[tuple[int, int]]  # (first, until), in the order of publishing
    finished: bool = False


class Decided(Record):
    decision: Decision
    repeated: bool  # another one was there before
