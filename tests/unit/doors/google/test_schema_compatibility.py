"""The changes that a new revision of a schema may make: "Commit a schema revision" in Pub/Sub's documentation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.doors.google.schemas.avro import AvroSchema
from penstock.doors.google.schemas.avro_compatibility import TooManyPairsError
from penstock.doors.google.schemas.protobuf import ProtoSchema


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


A = field("a", "string")
LIST = record(A, field("next", ["null", "R"], default=None))


@pytest.mark.parametrize(
    ("one", "other", "is_compatible"),
    [
        (record(A), record(A), True),
        (record(A), record(A, field("b", "int", default=0)), True),
        (record(A), record(A, field("b", "int")), False),
        (record(A), record(field("a", "int")), False),
        (record(field("a", "int")), record(field("a", "long")), False),  # only as a reader
        (record(field("a", "string")), record(field("a", "bytes")), True),
        (record(A), record(A, name="Other"), False),
        (record(A), {**record(A), "namespace": "n"}, True),  # names are compared without it
        (record(A), {**record(A, name="S"), "aliases": ["R"]}, False),  # the alias helps in one direction
        (record(A), record(field("b", "string", aliases=["a"])), False),
        (record(field("a", "string", default="")), record(field("b", "string", default="")), True),
        (record(field("a", ["null", "int"])), record(field("a", ["int", "null"])), True),
        (record(field("a", "int")), record(field("a", ["null", "int"])), False),
        (record(field("a", ["null", "int"])), record(field("a", ["null", "int", "string"])), False),
        (record(field("a", enum("X", "Y"))), record(field("a", enum("X"))), False),
        (record(field("a", enum("X", "Y"))), record(field("a", enum("Y", "X"))), True),
        (record(field("a", enum("X", "Y", default="X"))), record(field("a", enum("X", default="X"))), True),
        (
            record(field("a", {"type": "fixed", "name": "F", "size": 4})),
            record(field("a", {"type": "fixed", "name": "F", "size": 8})),
            False,
        ),
        (
            record(field("a", {"type": "array", "items": "int"})),
            record(field("a", {"type": "array", "items": "string"})),
            False,
        ),
        (
            record(field("a", {"type": "map", "values": "int"})),
            record(field("a", {"type": "array", "items": "int"})),
            False,
        ),
        (
            record(field("a", {"type": "map", "values": record(A, name="I")})),
            record(field("a", {"type": "map", "values": record(A, field("b", "int"), name="I")})),
            False,
        ),
        (record(field("a", enum("X"))), record(field("a", "string")), False),
        (record(field("a", {"type": "fixed", "name": "F", "size": 4})), record(field("a", "bytes")), False),
        (record(field("a", record(A, name="I"))), record(field("a", "double")), False),
        ({**record(A), "aliases": None}, {**record(A, name="S"), "aliases": None}, False),
        (record(field("a", "long")), record(field("a", {"type": "long", "logicalType": "timestamp-millis"})), True),
        (LIST, LIST, True),
        (LIST, record(A, field("b", "int"), field("next", ["null", "R"], default=None)), False),
    ],
)
def test_an_avro_revision_is_compatible_as_reader_and_as_writer(one: Any, other: Any, is_compatible: bool) -> None:
    """Schema Resolution in Avro's specification, in both directions."""
    schemas = AvroSchema(json.dumps(one)), AvroSchema(json.dumps(other))
    for new, earlier in (schemas, schemas[::-1]):
        if is_compatible:
            new.check_change(earlier)
        else:
            with pytest.raises(ValueError, match=r"compatible|no default|symbol|bytes"):
                new.check_change(earlier)


def test_a_branch_that_does_not_fit_leaves_nothing_for_the_next() -> None:
    """The first branch refers to itself through `inner`, which fits only if the first branch does."""

    def named(name: str, *fields: Any) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": list(fields)}

    inner = named("n.I", field("back", ["null", "one.R"]))
    more = field("more", "int")
    reader = record(field("u", [named("one.R", field("inner", inner), more), named("two.R", field("inner", "n.I"))]))
    writer = record(field("u", named("one.R", field("inner", inner))))
    with pytest.raises(ValueError, match=r"field u of type union is not compatible with type one\.R"):
        AvroSchema(json.dumps(reader)).check_change(AvroSchema(json.dumps(writer)))


@pytest.mark.parametrize("wrap", [lambda kind: ["null", kind], lambda kind: {"type": "array", "items": kind}])
def test_a_change_below_many_levels_is_refused(wrap: Callable[[Any], Any]) -> None:
    def nested(kind: Any) -> AvroSchema:
        for level in range(45):
            kind = wrap(record(field("a", kind), name=f"r{level}"))
        return AvroSchema(json.dumps(record(field("a", kind))))

    nested("int").check_change(nested("int"))
    with pytest.raises(ValueError, match="not compatible"):
        nested("int").check_change(nested("string"))


