"""Avro schemas: checks of definitions, and of messages against a definition.

The libraries recurse into data and definitions, in C and without a limit. So the depth of all input is checked first.
"""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, UnknownType

from penstock.doors.google.schemas import avro_compatibility, avro_json
from penstock.doors.google.schemas.avro_binary import DEPTH_MAX, Walk, check_full_name, check_names, too_deep
from penstock.doors.google.schemas.avro_definition import check_structure

TYPES = frozenset({"record", "error"})
NAMED_TYPES = TYPES | {"enum", "fixed"}
JSON_DEPTH_MAX = 2 * DEPTH_MAX  # a value in a union is an object inside an object
DEFINITION_DEPTH_MAX = 200
_encoder = msgspec.json.Encoder(decimal_format="number")


class AvroSchema:
    def __init__(self, definition: str) -> None:
        self._named: dict[str, Any] = {}
        try:
            parsed = _load(definition, DEFINITION_DEPTH_MAX)
            check_structure(parsed)
            _check_full_names(parsed)
            self._schema: Any = fastavro.parse_schema(parsed, named_schemas=self._named)
            self._plain: Any = fastavro.parse_schema(_without_logical_types(parsed))
        except Exception as error:  # noqa: BLE001 - for hostile input the library may raise anything
            raise ValueError(f"AVRO schema definition is not valid: {_reason(error)[:200]}") from None
        if not isinstance(parsed, dict) or parsed["type"] not in TYPES:
            raise ValueError("AVRO schema definition is not valid: the top-level type must be a record.")

    def check_json(self, data: bytes) -> None:
        try:
            content = _load(data.decode(), JSON_DEPTH_MAX)
        except _TooDeepError:
            raise too_deep() from None
        avro_json.Check(self._named).check(content, self._schema)

    def check_binary(self, data: bytes) -> None:
        self._walk(data)

    def _walk(self, data: bytes) -> Walk:
        walk = Walk(data, self._named)
        walk.check(self._schema)
        return walk

    def check_change(self, earlier: AvroSchema) -> None:
        """Raise ValueError unless this schema can be a revision after an earlier one."""
        avro_compatibility.check_both((self._schema, self._named), (earlier._schema, earlier._named))

    def json_of(self, data: bytes) -> str:
        """Return a binary message as JSON: bytes in Base64, NaN and infinities as text, decimals with all digits.

        If one decimal is very long, or a number does not fit its logical type, all are shown without logical types.
        """
        walk = self._walk(data)
        check_names(walk.name_characters, len(data))
        try:
            schema = self._plain if walk.has_long_decimal else self._schema
            record = fastavro.schemaless_reader(io.BytesIO(data), schema, None)
        except Exception:  # noqa: BLE001 - a number that its logical type cannot show, such as the year 20,000
            record = fastavro.schemaless_reader(io.BytesIO(data), self._plain, None)
        return _encoder.encode(_with_texts(record)).decode()


def _reason(error: Exception) -> str:
    """Return what is wrong with a definition, without the text of Python's own errors."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON (line {error.lineno}, column {error.colno})"
    if isinstance(error, UnknownType):
        return f"there is no type {error.name}"
    return str(error) if isinstance(error, ValueError | SchemaParseException) else "it is not built as an Avro schema"


class _TooDeepError(ValueError):
    """JSON with more levels than allowed."""


def _load(text: str, depth_max: int) -> Any:
    """Parse JSON that is nested at most `depth_max` levels."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise _TooDeepError(f"it is nested deeper than {depth_max} levels") from None
    level = [content]
    for _ in range(depth_max):
        level = [part for value in level if isinstance(value, dict | list) for part in _parts(value)]
        if not level:
            return content
    if any(isinstance(value, dict | list) for value in level):
        raise _TooDeepError(f"it is nested deeper than {depth_max} levels")
    return content


def _parts(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value


def _check_full_names(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str) and schema["type"] in NAMED_TYPES:
            check_full_name(f"{schema.get('namespace', '')}.{schema.get('name', '')}")
        for part in schema.values():
            _check_full_names(part)
    elif isinstance(schema, list):
        for part in schema:
            _check_full_names(part)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_logical_types(part) for name, part in schema.items() if name != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    return schema


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
