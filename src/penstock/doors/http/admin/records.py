"""The records that go over the wire: what a topic, a subscription and a message look like to programs."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from penstock.broker import model

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(9999, 12, 31, tzinfo=UTC)
_LAST = (LAST_INSTANT - EPOCH) // timedelta(microseconds=1) * 1000

Count = Annotated[int, msgspec.Meta(ge=0)]
Counts = dict[str, int]
Now = Annotated[datetime, msgspec.Meta(description="The time there: the server's, or that of a project with its own.")]


def instant(nanoseconds: int) -> datetime | None:
    """A moment as a datetime, to the microsecond; None for never."""
    if not 0 < nanoseconds < model.FOREVER:
        return None
    return EPOCH + timedelta(microseconds=min(nanoseconds, _LAST) // 1000)


def made_at(nanoseconds: int) -> datetime:
    return instant(nanoseconds) or EPOCH


class Names(msgspec.Struct):
    """What clients of each protocol call a topic; null where they cannot name it."""

    pubsub: str | None
    azure: str | None
    text: str | None
    python: str | None
    spark: str | None


class Topic(msgspec.Struct):
    name: str
    project: str
    id: str
    created_at: datetime
    labels: dict[str, str]
    retention_seconds: float
    retention_bytes: Count
    schema: str
    first_offset: Count
    next_offset: Count
    messages: Count
    bytes: Count
    subscriptions: Count
    published: Count
    dropped: Counts
    publish_rate: float
    publish_bytes_rate: float
    last_published_at: datetime | None
    now: Now
    names: Names
    recent: list[float] | msgspec.UnsetType = msgspec.UNSET


class DecodedBody(msgspec.Struct):
    """A body by the schema it was published with, or the one of its topic: `text` is JSON; null: `problem` says why."""

    schema: str
    revision: str
    kind: str
    encoding: str
    text: str | None
    problem: str


class Message(msgspec.Struct):
    """A message of a topic: `data` where that is UTF-8, `data_base64` where it is not.

    `cut`: the body is longer than what was asked for. `decoded`: where that was asked for; null without a schema.
    """

    id: str
    topic: str
    offset: int
    publish_time: datetime
    attributes: dict[str, str]
    ordering_key: str
    size: int
    visible_at: datetime | None
    expires_at: datetime | None
    data: str | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | msgspec.UnsetType = msgspec.UNSET
    cut: bool | msgspec.UnsetType = msgspec.UNSET
    decoded: DecodedBody | msgspec.UnsetType | None = msgspec.UNSET


def message_record(message: model.Message, topic: str, first_id: int, body_bytes: int = 0) -> Message:
    """`body_bytes`: so much of the body; 0: all of it."""
    record = Message(
        str(first_id + message.offset),
        topic,
        message.offset,
        made_at(message.publish_time),
        message.attributes,
        message.ordering_key,
        message.size,
        instant(message.visible_at),
        instant(message.expires_at),
    )
    part = message.data[:body_bytes] if body_bytes else message.data
    if len(part) < len(message.data):
        record.cut = True
    try:
        text = message.data.decode()
        record.data = text if record.cut is msgspec.UNSET else part.decode(errors="ignore")
    except UnicodeDecodeError:
        record.data_base64 = base64.b64encode(part).decode()
    return record
