"""Messages held against the schema of their topic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Protocol

from penstock.broker.model import Draft, TopicOptions
from penstock.doors.google.errors import CallError, Code, invalid
from penstock.doors.google.messages import Topic
from penstock.doors.google.names import DELETED_SCHEMA
from penstock.doors.google.topics import kept_settings
from penstock.engine.port import TopicMetadata

PROTOCOL_BUFFER, AVRO = 1, 2
JSON, BINARY = 1, 2
INLINE_BYTES = 64 << 10  # larger bodies are checked and decoded in a thread beside the loop
NAME_ATTRIBUTE = "googclient_schemaname"
ENCODING_ATTRIBUTE = "googclient_schemaencoding"
REVISION_ATTRIBUTE = "googclient_schemarevisionid"


class Compiled(Protocol):
    """A schema that messages can be held against; what does not fit raises."""

    def check_json(self, data: bytes) -> None: ...

    def check_binary(self, data: bytes) -> None: ...

    def json_of(self, data: bytes) -> str:
        """A binary message as JSON."""


def compile_schema(kind: int, definition: str, compiled: Any) -> Compiled:
    """ValueError says what is wrong with a definition."""
    return _compile(kind, definition, compiled.compiled_bytes, compiled.root_message)


@lru_cache(maxsize=256)
def _compile(kind: int, definition: str, compiled: bytes, root: str) -> Compiled:
    # Imported where needed: most servers never see a schema.
    if kind == AVRO:
        from penstock.doors.google.avro import AvroSchema

        return AvroSchema(definition)
    if kind == PROTOCOL_BUFFER:
        from penstock.doors.google.protofile import ProtoSchema

        return ProtoSchema(definition, compiled, root)
    raise ValueError("The type of a schema must be AVRO or PROTOCOL_BUFFER.")


def fits(schema: Any, encoding: int, data: bytes) -> bool:
    compiled = compile_schema(schema.type, schema.definition, schema.compiled_proto_schema)
    try:
        if encoding == JSON:
            compiled.check_json(data)
        else:
            compiled.check_binary(data)
    except Exception:  # noqa: BLE001 - for hostile input the libraries below may raise anything at all
        return False
    return True


def allowed(revisions: list[Any], settings: Any) -> list[Any]:
    """The revisions a topic accepts, newest first."""
    ids = [revision.revision_id for revision in revisions]
    first = ids.index(settings.first_revision_id) if settings.first_revision_id in ids else 0
    last = ids.index(settings.last_revision_id) if settings.last_revision_id in ids else len(ids) - 1
    return revisions[first : last + 1][::-1]


class Validation:
    """Drafts on their way into a topic."""

    def __init__(self, revisions: Callable[[str], Awaitable[list[Any]]]) -> None:
        """`revisions` gives those of a schema by its name, oldest first."""
        self._revisions = revisions
        self._known: dict[str, tuple[TopicOptions, Any]] = {}  # what was decoded last, by topic

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        settings = self._settings(topic)
        if settings is None:
            return drafts
        allowed = await self._allowed(settings)

        def work() -> list[Draft]:
            return [self._validated(draft, allowed, settings) for draft in drafts]

        small = sum(len(draft.data) for draft in drafts) <= INLINE_BYTES
        return work() if small else await asyncio.to_thread(work)

    def _settings(self, topic: TopicMetadata) -> Any:
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic.options:
            return known[1]
        kept = kept_settings(topic.options.extras, Topic)
        settings = kept.schema_settings if kept.HasField("schema_settings") else None
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[topic.name] = (topic.options, settings)
        return settings

    async def _allowed(self, settings: Any) -> list[Any]:
        revisions = await self._revisions(settings.schema) if settings.schema != DELETED_SCHEMA else []
        if not revisions:
            raise CallError(Code.NOT_FOUND, "Schema associated with topic deleted.")
        return allowed(revisions, settings)

    def _validated(self, draft: Draft, allowed: list[Any], settings: Any) -> Draft:
        for schema in allowed:
            if fits(schema, settings.encoding, draft.data):
                named = {
                    NAME_ATTRIBUTE: schema.name,
                    ENCODING_ATTRIBUTE: "BINARY" if settings.encoding == BINARY else "JSON",
                    REVISION_ATTRIBUTE: schema.revision_id,
                }
                return draft._replace(attributes={**draft.attributes, **named})
        raise invalid("Invalid data in message: Message failed schema validation.")
