"""Avro's JSON encoding, checked against a schema.

The check follows references to named types, so a record that contains itself can have as many levels as a message in
the binary encoding. Logical types are not checked, as in the binary encoding.
"""

from __future__ import annotations

from typing import Any

from penstock.doors.google.schemas.avro_binary import DEPTH_MAX, too_deep


class Check:
    """One check of one message."""

    def __init__(self, named: dict[str, Any]) -> None:
        """`named`: the named types of the schema, by full name."""
        self._named = named
        self._choices: dict[int, dict[str, Any]] = {}  # of an enum or a union, by its identity: one look-up a value

    def check(self, value: Any, schema: Any, depth: int = 0) -> None:
        """Raise TooLargeError beyond the depth limit, another ValueError if parsed JSON does not fit a schema."""
        if isinstance(schema, list):
            schema, value = self._choose(schema, value)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, str) and kind in _PRIMITIVES:
            if not _PRIMITIVES[kind](value):
                raise ValueError(f"the value is not of type {kind}")
        elif depth >= DEPTH_MAX:
            raise too_deep()
        elif not isinstance(schema, dict):
            self.check(value, self._named[schema], depth)
        else:
            self._check_complex(value, schema, depth)

    def _check_complex(self, value: Any, schema: dict[str, Any], depth: int) -> None:
        kind = schema["type"]
        if kind in ("record", "error"):
            self._check_record(value, schema, depth)
        elif kind == "array" and isinstance(value, list):
            for item in value:
                self.check(item, schema["items"], depth + 1)
        elif kind == "map" and isinstance(value, dict):
            for item in value.values():
                self.check(item, schema["values"], depth + 1)
        elif kind in ("array", "map"):
            raise ValueError(f"the value is not of type {kind}")
        elif kind == "fixed":
            if not _is_bytes(value) or len(value) != schema["size"]:
                raise ValueError("the value is not of type fixed")
        elif kind == "enum":
            if not isinstance(value, str) or value not in self._symbols(schema):
                raise ValueError("the value is not of type enum")
        else:  # a type wrapped in an object
            self.check(value, kind, depth + 1)

    def _check_record(self, value: Any, schema: dict[str, Any], depth: int) -> None:
        if not isinstance(value, dict):
            raise ValueError("the value is not a record")
        for field in schema["fields"]:
            if field["name"] in value:
                self.check(value[field["name"]], field["type"], depth + 1)
            elif "default" not in field:
                raise ValueError("a field is missing")

    def _choose(self, union: list[Any], value: Any) -> tuple[Any, Any]:
        """Return the type in the union that an encoded value names, and the value without that name."""
        label = "null"
        if value is not None:
            if not isinstance(value, dict) or len(value) != 1:
                raise ValueError("a value of a union must be null or an object with the name of its type")
            ((label, value),) = value.items()
        branches = self._choices.get(id(union))
        if branches is None:
            branches = self._choices[id(union)] = {_label(branch): branch for branch in reversed(union)}
        if label not in branches:
            raise ValueError("the union has no such branch")
        return branches[label], value

    def _symbols(self, enum: dict[str, Any]) -> dict[str, Any]:
        symbols = self._choices.get(id(enum))
        if symbols is None:
            symbols = self._choices[id(enum)] = dict.fromkeys(enum["symbols"])
        return symbols


def _label(branch: Any) -> str:
    """Return the name that a value of this type in a union has."""
    return str(branch.get("name", branch["type"]) if isinstance(branch, dict) else branch)


def _is_integer(value: Any, bits: int) -> bool:
    return type(value) is int and -(1 << bits) <= value < 1 << bits


def _is_bytes(value: Any) -> bool:
    """Return whether a text stands for bytes: each character is one byte (Avro 1.11, JSON Encoding)."""
    return isinstance(value, str) and (value.isascii() or max(value) <= "\xff")


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
