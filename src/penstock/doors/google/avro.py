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
            self._schema: Any = fastavro.parse_schema(parsed, named_schemas={})
        except Exception as error:  # noqa: BLE001 - for hostile input the library may raise anything
            raise ValueError(f"AVRO schema definition is not valid: {str(error)[:200]}") from None
        if not isinstance(parsed, dict) or parsed.get("type") not in TYPES:
            raise ValueError("AVRO schema definition is not valid: the top-level type must be a record.")

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
        stream = io.BytesIO(data)
        record = fastavro.schemaless_reader(stream, self._schema, None)
        if stream.tell() != len(data):
            raise ValueError("bytes left over")
        return record


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
