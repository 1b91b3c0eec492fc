"""Records between the server and its reader process, in MessagePack. Actions of clients are forwarded as JSON.

Both processes come from one installation, so records need no compatibility. Only Decision does: it is stored as well.
"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from penstock.broker.limits import Limits

T = TypeVar("T")

REQUEST = "REQUEST"  # the level of request log lines among the log lines of the reader process

pack = msgspec.msgpack.Encoder().encode


def unpack(body: bytes, kind: Any) -> Any:
    return msgspec.msgpack.decode(body, type=kind)


class Record(msgspec.Struct, array_like=True):
    pass


class Hello(Record):
    """The configuration of the reader process. It is not on the command line, because it has secrets."""

    host: str
    port: int
    project: str  # of topics named without one
    data: str | None  # the folder of the store. None: messages are read over the link
    limits: Limits
    tokens: list[str]
    certificate: bytes  # PEM. Empty: no TLS
    private_key: bytes
    unfinished: list[str] = []  # queries whose decided rows are not all copied
    log_level: int = 20
    log_requests: bool = False
    read_bytes_max: int = 0
    read_unread_seconds: float = 0


class TopicBounds(Record):
    """The fields of TopicMetadata that a scan needs."""

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
    """Rows checked by the reader process. They are sent as Row and received as Draft."""

    drafts: list[T]
    sizes: list[int]


class Publish(Record, Generic[T]):
    """The last frame of a publish: publish these rows after the rows of earlier frames with the same number."""

    topic: str
    producer: str  # empty: without a publish-once key
    epoch: int
    sequence: int
    rows: Rows[T]
    digest: int = 0  # of all rows of the publish. 0: without a publish-once key


class PublishResult(Record):
    first: int
    rows: int
    repeated: bool


class Decision(Record):
    """The staged rows of a query that are published in an epoch."""

    query: str
    epoch: int
    ranges: list[tuple[int, int]]  # (first, until), in the order of publishing
    finished: bool = False
    at: int = 0  # time of the decision, in nanoseconds since 1970. 0 in stores of older releases


class Decided(Record):
    decision: Decision
    repeated: bool  # the epoch was decided before
