"""Protocol buffer schemas: messages compared with a definition, given as .proto text or as compiled descriptors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.message import DecodeError

from penstock.doors.google.json_messages import is_base64
from penstock.doors.google.messages import well_known_pool
from penstock.doors.google.schemas import protobuf_compatibility
from penstock.doors.google.schemas.avro_binary import (
    VALUES_MAX,
    TooLargeError,
    check_full_name,
    check_names,
    too_deep,
)
from penstock.doors.google.schemas.protobuf_parser import Parser

COMPILED_BYTES_MAX = 300 << 10  # the limit of a definition in text
_TOO_DEEP_WORDS = ("MaxDepth", "too deep", "maximum recursion depth")  # of the library's errors


class ProtoSchema:
    """The one top-level message of a definition, or the root of a compiled one."""

    def __init__(self, definition: str, compiled: bytes = b"", root: str = "") -> None:
        try:
            self._kind = _compiled_class(compiled, root) if compiled else _message_class(Parser(definition).file())
        except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
            raise ValueError(f"Protocol buffer schema definition is not valid: {str(error)[:200]}") from None

    def check_json(self, data: bytes) -> None:
        with _depth_errors():
            message = json_format.Parse(data.decode(), self._kind(), descriptor_pool=self._kind.DESCRIPTOR.file.pool)
        self._check_whole(message)
        _check_base64(json.loads(data), self._kind.DESCRIPTOR)

    def check_binary(self, data: bytes) -> None:
        self._check_whole(self._parse(data))

    def _parse(self, data: bytes) -> Any:
        with _depth_errors():
            return self._kind.FromString(data)

    def check_change(self, earlier: ProtoSchema) -> None:
        """Raise ValueError unless this schema can be a revision after an earlier one."""
        protobuf_compatibility.check_both(self._kind.DESCRIPTOR, earlier._kind.DESCRIPTOR)

    def json_of(self, data: bytes) -> str:
        message, pool = self._parse(data), self._kind.DESCRIPTOR.file.pool
        self._check_whole(message)
        _check_size(message, len(data))
        return str(
            json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True, descriptor_pool=pool)
        )

    def _check_whole(self, message: Any) -> None:
        if not message.IsInitialized():
            raise ValueError("a required field is missing")


@contextmanager
def _depth_errors() -> Iterator[None]:
    """Raise TooLargeError where the library reports that a message is nested too deeply. Its limit is the same."""
    try:
        yield
    except (DecodeError, json_format.ParseError, RecursionError) as error:
        if any(words in str(error) for words in _TOO_DEEP_WORDS):
            raise too_deep() from None
        raise


def _check_base64(content: Any, kind: Any) -> None:
    """Raise ValueError unless the bytes in a parsed message are base64. The library skips other characters."""
    if kind.full_name.startswith("google.protobuf."):  # types with a JSON form of their own
        return
    names = {field.json_name: field for field in kind.fields}
    for name, value in content.items():
        field = names.get(name) or kind.fields_by_name.get(name)
        if field is None or value is None:  # an extension, or not set
            continue
        parts = value.values() if _is_map(field) else value if field.is_repeated else (value,)
        field = field.message_type.fields_by_name["value"] if _is_map(field) else field
        for part in parts:
            if field.type == field.TYPE_BYTES:
                if not is_base64(part):
                    raise ValueError("a value of bytes is not base64")
            elif field.message_type is not None:
                _check_base64(part, field.message_type)


def _check_size(message: Any, size: int) -> None:
    """Raise TooLargeError if a message of `size` bytes has too many values, or too long names, to be shown as JSON."""
    messages, values, characters = [message], 0, 0
    while messages:
        for field, value in messages.pop().ListFields():
            parts = (value.values() if _is_map(field) else value) if field.is_repeated else (value,)
            values += len(parts)
            characters += len(field.name)
            if values > VALUES_MAX:
                raise TooLargeError(f"The message has more than {VALUES_MAX:,} values.")
            kind = field.message_type.fields_by_name["value"] if _is_map(field) else field
            if kind.message_type is not None:
                messages += parts
            elif kind.enum_type is not None:
                characters += len(parts) * max(map(len, kind.enum_type.values_by_name))
        check_names(characters, size)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _check_full_names(messages: Any, enums: Any, scope: str) -> None:
    check_full_name(scope)
    for enum in enums:
        check_full_name(f"{scope}.{enum.name}")
    for message in messages:
        _check_full_names(message.nested_type, message.enum_type, f"{scope}.{message.name}")


def _message_class(file: Any) -> Any:
    if len(file.message_type) != 1:
        raise ValueError("there must be exactly one top-level message")
    _check_full_names(file.message_type, file.enum_type, file.package)
    pool = well_known_pool()
    pool.Add(file)
    name = file.message_type[0].name
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{file.package}.{name}" if file.package else name)
    )


def _compiled_class(compiled: bytes, root: str) -> Any:
    """Return the class of the root message of a serialised FileDescriptorSet."""
    if len(compiled) > COMPILED_BYTES_MAX:
        raise ValueError(f"the compiled schema has {len(compiled):,} bytes, at most {COMPILED_BYTES_MAX:,} are allowed")
    pool = well_known_pool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        if not file.name.startswith("google/protobuf/"):
            _check_full_names(file.message_type, file.enum_type, file.package)
            pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(root))
