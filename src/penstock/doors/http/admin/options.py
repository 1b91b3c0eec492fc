"""The options of topics and subscriptions as JSON Schema, and as fields of the records of the admin API.

`x-kind` says how a form shows an option: duration (in seconds), bytes, count, text, switch, labels or topic.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any

import msgspec

from penstock.broker.model import LABELS, Options, OptionSpec, option_specs

_NULL = {"type": "null"}  # as if the option was not given
_TEXT = {"type": "string"}
_TYPES: dict[str, dict[str, Any]] = {
    "text": _TEXT,
    "topic": _TEXT,
    "switch": {"type": "boolean"},
    "labels": {"type": "object", "additionalProperties": _TEXT},
}
_NUMBERS = {"duration": "number", "bytes": "integer", "count": "integer"}
_PARTS = {part: {"type": "number", "minimum": 0} for part in ("seconds", "nanos")}
_IN_PARTS = {"type": "object", "properties": _PARTS, "additionalProperties": False}


def schema_of(record: type[Options]) -> dict[str, Any]:
    """Return the JSON Schema of an object with the public options of a record."""
    defaults = {field.name: field.default for field in fields(record)}  # type: ignore[arg-type]
    properties: dict[str, Any] = {}
    for name, spec in option_specs(record).items():
        whole, _, part = spec.name.partition(".")
        default = defaults[name] if spec.part_default is None else spec.part_default
        schema = _schema(spec, {} if default is MISSING else default)
        if part:
            parts = properties.setdefault(whole, {"type": ["object", "null"], "properties": {}, **_CLOSED})
            parts["properties"][part] = schema
        else:
            properties[whole] = schema
    return {"type": "object", "properties": properties, **_CLOSED}


_CLOSED = {"additionalProperties": False}


def _schema(spec: OptionSpec, default: object) -> dict[str, Any]:
    types = [*([_IN_PARTS] if spec.kind == "duration" else []), _NULL]
    schema: dict[str, Any] = {"title": spec.title, "description": spec.help, "x-kind": spec.kind, "default": default}
    if spec.kind in _NUMBERS and default == 0 < spec.least:
        schema["default"] = None  # 0 means no limit, and callers cannot write it
    if spec.read_only:
        schema["readOnly"] = True
    return {**schema, "anyOf": [_value_schema(spec), *types]}


def _value_schema(spec: OptionSpec) -> dict[str, Any]:
    if spec.kind not in _NUMBERS:
        return _TYPES[spec.kind]
    most = {} if spec.most is None else {"maximum": spec.most}
    return {"type": _NUMBERS[spec.kind], "minimum": spec.least, **most}


# ---------------------------------------------------------------------- fields of records

Labels = Annotated[
    dict[str, str],
    msgspec.Meta(
        description="At most 64. Keys and values have at most 63 lowercase letters, digits, underscores and dashes. A "
        "key begins with a letter.",
        extra_json_schema={"title": LABELS.title, "x-kind": LABELS.kind},
    ),
]
_FIELDS: dict[str, Any] = {"duration": float, "bytes": int, "count": int, "text": str, "topic": str, "switch": bool}


def with_options(base: type[msgspec.Struct], record: type[Options], *, optional: bool = False) -> Any:
    """Return a struct with the fields of `base` and the options of a record. `optional`: None means not given."""
    defaults = {field.name: field.default for field in fields(record)}  # type: ignore[arg-type]
    added = []
    for name, spec in option_specs(record).items():
        kind, default = _field_type(spec), {} if defaults[name] is MISSING else defaults[name]
        added.append((name, kind | None, None) if optional else (name, kind, default))
    return msgspec.defstruct(base.__name__, added, bases=(base,))


def _field_type(spec: OptionSpec) -> Any:
    if spec.kind == "labels":
        return Labels
    number = spec.kind in _NUMBERS
    about = {"title": spec.title, "x-kind": spec.kind}
    ranges: dict[str, Any] = {"ge": spec.least, "le": spec.most} if number else {}
    return Annotated[_FIELDS[spec.kind], msgspec.Meta(description=spec.help, extra_json_schema=about, **ranges)]


def values_of(options: Options) -> dict[str, Any]:
    """Return the public options of a record by the names of its fields, as `with_options` declares them."""
    return {name: getattr(options, name) for name in option_specs(type(options))}
