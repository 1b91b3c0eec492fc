"""Schemas and their revisions: the SchemaService."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from penstock.doors.google import names, paging, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import (
    CallError,
    Code,
    already_exists,
    bad_argument,
    failed_precondition,
    invalid,
    not_found,
)
from penstock.doors.google.messages import Empty, Schema, Topic, response
from penstock.doors.google.topics import EXTRAS, kept_settings, settings_to_keep
from penstock.doors.google.validation import INLINE_BYTES, compile_schema, fits
from penstock.engine.port import Queue

KIND = "google.schema"
DEFINITION_BYTES_MAX = 300 << 10
REVISIONS_MAX = 20
BASIC, FULL = 1, 2

Revisions: TypeAlias = list[Any]  # of one schema, oldest first
_Revisions = response("ListSchemaRevisionsResponse")  # also the form in which revisions are kept


class Schemas:
    def __init__(self, queue: Queue, now: Callable[[], int]) -> None:
        self._queue = queue
        self._now = now

    # ------------------------------------------------------------------ making

    async def create(self, request: Any, context: Context) -> Any:
        parent = names.check_project(request.parent)
        name = names.check(f"{parent}/schemas/{request.schema_id or f's-{secrets.token_hex(12)}'}", "schemas")
        if await self._queue.document(KIND, name) is not None:
            raise already_exists(name)
        check_definition(request.schema)
        return await self._keep(name, [self._revision(name, request.schema)])

    async def commit(self, request: Any, context: Context) -> Any:
        revisions = await self._found(request.name)
        if request.schema.type != revisions[-1].type:
            raise invalid("The type of a schema cannot change.")
        if request.schema.name and request.schema.name != request.name:
            raise bad_argument("schema.name")
        check_definition(request.schema)
        return await self._add(request.name, revisions, request.schema)

    async def rollback(self, request: Any, context: Context) -> Any:
        revisions = await self._found(request.name)
        if not request.revision_id:
            raise bad_argument("revision_id")
        return await self._add(request.name, revisions, _chosen(revisions, request.name, request.revision_id))

    async def _add(self, name: str, revisions: Revisions, schema: Any) -> Any:
        if len(revisions) >= REVISIONS_MAX:
            raise CallError(Code.RESOURCE_EXHAUSTED, f"A schema may have at most {REVISIONS_MAX} revisions.")
        return await self._keep(name, [*revisions, self._revision(name, schema)])

    def _revision(self, name: str, schema: Any) -> Any:
        revision = Schema()
        revision.CopyFrom(schema)
        revision.name = name
        revision.revision_id = secrets.token_hex(4)
        revision.revision_create_time.FromNanoseconds(self._now())
        return revision

    async def _keep(self, name: str, revisions: Revisions) -> Any:
        await self._queue.put_document(KIND, name, _Revisions(schemas=revisions).SerializeToString())
        return revisions[-1]

    # ------------------------------------------------------------------ looking

    async def get(self, request: Any, context: Context) -> Any:
        name, revision = parted(request.name)
        revisions = await self._found(name)
        return viewed(_chosen(revisions, name, revision) if revision else revisions[-1], request.view or FULL)

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.parent)}/schemas/"
        known = [name for name in await self._queue.documents(KIND) if name.startswith(prefix)]
        chosen, token = paging.page(known, request.page_size, request.page_token)
        listed = [viewed((await self.revisions(name))[-1], request.view or BASIC) for name in chosen]
        return response("ListSchemasResponse")(schemas=listed, next_page_token=token)

    async def list_revisions(self, request: Any, context: Context) -> Any:
        revisions = (await self._found(request.name))[::-1]  # the newest first
        order = {f"{place:04}": revision for place, revision in enumerate(revisions)}
        chosen, token = paging.page(order, request.page_size, request.page_token)
        listed = [viewed(order[place], request.view or BASIC) for place in chosen]
        return _Revisions(schemas=listed, next_page_token=token)

    async def revisions(self, name: str) -> Revisions:
        """Oldest first; empty if there is no such schema."""
        return list(_Revisions.FromString(await self._queue.document(KIND, name) or b"").schemas)

    async def _found(self, name: str) -> Revisions:
        revisions = await self.revisions(name)
        if not revisions:
            raise not_found(names.check(name, "schemas"))
        return revisions

    # ------------------------------------------------------------------ deleting

    async def delete_revision(self, request: Any, context: Context) -> Any:
        name, revision = parted(request.name)
        revisions = await self._found(name)
        if not revision and not request.revision_id:
            raise bad_argument("revision_id")
        unwanted = _chosen(revisions, name, revision or request.revision_id)
        if len(revisions) == 1:
            raise failed_precondition("The last revision of a schema cannot be deleted; delete the schema.")
        return await self._keep(name, [each for each in revisions if each is not unwanted])

    async def delete(self, request: Any, context: Context) -> Any:
        await self._found(request.name)
        await self._queue.remove_document(KIND, request.name)
        for topic in await self._queue.topics():  # a schema made anew under the same name is another one
            kept = kept_settings(topic.options.extras, Topic)
            if kept.schema_settings.schema == request.name:
                kept.schema_settings.schema = names.DELETED_SCHEMA
                extras = {**topic.options.extras, EXTRAS: settings_to_keep(kept, ())}
                await self._queue.change_topic(topic.name, replace(topic.options, extras=extras))
        return Empty()

    # ------------------------------------------------------------------ checking

    async def validate(self, request: Any, context: Context) -> Any:
        names.check_project(request.parent)
        check_definition(request.schema)
        return response("ValidateSchemaResponse")()

    async def validate_message(self, request: Any, context: Context) -> Any:
        names.check_project(request.parent)
        which = request.WhichOneof("schema_spec")
        if which == "name":
            name, revision = parted(request.name)
            revisions = await self._found(name)
            schema = _chosen(revisions, name, revision) if revision else revisions[-1]
        elif which == "schema":
            schema = request.schema
            check_definition(schema)
        else:
            raise bad_argument("schema_spec")
        if not request.encoding:
            raise bad_argument("encoding")
        small = len(request.message) <= INLINE_BYTES
        work = partial(fits, schema, request.encoding, request.message)
        if not (work() if small else await asyncio.to_thread(work)):
            raise invalid("Message failed schema validation.")
        return response("ValidateMessageResponse")()

    async def check_settings(self, settings: Any) -> None:
        """Whether a topic may use these SchemaSettings."""
        revisions = await self._found(settings.schema)
        if not settings.encoding:
            raise bad_argument("schema_settings.encoding")
        for revision in (settings.first_revision_id, settings.last_revision_id):
            if revision:
                _chosen(revisions, settings.schema, revision)


def parted(name: str) -> tuple[str, str]:
    """A schema's name and the revision behind it, if there is one."""
    schema, at, revision = name.partition("@")
    if at and not revision:
        raise names.bad_name(name)
    return schema, revision


def check_definition(schema: Any) -> None:
    ranges.within("definition size", len(schema.definition.encode()), None, DEFINITION_BYTES_MAX)
    try:
        compile_schema(schema.type, schema.definition, schema.compiled_proto_schema)
    except ValueError as error:
        raise invalid(str(error)) from None


def viewed(schema: Any, view: int) -> Any:
    if view == BASIC:
        schema.ClearField("definition")
        schema.ClearField("compiled_proto_schema")
    return schema


def _chosen(revisions: Revisions, name: str, revision: str) -> Any:
    for each in revisions:
        if each.revision_id == revision:
            return each
    raise not_found(f"{name}@{revision}")
