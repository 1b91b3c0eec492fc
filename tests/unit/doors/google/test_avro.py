"""Avro bodies and definitions within limits: depth, number of values, bytes."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import pytest

from penstock.doors.google.schemas.avro import AvroSchema
from penstock.doors.google.schemas.avro_binary import DECIMAL_BYTES_MAX, DEPTH_MAX, TooLargeError
from penstock.doors.google.schemas.avro_json import Check

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
def test_large_arrays_of_empty_items_are_refused_at_once(items: Any) -> None:
    for kind in (
        {"type": "array", "items": items},
        {"type": "record", "name": "I", "fields": [{"name": "i", "type": {"type": "array", "items": items}}]},
    ):
        with pytest.raises(ValueError, match=r"more than [0-9,]+ values"):
            schema_of(kind).check_binary(MANY)
        with pytest.raises(ValueError, match=r"more than [0-9,]+ values"):
            schema_of(kind).json_of(MANY)


def test_a_type_can_be_referenced_by_its_name() -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    fields = [{"name": "e", "type": empty}, {"name": "a", "type": {"type": "array", "items": "Empty"}}]
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "fields": fields}))
    schema.check_binary(b"\x06\x00")
    with pytest.raises(ValueError, match=r"more than [0-9,]+ values"):
        schema.check_binary(MANY)


def test_arrays_cannot_have_more_items_than_bytes() -> None:
    schema = schema_of({"type": "array", "items": "boolean"})
    with pytest.raises(ValueError, match="end too early"):
        schema.check_binary(MANY[:-1])
    assert schema.json_of(b"\x04\x01\x00\x00") == '{"a":[true,false]}'


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def linked(nodes: int) -> bytes:
    return b"\x02" * (nodes - 1) + b"\x00"


def test_a_linked_list_may_have_as_many_nodes_as_levels() -> None:
    schema = AvroSchema(json.dumps(NODE))
    schema.check_binary(linked(DEPTH_MAX))
    assert schema.json_of(linked(DEPTH_MAX)).count("next") == DEPTH_MAX
    for nodes in (DEPTH_MAX + 1, 500, 4_000, 1_000_000):
        for read in (schema.check_binary, schema.json_of):
            with pytest.raises(TooLargeError, match="deeper than 100 levels"):
                read(linked(nodes))


def test_a_record_that_holds_itself_has_no_messages() -> None:
    schema = AvroSchema(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": "R"} for n in ("a", "b")]})
    )
    with pytest.raises(TooLargeError):
        schema.check_binary(b"")


def test_doubling_types_without_bytes_are_refused_at_once() -> None:
    kind: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}
    for level in range(1, 40):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{level - 1}"}]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(TooLargeError, match=r"more than [0-9,]+ values"):
        AvroSchema(json.dumps(kind)).check_binary(b"")


@pytest.mark.parametrize("levels", [330, 100_000])
def test_a_definition_nested_too_deeply_is_refused(levels: int) -> None:
    kind = '{"type":"array","items":' * levels + '"int"' + "}" * levels
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        AvroSchema('{"type":"record","name":"R","fields":[{"name":"a","type":' + kind + "}]}")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (["null", "int"], b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ("string", b"\x02\xff"),
        ("string", b"\x01"),
        ("bytes", b"\x08ab"),
        ("long", b"\xff" * 11),
        ("int", b"\x02\x02"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(kind: Any, body: bytes) -> None:
    with pytest.raises(ValueError):
        schema_of(kind).check_binary(body)


def test_every_kind_of_value_fits_as_the_library_writes_it() -> None:
    kinds: list[tuple[Any, Any]] = [
        ("null", None), ("boolean", True), ("int", -7), ("long", 2**62), ("float", 1.5), ("double", 2.5),
        ("bytes", b"ab"), ("string", "\u00e4"), ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": "double"}, [1.0, 2.0]), ({"type": "map", "values": "int"}, {"a": 1, "b": 2}),
        (["null", "string"], "x"), ({"type": "long", "logicalType": "timestamp-millis"}, 1),
    ]  # fmt: skip
    for kind, value in kinds:
        definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(definition), {"a": value})
        AvroSchema(json.dumps(definition)).check_binary(stream.getvalue())


def test_a_time_beyond_the_calendar_is_accepted_and_shown_as_a_number() -> None:
    schema = schema_of({"type": "long", "logicalType": "timestamp-millis"})
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", 2**60)
    schema.check_binary(stream.getvalue())
    assert schema.json_of(stream.getvalue()) == f'{{"a":{2**60}}}'


@pytest.mark.parametrize("fixed", [False, True])
def test_a_very_long_decimal_is_shown_as_bytes(fixed: bool) -> None:
    """The decimal library takes quadratic time and blocks other threads: 100 KB stopped the server for 5 s."""
    for size, is_number in ((DECIMAL_BYTES_MAX, True), (DECIMAL_BYTES_MAX + 1, False)):
        kind = {"type": "fixed", "name": "D", "size": size} if fixed else {"type": "bytes"}
        schema = schema_of({**kind, "logicalType": "decimal", "precision": 616, "scale": 0})
        body = b"\x11" * size
        shown = json.loads(schema.json_of(body if fixed else bytes([2 * size & 0x7F | 0x80, size >> 6]) + body))["a"]
        assert shown == (int.from_bytes(body, "big") if is_number else base64.b64encode(body).decode())


class Symbol(str):
    """A text that counts its comparisons."""

    __slots__ = ()
    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Symbol.compared += 1
        return str.__eq__(self, other)


def test_the_cost_of_a_value_does_not_depend_on_the_number_of_symbols_and_branches() -> None:
    """An array of the last of 30,000 symbols kept a thread busy for a minute, while other checks waited."""
    names = [Symbol(f"S{number}") for number in range(500)]
    enum = {"type": "enum", "name": "E", "symbols": names}
    union = [{"type": "fixed", "name": name, "size": 1} for name in names]
    for items, value in ((enum, "S499"), (union, {"S499": "x"})):
        Symbol.compared = 0
        Check({}).check([value] * 100, {"type": "array", "items": items})
        assert Symbol.compared < 1000


def linked_json(nodes: int) -> bytes:
    return b'{"next": {"Node": ' * (nodes - 1) + b'{"next": null}' + b"}}" * (nodes - 1)


def test_a_recursive_type_in_json_has_as_many_levels_as_in_binary() -> None:
    schema = AvroSchema(json.dumps(NODE))
    for nodes in (1, 2, 3, DEPTH_MAX):
        schema.check_json(linked_json(nodes))
    for nodes in (DEPTH_MAX + 1, 500, 4_000, 1_000_000):
        with pytest.raises(TooLargeError, match="deeper than 100 levels"):
            schema.check_json(linked_json(nodes))
    with pytest.raises(ValueError, match="a field is missing"):
        schema.check_json(b'{"next": {"Node": {"other": null}}}')


JSON_VALUES: list[tuple[Any, list[str], list[str]]] = [
    ("null", ["null"], ["0", "{}"]),
    ("boolean", ["true"], ["1", '"true"']),
    ("int", ["0", str(-(2**31))], [str(2**31), "1.5", "true", '"1"']),
    ("long", [str(2**63 - 1)], [str(2**63), "null"]),
    ("float", ["1", "1.5"], ["true", '"1"']),
    ("double", ["1e10"], ["[]"]),
    ("bytes", [r'"\u00ff"'], [r'"\u0100"', "1"]),
    ("string", [r'"\u0100"'], ["1"]),
    ({"type": "fixed", "name": "F", "size": 2}, ['"ab"'], ['"a"', r'"\u0100a"', "7"]),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, ['"A"'], ['"B"', "0", "[]"]),
    ({"type": "array", "items": "int"}, ["[]", "[1]"], ["{}", '["1"]', "1"]),
    ({"type": "map", "values": "int"}, ["{}", '{"a": 1}'], ["[]", '{"a": "1"}']),
    (["null", "int", {"type": "array", "items": "int"}], ["null", '{"int": 1}', '{"array": [1]}'],
     ["1", '{"long": 1}', '{"int": "1"}', "{}", '{"int": 1, "null": null}']),
    ({"type": "record", "name": "In", "fields": [{"name": "b", "type": "int", "default": 1}]},
     ["{}", '{"b": 2}', '{"b": 2, "other": 3}'], ['{"b": null}', "[]"]),
    ({"type": "long", "logicalType": "timestamp-millis"}, ["1"], ['"2026-01-01"']),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fitting", "others"), JSON_VALUES)
def test_json_values_of_every_type(kind: Any, fitting: list[str], others: list[str]) -> None:
    schema = schema_of(kind)
    for text in fitting:
        schema.check_json(b'{"a":\n' + text.encode() + b"}")
    for text in others:
        with pytest.raises(ValueError):
            schema.check_json(b'{"a":' + text.encode() + b"}")


def test_json_must_be_one_record() -> None:
    schema = schema_of("int")
    for text in (b"", b"{}", b"[]", b'{"a":1}{"a":1}', b'{"a":1}\n{"a":1}', b"\xff", b"null"):
        with pytest.raises(ValueError):
            schema.check_json(text)


@pytest.mark.parametrize("body", [b"\xf0\xf4\x3c\x00", b"\xb0\x06\x00"])
def test_a_message_with_too_many_values_is_refused(body: bytes) -> None:
    """Values such as null take no bytes, so four bytes kept the server busy for a third of a second."""
    with pytest.raises(TooLargeError, match=r"more than [0-9,]+ values"):
        schema_of({"type": "array", "items": "null"}).check_binary(body)
    assert schema_of({"type": "array", "items": "null"}).json_of(b"\xc8\x01\x00") == f'{{"a":[{"null," * 99}null]}}'


@pytest.mark.parametrize(
    "items",
    [
        {"type": "record", "name": "I", "fields": [{"name": "n" * 10_000, "type": "boolean"}]},
        {"type": "enum", "name": "E", "symbols": ["n" * 10_000]},
    ],
)
def test_a_message_whose_json_would_be_mostly_names_is_accepted_and_not_shown(items: Any) -> None:
    """The JSON repeats names that one byte of the message stands for: 100 KB became 1 GB when the message was shown."""
    schema = schema_of({"type": "array", "items": items})
    large = b"\xc0\x9a\x0c" + bytes(100_000) + b"\x00"
    schema.check_binary(large)
    with pytest.raises(TooLargeError, match="too large to be shown"):
        schema.json_of(large)
    assert len(schema.json_of(b"\x04\x00\x00\x00")) > 20_000
