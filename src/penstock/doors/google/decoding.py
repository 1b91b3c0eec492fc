"""Stored messages decoded by the schema they were published with, else by the one that their topic has now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock.broker.model import Draft, Message
from penstock.doors.decoding import Decoded
from penstock.doors.google.avro_binary import TooLargeError
from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.messages import Topic
from penstock.doors.google.names import DELETED_SCHEMA
from penstock.doors.google.schemas import Schemas
from penstock.doors.google.topics import kept_settings
from penstock.doors.google.validation import (
    AVRO,
    BINARY,
    ENCODING_ATTRIBUTE,
    INLINE_BYTES,
    JSON,
    NAME_ATTRIBUTE,
    REVISION_ATTRIBUTE,
    Validation,
    allowed,
    compile_schema,
)
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import FailedPreconditionError, InvalidArgumentError

TEXT_BYTES_MAX = 16 << 20

_KINDS = {AVRO: "AVRO"}
_ENCODINGS = {"JSON": JSON, "BINARY": BINARY}


class SchemaDecoder:
    def __init__(self, queue: Queue) -> None:
        self._schemas = Schemas(queue, queue.clock.now)
        self._validation = Validation(self._schemas.revisions)

    async def decode(self, topic: TopicMetadata, messages: Sequence[Message]) -> list[Decoded | None]:
        settings = _settings(topic)
        named = {each.attributes.get(NAME_ATTRIBUTE, "") for each in messages}
        if settings is not None:
            named.add(settings.schema)
        known = {name: await self._schemas.revisions(name) for name in named - {"", DELETED_SCHEMA}}

        def work() -> list[Decoded | None]:
            return [_decoded(message, settings, known) for message in messages]

        small = sum(message.size for message in messages) <= INLINE_BYTES
        return work() if small else await asyncio.to_thread(work)

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        try:
            return await self._validation.validate(topic, drafts)
        except CallError as error:
            kind = InvalidArgumentError if error.code is Code.INVALID_ARGUMENT else FailedPreconditionError
            raise kind(error.message) from None

    def schema_of(self, topic: TopicMetadata) -> str:
        settings = _settings(topic)
        return str(settings.schema) if settings is not None else ""


def _settings(topic: TopicMetadata) -> Any:
    kept = kept_settings(topic.options.extras, Topic)
    return kept.schema_settings if kept.HasField("schema_settings") else None


def _decoded(message: Message, settings: Any, known: dict[str, list[Any]]) -> Decoded | None:
    attributes = message.attributes
    name = attributes.get(NAME_ATTRIBUTE) or (settings.schema if settings is not None else "")
    if not name:
        return None
    encoding = _ENCODINGS.get(attributes.get(ENCODING_ATTRIBUTE, "")) or (settings.encoding if settings else BINARY)
    revisions, wanted = known.get(name, []), attributes.get(REVISION_ATTRIBUTE)
    own = [each for each in revisions if each.revision_id == wanted]
    tried = own or (allowed(revisions, settings) if settings is not None and settings.schema == name else revisions)
    if not tried:
        return Decoded(name, wanted or "", "", _named(encoding), None, "The schema of this message was deleted.")
    for schema in tried:
        try:
            text = _text(schema, encoding, message.data)
        except ModuleNotFoundError as error:
            needed = f"Decoding needs {error.name}: pip install 'penstock[google]'"
            return _answer(schema, encoding, None, needed)
        except TooLargeError as error:
            return _answer(schema, encoding, None, str(error))
        if text is not None:
            problem = "" if len(text) <= TEXT_BYTES_MAX else "Decoded, this message is too large to be shown."
            return _answer(schema, encoding, None if problem else text, problem)
    return _answer(tried[0], encoding, None, "The body does not fit the schema.")


def _answer(schema: Any, encoding: int, text: str | None, problem: str) -> Decoded:
    kind = _KINDS.get(schema.type, "PROTOCOL_BUFFER")
    return Decoded(schema.name, schema.revision_id, kind, _named(encoding), text, problem)


def _named(encoding: int) -> str:
    return "JSON" if encoding == JSON else "BINARY"


def _text(schema: Any, encoding: int, data: bytes) -> str | None:
    """The body as JSON; None if it does not fit."""
    compiled = compile_schema(schema.type, schema.definition, schema.compiled_proto_schema)
    try:
        if encoding == JSON:
            compiled.check_json(data)
            return data.decode()
        return compiled.json_of(data)
    except TooLargeError:
        raise
    except Exception:  # noqa: BLE001 - for hostile input the libraries below may raise anything at all
        return None
