"""Avro bodies: a few bytes may not stand for any number of items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.doors.google.avro import AvroSchema

MANY = b"\x80\x80\x80\x80\x80\x80\x10\x00"  # an array of 2^45 items, and its end


def schema_of(kind: Any) -> AvroSchema:
    return AvroSchema(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}))


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "record", "name": "Nulls", "fields": [{"name": "n", "type": "null"}]},
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "null"},
    ],
)
def test_arrays_of_nothing_are_refused_at_once(items: Any) -> None:
    for kind in ({"type": "array", "items": items}, {"type": "map", "values": {"type": "array", "items": items}}):
        with pytest.raises(ValueError, match="has no end"):
            schema_of(kind).check_binary(MANY)
        with pytest.raises(ValueError, match="has no end"):
            schema_of(kind).json_of(MANY)


def test_a_type_that_was_named_before_is_known() -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    fields = [{"name": "e", "type": empty}, {"name": "a", "type": {"type": "array", "items": "Empty"}}]
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "fields": fields}))
    with pytest.raises(ValueError, match="has no end"):
        schema.check_binary(MANY)


def test_arrays_of_something_end_with_their_bytes() -> None:
    schema = schema_of({"type": "array", "items": "boolean"})
    with pytest.raises(EOFError):
        schema.check_binary(MANY[:-1])
    assert schema.json_of(b"\x04\x01\x00\x00") == '{"a":[true,false]}'
