"""The Pub/Sub settings of topics and subscriptions in a seed, and schemas.

These are the settings that the broker does not know: push, destinations, transforms, schema settings. Fields have the
names of the .proto files. A duration is `"10s"`, a number of seconds, or {"seconds": 10}.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from google.protobuf import json_format

from penstock.doors.google import update_masks
from penstock.doors.google.destinations import KeptSettings, check_destinations, fill_version
from penstock.doors.google.endpoints import Endpoints
from penstock.doors.google.errors import CallError
from penstock.doors.google.json_messages import parse_message
from penstock.doors.google.messages import POOL, Schema, Subscription, Topic, response
from penstock.doors.google.schemas.service import KIND, REVISIONS_MAX, check_change, check_definition
from penstock.doors.google.subscriptions import BROKERS as OF_SUBSCRIPTIONS
from penstock.doors.google.topics import BROKERS as OF_TOPICS
from penstock.doors.google.topics import EXTRAS, check_transforms, kept_settings, settings_to_keep
from penstock.errors import InvalidArgumentError

KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "topic": (Topic, OF_TOPICS),
    "subscription": (Subscription, OF_SUBSCRIPTIONS),
}
_DURATION = "google.protobuf.Duration"
_Revisions = response("ListSchemaRevisionsResponse")

log = logging.getLogger("penstock.doors.google")


class Seeds:
    """The Pub/Sub part of a seed."""

    keys = frozenset({EXTRAS})
    schemas = KIND

    def __init__(self, endpoints: Endpoints, now: Callable[[], int]) -> None:
        self._endpoints = endpoints
        self._now = now
        self._kept = KeptSettings(log)

    def read(self, kind: str, given: Mapping[str, Any], project: str, options: Any) -> Mapping[str, str]:
        message_kind, brokers = KINDS[kind]
        for name in given:
            if name in brokers:
                raise InvalidArgumentError(f"{name} is an option of the {kind} itself and cannot be set here")
        with _refusals():
            message = _parse(message_kind, given)
            check_transforms(message.message_transforms)
            if kind == "topic":
                _complete_schema(message, project)
            else:
                self._check_subscription(message, options)
            kept = settings_to_keep(message, brokers)
        self._kept.note(f"a {kind} of a seed", message)
        return {EXTRAS: kept} if kept else {}

    def _check_subscription(self, message: Any, options: Any) -> None:
        message.enable_exactly_once_delivery = options.exactly_once  # needed by check_destinations
        fill_version(message.push_config)
        if message.push_config.push_endpoint:
            self._endpoints.check(message.push_config.push_endpoint)
        check_destinations(message)

    def show(self, kind: str, extras: Mapping[str, str]) -> Mapping[str, Any]:
        return _to_dict(kept_settings(dict(extras), KINDS[kind][0]))

    def merge(self, kind: str, known: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
        """Merge settings field by field. Fields that a client set and the seed does not name stay."""
        message_kind = KINDS[kind][0]
        current, new = kept_settings(dict(known), message_kind), kept_settings(dict(wanted), message_kind)
        paths = [field.name for field, _ in new.ListFields()]
        merged = update_masks.apply_update_mask(current, new, paths, set(paths)) if paths else current
        return {EXTRAS: settings_to_keep(merged, ())} if merged != current else {}

    def needs(self, kind: str, extras: Mapping[str, str]) -> list[tuple[str, str]]:
        if kind != "topic" or EXTRAS not in extras:
            return []
        schema = kept_settings(dict(extras), Topic).schema_settings.schema
        return [(KIND, schema)] if "/" in schema else []

    # ------------------------------------------------------------------ schemas

    def read_schema(self, name: str, given: Mapping[str, Any]) -> bytes:
        """Read one revision or a list of them, oldest first. A revision without an id gets one from its content."""
        revisions = given.get("revisions", [given])
        if not isinstance(revisions, list) or not 1 <= len(revisions) <= REVISIONS_MAX:
            raise InvalidArgumentError(f"A schema must have a list of 1 to {REVISIONS_MAX} revisions")
        if "revisions" in given and len(given) > 1:
            raise InvalidArgumentError("A schema must have either revisions, or a type and a definition")
        with _refusals():
            parsed = [_revision(name, revision, self._now()) for revision in revisions]
        return bytes(_Revisions(schemas=parsed).SerializeToString())

    def show_schema(self, body: bytes) -> Mapping[str, Any]:
        shown = [_to_dict(_without_name(revision)) for revision in _Revisions.FromString(body).schemas]
        return {"revisions": shown}

    def merge_schemas(self, known: bytes, wanted: bytes) -> bytes:
        """Add the newest of the wanted revisions, unless it is the newest already."""
        present, last = list(_Revisions.FromString(known).schemas), _Revisions.FromString(wanted).schemas[-1]
        if _content(present[-1]) == _content(last):
            return known
        with _refusals():
            for revision in reversed(present):
                check_change(last.name, last, revision)
        added = [*present, last][-REVISIONS_MAX:]
        return bytes(_Revisions(schemas=added).SerializeToString())


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except CallError as error:
        raise InvalidArgumentError(error.message) from None


def _parse(kind: Any, given: object) -> Any:
    try:
        return parse_message(_with_durations(given, kind.DESCRIPTOR), kind)
    except CallError as error:
        raise InvalidArgumentError(f"Invalid Pub/Sub settings: {error.message}") from None


def _with_durations(given: Any, descriptor: Any) -> Any:
    """Return JSON fields with every duration as protobuf's JSON writes it."""
    if not isinstance(given, Mapping):
        return given
    if descriptor.full_name == _DURATION:
        return _duration(given)
    fields, changed = descriptor.fields_by_name, dict(given)
    for name, value in given.items():
        inner = fields[name].message_type if name in fields else None
        if inner is None or inner.GetOptions().map_entry:
            continue
        if inner.full_name == _DURATION:
            changed[name] = _duration(value)
        elif isinstance(value, list):
            changed[name] = [_with_durations(item, inner) for item in value]
        else:
            changed[name] = _with_durations(value, inner)
    return changed


