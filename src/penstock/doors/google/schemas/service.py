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
from penstock.doors.google.schemas.validation import Checks, compile_schema, fits
from penstock.doors.google.topics import EXTRAS, kept_settings, settings_to_keep
from penstock.engine.port import Queue

KIND = "google.schema"
DEFINITION_BYTES_MAX = 300 << 10
REVISIONS_MAX = 20
BASIC, FULL = 1, 2

Revisions: TypeAlias = list[Any]  # of one schema, oldest first
_Revisions = response("ListSchemaRevisionsResponse")  # revisions are stored in this form too


class Schemas:
    def __init__(self, queue: Queue, now: Callable[[], int]) -> None:
        self._queue = queue
        self._now = now
        self._checks = Checks()

    # ------------------------------------------------------------------ creating

    async def create(self, request: Any, context: Context) -> Any:
        parent = names.check_project(request.parent)
        name = names.check(f"{parent}/schemas/{request.schema_id or f's-{secrets.token_hex(12)}'}", "schemas")
        if await self._queue.document(KIND, name) is not None:
            raise already_exists(name)
        check_definition(request.schema)
        return await self._keep(name, [self._revision(name, request.schema)])

    async def commit(self, request: Any, context: Context) -> Any:
        revisions = await self._get_revisions(request.name)
        check_type(request.schema, revisions[-1])
        if request.schema.name and request.schema.name != request.name:
            raise bad_argument("schema.name")
        check_definition(request.schema)
        compared: set[str] = set()
        while others := [revision for revision in revisions if revision.revision_id not in compared]:
            check_change(request.name, request.schema, others[-1])
            compared.add(others[-1].revision_id)
            await asyncio.sleep(0)  # a comparison of large definitions takes some time
            revisions = await self._get_revisions(request.name)
        return await self._add(request.name, revisions, request.schema)

    async def rollback(self, request: Any, context: Context) -> Any:
        revisions = await self._get_revisions(request.name)
        if not request.revision_id:
            raise bad_argument("revision_id")
        return await self._add(request.name, revisions, _find_revision(revisions, request.name, request.revision_id))

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

    # ------------------------------------------------------------------ reading

    async def get(self, request: Any, context: Context) -> Any:
        name, revision = split_revision(request.name)
        revisions = await self._get_revisions(name)
        return apply_view(
            _find_revision(revisions, name, revision) if revision else revisions[-1], request.view or FULL
        )

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.parent)}/schemas/"
        all_names = [name for name in await self._queue.documents(KIND) if name.startswith(prefix)]
        chosen, token = paging.page(all_names, request.page_size, request.page_token)
        listed = [apply_view((await self.revisions(name))[-1], request.view or BASIC) for name in chosen]
        return response("ListSchemasResponse")(schemas=listed, next_page_token=token)

    async def list_revisions(self, request: Any, context: Context) -> Any:
        revisions = (await self._get_revisions(request.name))[::-1]  # newest first
        order = {f"{index:04}": revision for index, revision in enumerate(revisions)}
        chosen, token = paging.page(order, request.page_size, request.page_token)
        listed = [apply_view(order[key], request.view or BASIC) for key in chosen]
        return _Revisions(schemas=listed, next_page_token=token)

    async def revisions(self, name: str) -> Revisions:
        """Return the revisions of a schema, oldest first. Empty if there is no such schema."""
        return list(_Revisions.FromString(await self._queue.document(KIND, name) or b"").schemas)

    async def _get_revisions(self, name: str) -> Revisions:
        revisions = await self.revisions(name)
        if not revisions:
            raise not_found(names.check(name, "schemas"))
        return revisions

    # ------------------------------------------------------------------ deleting

    async def delete_revision(self, request: Any, context: Context) -> Any:
        name, revision = split_revision(request.name)
        revisions = await self._get_revisions(name)
        if not revision and not request.revision_id:
            raise bad_argument("revision_id")
        unwanted = _find_revision(revisions, name, revision or request.revision_id)
        if len(revisions) == 1:
            raise failed_precondition("The last revision of a schema cannot be deleted; delete the schema.")
        return await self._keep(name, [kept for kept in revisions if kept is not unwanted])

    async def delete(self, request: Any, context: Context) -> Any:
        await self._get_revisions(request.name)
        await self._queue.remove_document(KIND, request.name)
        for topic in await self._queue.topics():  # a schema recreated under the same name is another schema
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
            name, revision = split_revision(request.name)
            revisions = await self._get_revisions(name)
            schema = _find_revision(revisions, name, revision) if revision else revisions[-1]
        elif which == "schema":
            schema = request.schema
            check_definition(schema)
        else:
            raise bad_argument("schema_spec")
        if not request.encoding:
            raise bad_argument("encoding")
        work = partial(fits, schema, request.encoding, request.message)
        if not await self._checks.run(work, [len(request.message)]):
            raise invalid("Message failed schema validation.")
        return response("ValidateMessageResponse")()

    async def check_settings(self, settings: Any) -> None:
        """Raise CallError unless a topic may use these SchemaSettings."""
        revisions = await self._get_revisions(settings.schema)
        if not settings.encoding:
            raise bad_argument("schema_settings.encoding")
        for revision in (settings.first_revision_id, settings.last_revision_id):
            if revision:
                _find_revision(revisions, settings.schema, revision)


def split_revision(name: str) -> tuple[str, str]:
    """Split a name into that of the schema and the revision, which may be empty."""
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


def check_type(schema: Any, revision: Any) -> None:
    if schema.type != revision.type:
        raise invalid("The type of a schema cannot change.")


def check_change(name: str, schema: Any, revision: Any) -> None:
    """Check that a definition is compatible with an earlier revision of its schema."""
    check_type(schema, revision)
    new, earlier = (
        compile_schema(side.type, side.definition, side.compiled_proto_schema) for side in (schema, revision)
    )
    try:
        new.check_change(earlier)
    except ValueError as error:
        raise invalid(
            f'Compatibility checking failed to commit a schema revision for (schema="{name}"). '
            f'(reason="Revision is incompatible with previous revision: {revision.revision_id}. '
            f'Failed with error: {str(error)[:300]}"). '
            "Refer to https://cloud.google.com/pubsub/docs/schemas for more information."
        ) from None


def apply_view(schema: Any, view: int) -> Any:
    if view == BASIC:
        schema.ClearField("definition")
        schema.ClearField("compiled_proto_schema")
    return schema


def _find_revision(revisions: Revisions, name: str, revision: str) -> Any:
    for schema in revisions:
        if schema.revision_id == revision:
            return schema
    raise not_found(f"{name}@{revision}")
