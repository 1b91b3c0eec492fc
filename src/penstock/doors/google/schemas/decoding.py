"""Stored messages decoded by the schema of their publish, or else by the current schema of their topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.broker.model import Draft, Message
from penstock.doors.decoding import Decoded
from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.messages import Topic
from penstock.doors.google.names import DELETED_SCHEMA
from penstock.doors.google.schemas.avro_binary import TooLargeError
from penstock.doors.google.schemas.service import Schemas
from penstock.doors.google.schemas.validation import (
    AVRO,
    BINARY,
    ENCODING_ATTRIBUTE,
    JSON,
    NAME_ATTRIBUTE,
    REVISION_ATTRIBUTE,
    Checks,
    Validation,
    allowed_revisions,
    compile_schema,
)
from penstock.doors.google.topics import kept_settings
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import FailedPreconditionError, InvalidArgumentError

TEXT_BYTES_MAX = 16 << 20

_KINDS = {AVRO: "AVRO"}
_ENCODINGS = {"JSON": JSON, "BINARY": BINARY}


class SchemaDecoder:
    def __init__(self, queue: Queue) -> None:
        self._schemas = Schemas(queue, queue.clock.now)
        self._validation = Validation(self._schemas.revisions)
        self._checks = Checks()

    async def decode(self, topic: TopicMetadata, messages: Sequence[Message]) -> list[Decoded | None]:
        settings = _settings(topic)
        names = {message.attributes.get(NAME_ATTRIBUTE, "") for message in messages}
        if settings is not None:
            names.add(settings.schema)
        revisions = {name: await self._schemas.revisions(name) for name in names - {"", DELETED_SCHEMA}}

        def work() -> list[Decoded | None]:
            return [_decode(message, settings, revisions) for message in messages]

        schemas = max(map(len, revisions.values()), default=0)
        return await self._checks.run(work, (len(message.data) for message in messages), schemas)

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


def _decode(message: Message, settings: Any, revisions_by_schema: dict[str, list[Any]]) -> Decoded | None:
    attributes = message.attributes
    name = attributes.get(NAME_ATTRIBUTE) or (settings.schema if settings is not None else "")
    if not name:
        return None
    encoding = _ENCODINGS.get(attributes.get(ENCODING_ATTRIBUTE, "")) or (settings.encoding if settings else BINARY)
    revisions, revision_id = revisions_by_schema.get(name, []), attributes.get(REVISION_ATTRIBUTE)
    published_with = [schema for schema in revisions if schema.revision_id == revision_id]
    candidates = published_with or (
        allowed_revisions(revisions, settings) if settings is not None and settings.schema == name else revisions
    )
    if not candidates:
        return Decoded(
            name, revision_id or "", "", _encoding_name(encoding), None, "The schema of this message was deleted."
        )
    for schema in candidates:
        try:
            text = _to_json(schema, encoding, message.data)
        except ModuleNotFoundError as error:
            problem = f"Decoding needs {error.name}: pip install 'penstock-broker[google]'"
            return _result(schema, encoding, None, problem)
        except TooLargeError as error:
            return _result(schema, encoding, None, str(error))
        if text is not None:
            problem = "" if len(text) <= TEXT_BYTES_MAX else "The decoded message is too large to show."
            return _result(schema, encoding, None if problem else text, problem)
    return _result(candidates[0], encoding, None, "The body does not fit the schema.")


def _result(schema: Any, encoding: int, text: str | None, problem: str) -> Decoded:
    kind = _KINDS.get(schema.type, "PROTOCOL_BUFFER")
    return Decoded(schema.name, schema.revision_id, kind, _encoding_name(encoding), text, problem)


def _encoding_name(encoding: int) -> str:
    return "JSON" if encoding == JSON else "BINARY"


def _to_json(schema: Any, encoding: int, data: bytes) -> str | None:
    """Return a body as JSON, or None if it does not fit the schema."""
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