def _duration(value: Any) -> Any:
    """Return seconds as JSON writes a duration, and any other value unchanged for the parser to refuse."""
    seconds = value
    if isinstance(value, Mapping):
        parts = [value.get(name, 0) for name in ("seconds", "nanos")]
        seconds = parts[0] + parts[1] / 1e9 if all(isinstance(part, int | float) for part in parts) else value
    return f"{seconds:.9f}s" if isinstance(seconds, int | float) else value


def _to_dict(message: Any) -> dict[str, Any]:
    shown = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=POOL)
    return dict(shown)


def _complete_schema(topic: Any, project: str) -> None:
    if not topic.HasField("schema_settings"):
        return
    settings = topic.schema_settings
    if settings.schema and "/" not in settings.schema and not settings.schema.startswith("_"):
        settings.schema = f"projects/{project}/schemas/{settings.schema}"
    if not settings.schema or not settings.encoding:
        raise InvalidArgumentError("schema_settings needs schema and encoding")


def _revision(name: str, given: object, now: int) -> Any:
    revision = _parse(Schema, given)
    check_definition(revision)
    revision.name = name
    if not revision.revision_id:
        revision.revision_id = hashlib.sha256(_content(revision)).hexdigest()[:8]
    if not revision.HasField("revision_create_time"):
        revision.revision_create_time.FromNanoseconds(now)
    return revision


def _without_name(revision: Any) -> Any:
    revision.ClearField("name")
    return revision


def _content(revision: Any) -> bytes:
    """Return the part of a revision that its id is computed from."""
    bare = Schema()
    bare.CopyFrom(revision)
    for name in ("name", "revision_id", "revision_create_time"):
        bare.ClearField(name)
    return bytes(bare.SerializeToString(deterministic=True))
