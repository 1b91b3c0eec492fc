"""Messages checked against the schema of their topic."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from penstock.broker.model import Draft, TopicOptions
from penstock.doors.google.errors import CallError, Code, invalid
from penstock.doors.google.messages import Topic
from penstock.doors.google.names import DELETED_SCHEMA
from penstock.doors.google.schemas.avro_binary import values_max
from penstock.doors.google.topics import kept_settings
from penstock.engine.port import TopicMetadata

T = TypeVar("T")

PROTOCOL_BUFFER, AVRO = 1, 2
JSON, BINARY = 1, 2
CACHED_SCHEMAS, CACHED_BYTES = 256, 4 << 20  # of compiled schemas. The bytes are those of their definitions
INLINE_VALUES = 20_000  # bodies that may have more are checked and decoded in a thread
NAME_ATTRIBUTE = "googclient_schemaname"
ENCODING_ATTRIBUTE = "googclient_schemaencoding"
REVISION_ATTRIBUTE = "googclient_schemarevisionid"


class Compiled(Protocol):
    """A compiled schema. Its checks raise an exception if a message does not fit."""

    def check_json(self, data: bytes) -> None: ...

    def check_binary(self, data: bytes) -> None: ...

    def json_of(self, data: bytes) -> str:
        """Return a binary message as JSON."""

    def check_change(self, earlier: Any) -> None:
        """Raise ValueError unless this schema can be a revision after an earlier one of the same type."""


_Key = tuple[int, str, bytes, str]
_cache: OrderedDict[_Key, Compiled] = OrderedDict()
_cache_lock = threading.Lock()


def compile_schema(kind: int, definition: str, compiled: Any) -> Compiled:
    """Compile a definition, or take it from the cache. Raise ValueError if it is invalid."""
    key = (kind, definition, compiled.compiled_bytes, compiled.root_message)
    with _cache_lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
    schema = _compile(*key)
    with _cache_lock:
        _cache[key] = schema
        while len(_cache) > CACHED_SCHEMAS or sum(len(text) + len(file) for _, text, file, _ in _cache) > CACHED_BYTES:
            _cache.popitem(last=False)
    return schema


def _compile(kind: int, definition: str, compiled: bytes, root: str) -> Compiled:
    # Imported here, because most servers never have a schema.
    if kind == AVRO:
        from penstock.doors.google.schemas.avro import AvroSchema

        return AvroSchema(definition)
    if kind == PROTOCOL_BUFFER:
        from penstock.doors.google.schemas.protobuf import ProtoSchema

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


def allowed_revisions(revisions: list[Any], settings: Any) -> list[Any]:
    """Return the revisions that a topic accepts, newest first."""
    ids = [revision.revision_id for revision in revisions]
    first = ids.index(settings.first_revision_id) if settings.first_revision_id in ids else 0
    last = ids.index(settings.last_revision_id) if settings.last_revision_id in ids else len(ids) - 1
    return revisions[first : last + 1][::-1]


class Checks:
    """Checks of bodies: at once where they end within milliseconds, else in a thread, one request after another."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T], sizes: Iterable[int], schemas: int = 1) -> T:
        """Return the result of `work` on bodies of these sizes in bytes. Each body may be tried with every schema."""
        if schemas * sum(map(values_max, sizes)) <= INLINE_VALUES:
            return work()
        async with self._turn:
            return await asyncio.to_thread(work)


class Validation:
    """The check of drafts before they are published."""

    def __init__(self, revisions: Callable[[str], Awaitable[list[Any]]]) -> None:
        """`revisions` returns the revisions of a schema, oldest first."""
        self._revisions = revisions
        self._cache: dict[str, tuple[TopicOptions, Any]] = {}  # options and decoded settings, by topic
        self._checks = Checks()

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        settings = self._settings(topic)
        if settings is None:
            return drafts
        allowed = await self._allowed_revisions(settings)

        def work() -> list[Draft]:
            return [self._validate_draft(draft, allowed, settings) for draft in drafts]

        return await self._checks.run(work, (len(draft.data) for draft in drafts), len(allowed))

    def _settings(self, topic: TopicMetadata) -> Any:
        cached = self._cache.get(topic.name)
        if cached is not None and cached[0] is topic.options:
            return cached[1]
        kept = kept_settings(topic.options.extras, Topic)
        settings = kept.schema_settings if kept.HasField("schema_settings") else None
        if len(self._cache) > 10_000:
            self._cache.clear()
        self._cache[topic.name] = (topic.options, settings)
        return settings

    async def _allowed_revisions(self, settings: Any) -> list[Any]:
        revisions = await self._revisions(settings.schema) if settings.schema != DELETED_SCHEMA else []
        if not revisions:
            raise CallError(Code.NOT_FOUND, "Schema associated with topic deleted.")
        return allowed_revisions(revisions, settings)

    def _validate_draft(self, draft: Draft, allowed: list[Any], settings: Any) -> Draft:
        for schema in allowed:
            if fits(schema, settings.encoding, draft.data):
                schema_attributes = {
                    NAME_ATTRIBUTE: schema.name,
                    ENCODING_ATTRIBUTE: "BINARY" if settings.encoding == BINARY else "JSON",
                    REVISION_ATTRIBUTE: schema.revision_id,
                }
                return draft._replace(attributes={**draft.attributes, **schema_attributes})
        raise invalid("Invalid data in message: Message failed schema validation.")
