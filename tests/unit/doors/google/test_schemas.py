"""Schema definitions, and messages checked against them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.google.messages import Schema
from penstock.doors.google.schemas import validation
from penstock.doors.google.schemas.avro import AvroSchema
from penstock.doors.google.schemas.protobuf import ProtoSchema
from penstock.doors.google.schemas.validation import CACHED_BYTES, CACHED_SCHEMAS

VALUES = {"string": "x", "int32": 1, "bool": True, "double": 1.5, "bytes": "eA=="}
WHOLE = """
syntax = "proto3";  // a comment
package a.b;
import "google/protobuf/timestamp.proto";
option java_package = "com.example"; /* another
one */
message State {
  string name = 1;
  optional int32 number = 2 [deprecated = true, (custom.option) = { a: 1 }];
  repeated Inner inner = 3;
  map<string, Inner> by_name = 4;
  oneof choice { string text = 5; Kind kind = 6; }
  enum Kind { option allow_alias = true; UNKNOWN = 0; ONE = 1 [deprecated = true]; ALSO_ONE = 1; reserved 5; }
  message Inner { .a.b.State.Kind kind = 1; google.protobuf.Timestamp at = 2; bytes data = 3; }
  reserved 7, 8 to 10;
  reserved "old";
  ;
}
"""


def avro(namespace: str, name: str = "R") -> None:
    AvroSchema(json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": []}))


def proto(package: str, name: str = "M", enum: str = "E") -> None:
    ProtoSchema(f'syntax = "proto3"; package {package}; message {name} {{ enum {enum} {{ A = 0; }} E e = 1; }}')


def compiled_proto(package: str, name: str = "M") -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package=package, syntax="proto3")
    file.message_type.add(name=name)
    ProtoSchema("", descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), f"{package}.{name}")


@pytest.mark.parametrize("compile_schema", [avro, proto, compiled_proto])
def test_the_full_name_of_a_type_has_a_limit(compile_schema: Callable[..., None]) -> None:
    """The libraries repeat the name for every field: a definition of 250 KB with a long package took 760 MiB."""
    compile_schema("p" * 500, "M" * 9)
    for names in (("p" * 500, "M" * 13), ("p" * 100_000,), ("p", "M" * 100_000)):
        with pytest.raises(ValueError, match="a name is longer than 512 characters"):
            compile_schema(*names)


def test_the_full_names_of_inner_types_have_the_limit_too() -> None:
    inner = {"type": "array", "items": {"type": "enum", "namespace": "n" * 600, "name": "E", "symbols": ["A"]}}
    with pytest.raises(ValueError, match="a name is longer"):
        AvroSchema(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": inner}]}))
    with pytest.raises(ValueError, match="a name is longer"):
        proto("p", enum="E" * 600)


def test_compiled_schemas_are_kept_up_to_a_number_of_bytes() -> None:
    """A compiled definition takes up to 40 times its size, and callers may send any number of definitions."""

    def compiled(number: int, size: int) -> Any:
        fields = [{"name": "a", "type": "int", "doc": "x" * size}]
        definition = json.dumps({"type": "record", "name": f"R{number}", "fields": fields})
        return validation.compile_schema(validation.AVRO, definition, Schema().compiled_proto_schema)

    assert compiled(0, 10) is compiled(0, 10)
    large = [compiled(number, CACHED_BYTES // 10) for number in range(10)]
    assert compiled(9, CACHED_BYTES // 10) is large[9]
    assert compiled(0, CACHED_BYTES // 10) is not large[0]
    for number in range(2 * CACHED_SCHEMAS):
        compiled(number, 1)
    assert len(validation._cache) == CACHED_SCHEMAS


def test_a_definition_with_everything() -> None:
    schema = ProtoSchema(WHOLE)
    schema.check_json(b'{"name": "x", "byName": {"k": {"kind": "ONE", "at": "2026-01-01T00:00:00Z"}}, "text": "t"}')
    schema.check_binary(b"\x0a\x01x\x10\x05")
    for bad in (b'{"nothing": 1}', b'{"name": 1}', b"{", b"", b'{"kind": "NOTHING"}'):
        with pytest.raises(Exception):  # noqa: B017 - whatever the library raises
            schema.check_json(bad)
    with pytest.raises(Exception):  # noqa: B017
        schema.check_binary(b"\x0a\xff")


@pytest.mark.parametrize(
    "field",
    [
        '"data": %s',
        '"inner": {"data": %s}',
        '"list": ["", %s]',
        '"byKey": {"a": {"by_name": {"b": %s}}}',
        '"more": [{}, {"data": "", "more": [{"data": %s}]}]',
    ],
)
def test_bytes_in_json_are_base64_wherever_they_are(field: str) -> None:
    schema = ProtoSchema(
        'syntax = "proto3"; message M { bytes data = 1; M inner = 2; '
        "repeated bytes list = 3; map<string, M> by_key = 4; map<string, bytes> by_name = 5; "
        "repeated M more = 6; }"
    )
    for text in ("aGk=", "aGk", "_-8", ""):
        schema.check_json(("{" + field % json.dumps(text) + "}").encode())
    for text in ("hello world!", '{"a": 1}', "aGk= ", "aGk=="):
        with pytest.raises(ValueError, match="not base64"):
            schema.check_json(("{" + field % json.dumps(text) + "}").encode())


def test_a_required_field_is_required() -> None:
    schema = ProtoSchema('syntax = "proto2"; message M { required string a = 1; optional int32 b = 2; }')
    schema.check_json(b'{"a": "x"}')
    for check in (lambda: schema.check_binary(b"\x10\x01"), lambda: schema.check_json(b'{"b": 1}')):
        with pytest.raises(Exception):  # noqa: B017
            check()


def test_a_compiled_definition() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="p", syntax="proto3")
    file.message_type.add(name="M").field.add(name="a", number=1, type=9, label=1)
    compiled = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    ProtoSchema("", compiled, "p.M").check_json(b'{"a": "x"}')
    with pytest.raises(ValueError, match="not valid"):
        ProtoSchema("", compiled, "p.Nothing")
    with pytest.raises(ValueError, match="not valid"):
        ProtoSchema("", b"\xff\xff", "p.M")


@pytest.mark.parametrize(
    "definition",
    [
        "",
        "message",
        "message A {",
        "message A { string a = 1; }",  # proto2 needs a label
        'syntax = "proto4"; message A { }',
        'syntax = "proto3"; message A { string a = 0; }',
        'syntax = "proto3"; message A { string a = 1; string b = 1; }',
        'syntax = "proto3"; message A { Missing a = 1; }',
        'syntax = "proto3"; message A { map<float, string> a = 1; }',
        'syntax = "proto3"; message A { } message B { }',
        'syntax = "proto3"; import "other.proto"; message A { }',
        'syntax = "proto3"; service S { } message A { }',
        "message A { required group G = 1 { } }",
        "message A { " * 50,
        '"',
        "message A { optional string a = 99999999999; }",
    ],
)
def test_an_invalid_definition_is_refused(definition: str) -> None:
    with pytest.raises(ValueError, match="Protocol buffer schema definition is not valid"):
        ProtoSchema(definition)


@given(st.text(max_size=200))
def test_any_text_is_a_definition_that_takes_the_empty_message_or_refused(text: str) -> None:
    for start in ("", 'syntax = "proto3"; message A {'):
        try:
            schema = ProtoSchema(start + text)
        except ValueError:
            continue
        schema.check_binary(b"")


@given(st.lists(st.tuples(st.sampled_from(sorted(VALUES)), st.sampled_from("abcd"), st.integers(-1, 6)), max_size=4))
def test_fields_are_a_definition_exactly_if_their_names_and_numbers_are_distinct(
    fields: list[tuple[str, str, int]],
) -> None:
    lines = [f"{kind} {name} = {number};" for kind, name, number in fields]
    definition = f'syntax = "proto3"; message A {{ {" ".join(lines)} }}'
    names, numbers = {name for _, name, _ in fields}, {number for *_, number in fields}
    if not len(names) == len(numbers) == len(fields) or min(numbers, default=1) < 1:
        with pytest.raises(ValueError, match="not valid"):
            ProtoSchema(definition)
        return
    schema = ProtoSchema(definition)
    schema.check_json(json.dumps({name: VALUES[kind] for kind, name, _ in fields}).encode())
    with pytest.raises(Exception):  # noqa: B017 - whatever the library raises
        schema.check_json(b'{"e": 1}')


RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": ["null", "int"]}],
}


def test_an_avro_record() -> None:
    schema = AvroSchema(json.dumps(RECORD))
    schema.check_json(b'{"a": "x", "b": {"int": 1}}')
    schema.check_binary(b"\x02x\x00")
    for bad in (b'{"a": 1, "b": null}', b"{}", b"", b"{", b'{"a": "x", "b": null} {}'):
        with pytest.raises(Exception):  # noqa: B017
            schema.check_json(bad)
    for bad in (b"", b"\x02x", b"\x02x\x00more", b"\xff\xff\xff\xff"):
        with pytest.raises(Exception):  # noqa: B017
            schema.check_binary(bad)


@pytest.mark.parametrize("definition", ["", "{", "1", '"string"', '{"type": "record"}', '{"type": "nothing"}', "[]"])
def test_an_invalid_avro_definition_is_refused(definition: str) -> None:
    with pytest.raises(ValueError, match="AVRO schema definition is not valid"):
        AvroSchema(definition)


def test_definitions_that_take_long_to_parse_are_refused() -> None:
    def definition(fields: int) -> str:
        return 'syntax = "proto3"; message M {' + "".join(f"int32 f{n} = {n};" for n in range(1, fields + 1)) + "}"

    ProtoSchema(definition(4_900))
    with pytest.raises(ValueError, match="line 1: there are more than 25,000 words and marks"):
        ProtoSchema(definition(15_000))
    with pytest.raises(ValueError, match="the compiled schema has 307,201 bytes, at most 307,200 are allowed"):
        ProtoSchema("", b"\x00" * ((300 << 10) + 1), "M")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ("reserved 2; int32 a = 2;", "the name or the number of field a = 2 is reserved"),
        ("int32 a = 3; reserved 9, 2 to 5;", "the name or the number of field a = 3 is reserved"),
        ("reserved 7 to max; int32 a = 8;", "the name or the number of field a = 8 is reserved"),
        ("reserved 'b', \"a\"; int32 a = 1;", "the name or the number of field a = 1 is reserved"),
        ("oneof o { int32 a = 2; } reserved 2;", "the name or the number of field a = 2 is reserved"),
        ("int32 a = 19999;", "the name or the number of field a = 19999 is reserved"),
        ("reserved 2, 1 to 3;", "the reserved numbers of M overlap"),
        ("reserved 3 to 2;", ""),
        ("reserved;", "expected a number"),
    ],
)
def test_a_field_with_a_reserved_name_or_number_is_refused(members: str, problem: str) -> None:
    """The rule is that of protoc and Google: a number is reserved so that no later revision uses it for another
    field.
    """
    with pytest.raises(ValueError, match=f"Protocol buffer schema definition is not valid: .*{problem}"):
        ProtoSchema(f'syntax = "proto3"; message M {{ {members} }}')


def test_fields_beside_reserved_numbers_are_accepted() -> None:
    ProtoSchema(
        'syntax = "proto3"; message M { reserved 1, 3 to 5, 1000 to max; reserved "b"; int32 a = 2; int32 c = 6; }'
    )


R = {"type": "record", "name": "R"}


def of_field(kind: Any) -> dict[str, Any]:
    return {**R, "fields": [{"name": "a", "type": kind}]}


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("", "it is not JSON (line 1, column 1)"),
        (7, "a type must be a name, an object or a list"),
        ({}, "the type of an object must be a name"),
        ({"type": ["record"], "name": "R", "fields": []}, "the type of an object must be a name"),
        (R, "a record must have a list of fields"),
        ({**R, "fields": [3]}, "a record must have a list of fields"),
        ({**R, "fields": [{"name": 5, "type": "int"}]}, "a record, enum, fixed type or field must have a name"),
        ({**R, "fields": [], "name": 5}, "a record, enum, fixed type or field must have a name"),
        ({**R, "fields": [], "aliases": 5}, "the namespace or the aliases of R are invalid"),
        (of_field(None), "a: a type must be a name, an object or a list"),
        (of_field("nope"), "there is no type nope"),
        (of_field([["int"]]), "a: a union must not contain another union"),
        (of_field({"type": "enum", "name": "E"}), "a: an enum must have a list of symbols"),
        (of_field({"type": "fixed", "name": "F", "size": "x"}), "a: a fixed type must have a size of 0 or more bytes"),
        (of_field({"type": "array"}), "a[]: a type must be a name, an object or a list"),
        (of_field({"type": "map", "values": of_field(5)}), "a{}.a: a type must be a name, an object or a list"),
    ],
)
def test_an_invalid_avro_definition_is_refused_in_the_words_of_avro(definition: Any, problem: str) -> None:
    """Each of them was accepted before, or refused with the text of a Python error."""
    with pytest.raises(ValueError, match=r"^AVRO schema definition is not valid: ") as refused:
        AvroSchema(definition if isinstance(definition, str) else json.dumps(definition))
    assert str(refused.value).removeprefix("AVRO schema definition is not valid: ") == problem
