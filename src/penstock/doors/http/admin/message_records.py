"""Messages as records of the admin API: how much of a body they hold, and the body decoded by its schema."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Protocol, TypeAlias

import msgspec

from penstock.broker import model
from penstock.broker.model import Message as StoredMessage
from penstock.doors.http.admin.calls import Context
from penstock.doors.http.admin.instants import instant, made_at
from penstock.engine.port import TopicMetadata

CHUNK_MESSAGES = 20  # between two looks at the clock

Decode: TypeAlias = Annotated[bool, msgspec.Meta(description="Decode bodies by the schema of the topic.")]
BodyBytes: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=1 << 30, description="Maximum bytes of a body. 0 means the whole body.")
]


class Asked(Protocol):
    decode: Decode
    body_bytes: BodyBytes


class BodyQuery(msgspec.Struct, forbid_unknown_fields=True):
    project: str = ""
    decode: Decode = False
    body_bytes: BodyBytes = 0


class DecodedBody(msgspec.Struct):
    """A body decoded by the schema it was published with, or by the schema of its topic.

    `text` is JSON. If `text` is null, `problem` says why.
    """

    schema: str
    revision: str
    kind: str
    encoding: str
    text: str | None
    problem: str


class Message(msgspec.Struct):
    """A message of a topic: with `data` if the body is UTF-8, else with `data_base64`.

    `cut`: the body is longer than `body_bytes`. `decoded`: only on request, and null without a schema.
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
    """Return a message as a record. `body_bytes`: maximum bytes of the body; 0: the whole body."""
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


async def records_of(
    context: Context, topic: TopicMetadata, messages: Sequence[StoredMessage], asked: Asked
) -> list[Message]:
    """Return the messages as records. The work is done in slices of the share of lists."""

    async def work(chunk: Sequence[StoredMessage]) -> list[Message]:
        return await make_records(context, topic, chunk, asked)

    return await context.listing.map_chunks(work, messages, CHUNK_MESSAGES)


async def make_records(
    context: Context, topic: TopicMetadata, messages: Sequence[StoredMessage], asked: Asked
) -> list[Message]:
    """Return a few messages as records, at once."""
    records = [message_record(message, topic.name, topic.first_id, asked.body_bytes) for message in messages]
    if asked.decode and context.decoder is not None:
        for record, decoded in zip(records, await context.decoder.decode(topic, messages), strict=True):
            record.decoded = DecodedBody(*decoded) if decoded is not None else None
    return records
