"""Avro schemas: whether a definition is one, and whether a message fits it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import fastavro.validation

TYPES = frozenset({"record", "error"})


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
        stream = io.BytesIO(data)
        fastavro.schemaless_reader(stream, self._schema, None)
        if stream.tell() != len(data):
            raise ValueError("bytes left over")
