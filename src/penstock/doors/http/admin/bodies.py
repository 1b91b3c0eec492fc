"""How much of the bodies of messages is told, and whether they are decoded by their schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeAlias

import msgspec

from penstock.broker.model import Message as StoredMessage
from penstock.doors.http.admin.calls import Context
from penstock.doors.http.admin.records import DecodedBody, Message, message_record
from penstock.engine.port import TopicMetadata

Decode: TypeAlias = Annotated[bool, msgspec.Meta(description="Bodies also as JSON, by the schema of their topic.")]
BodyBytes: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=1 << 30, description="At most so many bytes of a body; 0: all of it.")
]


class Asked(Protocol):
    decode: Decode
    body_bytes: BodyBytes


class BodyQuery(msgspec.Struct, forbid_unknown_fields=True):
    project: str = ""
    decode: Decode = False
    body_bytes: BodyBytes = 0


async def records_of(
    context: Context, topic: TopicMetadata, messages: Sequence[StoredMessage], asked: Asked
) -> list[Message]:
    records = [message_record(each, topic.name, topic.first_id, asked.body_bytes) for each in messages]
    if asked.decode and context.decoder is not None:
        for record, decoded in zip(records, await context.decoder.decode(topic, messages), strict=True):
            record.decoded = DecodedBody(*decoded) if decoded is not None else None
    return records
