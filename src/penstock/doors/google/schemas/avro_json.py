"""Avro's JSON encoding, checked against a schema.

The check follows references to named types, so a record that contains itself can have as many levels as a message in
the binary encoding. Logical types are not checked, as in the binary encoding.
"""

from __future__ import annotations

from typing import Any

from penstock.doors.google.schemas.avro_binary import DEPTH_MAX, too_deep


def check(value: Any, schema: Any, named: dict[str, Any], depth: int = 0) -> None:
    """Raise TooLargeError beyond the depth limit, another ValueError if parsed JSON does not fit a parsed schema.

    `named`: the named types of the schema, by full name.
    """
    if isinstance(schema, list):
        schema, value = _choose(schema, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, str) and kind in _PRIMITIVES:
        if not _PRIMITIVES[kind](value):
            raise ValueError(f"the value is not of type {kind}")
    elif depth >= DEPTH_MAX:
        raise too_deep()
    elif not isinstance(schema, dict):
        check(value, named[schema], named, depth)
    else:
        _check_complex(value, schema, named, depth)


def _check_complex(value: Any, schema: dict[str, Any], named: dict[str, Any], depth: int) -> None:
    kind = schema["type"]
    if kind in ("record", "error"):
        _check_record(value, schema, named, depth)
    elif kind == "array" and isinstance(value, list):
        for item in value:
            check(item, schema["items"], named, depth + 1)
    elif kind == "map" and isinstance(value, dict):
        for item in value.values():
            check(item, schema["values"], named, depth + 1)
    elif kind in ("array", "map"):
        raise ValueError(f"the value is not of type {kind}")
    elif kind in ("fixed", "enum"):
        if not (_is_fixed(value, schema["size"]) if kind == "fixed" else value in schema["symbols"]):
            raise ValueError(f"the value is not of type {kind}")
    else:  # a type wrapped in an object
        check(value, kind, named, depth + 1)


def _check_record(value: Any, schema: dict[str, Any], named: dict[str, Any], depth: int) -> None:
    if not isinstance(value, dict):
        raise ValueError("the value is not a record")
    for field in schema["fields"]:
        if field["name"] in value:
            check(value[field["name"]], field["type"], named, depth + 1)
        elif "default" not in field:
            raise ValueError("a field is missing")


def _choose(union: list[Any], value: Any) -> tuple[Any, Any]:
    """Return the type in the union that an encoded value names, and the value without that name."""
    label = "null"
    if value is not None:
        if not isinstance(value, dict) or len(value) != 1:
            raise ValueError("a value of a union must be null or an object with the name of its type")
        ((label, value),) = value.items()
    for schema in union:
        name = schema.get("name", schema["type"]) if isinstance(schema, dict) else schema
        if name == label:
            return schema, value
    raise ValueError("the union has no such branch")


def _is_integer(value: Any, bits: int) -> bool:
    return type(value) is int and -(1 << bits) <= value < 1 << bits


def _is_bytes(value: Any) -> bool:
    """Return whether a text stands for bytes: each character is one byte (Avro 1.11, JSON Encoding)."""
    return isinstance(value, str) and (value.isascii() or max(value) <= "\xff")


def _is_fixed(value: Any, size: int) -> bool:
    return _is_bytes(value) and len(value) == size


_PRIMITIVES = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: _is_integer(value, 31),
    "long": lambda value: _is_integer(value, 63),
    "float": lambda value: type(value) in (int, float),
    "double": lambda value: type(value) in (int, float),
    "string": lambda value: isinstance(value, str),
    "bytes": _is_bytes,
}