def proto(body: str, more: str = "", name: str = "M", syntax: str = "proto3") -> ProtoSchema:
    return ProtoSchema(f'syntax = "{syntax}"; message {name} {{ {body} {more} }}')


INNER = "message I { string x = 1; %s } I i = 1;"
ENUM = "enum E { ZERO = 0; %s } E e = 1;"


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ("string a = 1;", "string a = 1;", ""),
        ("string a = 1;", "string a = 1; string b = 2;", ""),
        ("string a = 1;", "string a = 1; optional string b = 2;", ""),
        ("string a = 1;", "string a = 1; oneof o { string b = 2; }", ""),
        ("string a = 1;", "string b = 2;", ""),
        (INNER % "", INNER % "string y = 2;", ""),
        ("message N { N n = 1; } N n = 1;", "message N { N n = 1; string x = 2; } N n = 1;", ""),
        ("int64 a = 1;", "string a = 1;", "a of type string is not compatible with a of type int64"),
        ("string a = 1;", "string b = 1;", "b of type string is not compatible with a of type string"),
        ("string a = 1;", "string a = 2;", "M.a = 2 is not compatible with a = 1"),
        (
            "string a = 1;",
            "repeated string a = 1;",
            "a of type repeated string is not compatible with a of type string",
        ),
        ("string a = 1;", "string a = 1; repeated string b = 2;", "M.b = 2 is repeated"),
        ("string a = 1;", "string a = 1; map<string, string> b = 2;", "M.b = 2 is repeated"),
        (
            "string a = 1;",
            "oneof o { string a = 1; }",
            "a of type string in oneof o is not compatible with a of type string",
        ),
        (INNER % "int32 y = 2;", INNER % "string y = 2;", "y of type string is not compatible with y of type int32"),
        (ENUM % "", ENUM % "ONE = 1;", "M.ONE = 1 is missing in M.E"),
        (ENUM % "ONE = 1;", ENUM % "UNO = 1;", "M.UNO = 1 is missing in M.E"),
    ],
)
def test_a_proto_revision_adds_and_removes_optional_fields_only(one: str, other: str, problem: str) -> None:
    if not problem:
        proto(other).check_change(proto(one))
        proto(one).check_change(proto(other))
    else:
        with pytest.raises(ValueError, match=problem):
            proto(other).check_change(proto(one))
        with pytest.raises(ValueError, match=r"compatible|missing|repeated"):
            proto(one).check_change(proto(other))


def test_a_required_field_is_neither_added_nor_removed() -> None:
    one = proto("optional string a = 1;", syntax="proto2")
    other = proto("optional string a = 1;", "required string b = 2;", syntax="proto2")
    for new, earlier in ((one, other), (other, one)):
        with pytest.raises(ValueError, match=r"M\.b = 2 is required"):
            new.check_change(earlier)


def test_a_field_stays_required() -> None:
    one, other = (proto(f"{label} string a = 1;", syntax="proto2") for label in ("optional", "required"))
    with pytest.raises(ValueError, match="a of type required string is not compatible with a of type string"):
        other.check_change(one)
    with pytest.raises(ValueError, match="a of type string is not compatible with a of type required string"):
        one.check_change(other)


def test_the_message_keeps_its_name() -> None:
    with pytest.raises(ValueError, match="N is not compatible with M"):
        proto("string a = 1;", name="N").check_change(proto("string a = 1;"))


SYMBOLS = [f"S{number}" for number in range(25_000)]


@pytest.mark.parametrize(
    ("fields", "is_compared"),
    [
        ([field(f"f{number}", ["null", "int"]) for number in range(6_800)], True),
        ([field("e", enum(*SYMBOLS))], True),
        ([field("u", [record(name=f"r{number}") for number in range(5_000)])], True),
        ([field("u", [{"type": "array", "items": record(name=f"r{number}")} for number in range(3_000)])], False),
        ([field(f"f{number}", record(A, name=f"r{number}")) for number in range(2_800)], True),
    ],
)
def test_a_comparison_of_large_schemas_ends_soon(fields: list[Any], is_compared: bool) -> None:
    definition = json.dumps(record(*fields))
    one, other = AvroSchema(definition), AvroSchema(f"{definition} ")
    began = time.process_time()
    with nullcontext() if is_compared else pytest.raises(TooManyPairsError):
        one.check_change(other)
    assert time.process_time() - began < 2
