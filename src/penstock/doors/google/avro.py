"""Avro schemas: whether a definition is one, and whether a message fits it."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
import fastavro.validation
import msgspec

TYPES = frozenset({"record", "error"})
_encoder = msgspec.json.Encoder(decimal_format="number")


class AvroSchema:
    def __init__(self, definition: str) -> None:
        try:
            parsed = json.loads(definition)
            named: dict[str, Any] = {}
            self._schema: Any = fastavro.parse_schema(parsed, named_schemas=named)
        except Exception as error:  # noqa: BLE001 - for hostile input the library may raise anything
            raise ValueError(f"AVRO schema definition is not valid: {str(error)[:200]}") from None
        if not isinstance(parsed, dict) or parsed.get("type") not in TYPES:
            raise ValueError("AVRO schema definition is not valid: the top-level type must be a record.")
        self._endless = _has_endless_arrays(self._schema, named)

    def check_json(self, data: bytes) -> None:
        text = data.decode()
        json.loads(text)
        records = list(fastavro.json_reader(io.StringIO(text), self._schema))
        if len(records) != 1:
            raise ValueError("not exactly one record")
        fastavro.validation.validate(records[0], self._schema)

    def check_binary(self, data: bytes) -> None:
        self._read(data)

    def json_of(self, data: bytes) -> str:
        """Decimals with all their digits, bytes in Base64; what JSON has no number for is text."""
        return _encoder.encode(_with_texts(self._read(data))).decode()

    def _read(self, data: bytes) -> Any:
        if self._endless:
            raise ValueError("an array of items without bytes has no end")
        stream = io.BytesIO(data)
        record = fastavro.schemaless_reader(stream, self._schema, None)
        if stream.tell() != len(data):
            raise ValueError("bytes left over")
        return record


def _has_endless_arrays(schema: Any, named: dict[str, Any]) -> bool:
    """Whether a few bytes of a message can stand for any number of items, for which the library would make room."""
    if isinstance(schema, list):
        return any(_has_endless_arrays(each, named) for each in schema)
    if not isinstance(schema, dict):
        return False
    if schema["type"] == "array" and _is_empty(schema["items"], named):
        return True
    parts = [field["type"] for field in schema.get("fields", ())]
    parts += [schema.get("items"), schema.get("values"), schema["type"]]
    return any(_has_endless_arrays(part, named) for part in parts)


def _is_empty(schema: Any, named: dict[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Whether all that fits it has no bytes."""
    if isinstance(schema, str):
        known = named.get(schema) if schema not in seen else None
        return schema == "null" or (known is not None and _is_empty(known, named, seen | {schema}))
    if not isinstance(schema, dict):
        return False  # a union has at least the number of its choice
    if schema["type"] in TYPES:
        return all(_is_empty(field["type"], named, seen) for field in schema["fields"])
    if schema["type"] == "fixed":
        return bool(schema["size"] == 0)
    return _is_empty(schema["type"], named, seen)


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
