"""Conversion of JSON from REST requests and seeds to messages.

The protobuf library skips characters that are not base64, and its errors are those of Python. So every value is first
checked against the descriptor, and an error names the field as production does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, json_format, message_factory

from penstock.doors.google.errors import CallError, invalid
from penstock.doors.google.messages import POOL

_Field = descriptor_pb2.FieldDescriptorProto
_BASE64 = re.compile(r"([A-Za-z0-9+/_-]*)(={0,2})")  # both alphabets
_SHOWN_CHARACTERS = 100


def parse_message(fields: Mapping[str, Any], kind: Any) -> Any:
    """Return a message of the class `kind`. CallError names the field that does not fit."""
    check_fields(fields, kind.DESCRIPTOR)
    try:
        return json_format.ParseDict(fields, kind(), descriptor_pool=POOL)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        raise invalid("Invalid JSON payload received. A value does not fit its field.") from None


def check_fields(content: Any, descriptor: Any, path: str = "") -> None:
    """Check that a JSON value fits a message."""
    if not isinstance(content, Mapping):
        raise _wrong_value(path, f"type.googleapis.com/{descriptor.full_name}", content)
    oneofs: dict[str, str] = {}
    for name, value in content.items():
        field = descriptor.fields_by_camelcase_name.get(name) or descriptor.fields_by_name.get(name)
        if field is None:
            where = f" at '{path}'" if path else ""
            shown = str(name)[:_SHOWN_CHARACTERS]
            raise invalid(f'Invalid JSON payload received. Unknown name "{shown}"{where}: Cannot find field.')
        if value is None:
            continue
        if field.containing_oneof is not None:
            oneof = field.containing_oneof.name
            if oneofs.setdefault(oneof, field.name) != field.name:
                raise invalid(
                    f"Invalid value at '{path}' (oneof), oneof field '{oneof}' is already set. "
                    f"Cannot set '{field.name}'"
                )
        _check_field(field, value, f"{path}.{field.name}" if path else field.name)


def is_base64(text: str) -> bool:
    """Return whether text is base64 of either alphabet, with all of its padding or with none."""
    match = _BASE64.fullmatch(text)
    if match is None or len(match[1]) % 4 == 1:
        return False
    return not match[2] or len(text) % 4 == 0


def _check_field(field: Any, value: Any, path: str) -> None:
    if not field.is_repeated:
        _check_value(field, value, path)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            raise _wrong_value(path, "map", value)
        for key, part in value.items():
            _check_value(field.message_type.fields_by_name["key"], key, path)
            _check_value(field.message_type.fields_by_name["value"], part, f"{path}[{key[:_SHOWN_CHARACTERS]}]")
    elif not isinstance(value, list):
        raise _wrong_value(path, "list", value)
    else:
        for index, part in enumerate(value):
            _check_value(field, part, f"{path}[{index}]")


def _check_value(field: Any, value: Any, path: str) -> None:
    message = field.message_type
    if message is not None and not message.full_name.startswith("google.protobuf."):
        check_fields(value, message, path)
    elif field.type == _Field.TYPE_BYTES:
        if not isinstance(value, str) or not is_base64(value):
            kind = _Field.Type.Name(field.type)
            raise invalid(f"Invalid value at '{path}' ({kind}), Base64 decoding failed for {_shorten(value)}")
    elif not (_is_text(value) if field.type == _Field.TYPE_STRING else _can_parse(field, value)):
        named = f"type.googleapis.com/{message.full_name}" if message is not None else _Field.Type.Name(field.type)
        raise _wrong_value(path, named, value)


def _is_text(value: Any) -> bool:
    """Return whether a value is text that UTF-8 can encode."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= part <= "\udfff" for part in value))


def _can_parse(field: Any, value: Any) -> bool:
    """Return whether the library accepts one value: a number, an enum, or a type with a JSON form of its own."""
    if value is None:
        return False
    kind = message_factory.GetMessageClass(field.containing_type)
    try:
        json_format.ParseDict({field.name: [value] if field.is_repeated else value}, kind(), descriptor_pool=POOL)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _wrong_value(path: str, kind: str, value: Any) -> CallError:
    at = f" at '{path}'" if path else ""
    return invalid(f"Invalid value{at} ({kind}), {_shorten(value)}")


def _shorten(value: Any) -> str:
    """Return a scalar as JSON, cut to a readable length, and of a container only its kind."""
    if isinstance(value, str):
        return f'"{value[:_SHOWN_CHARACTERS]}"'
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)[:_SHOWN_CHARACTERS]
