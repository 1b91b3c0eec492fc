"""The compatibility of revisions of a protocol buffer schema: a revision may add or remove optional fields only.

"Commit a schema revision" in Pub/Sub's documentation has this rule. Production counts a new value of an enum as a
change of the fields that have this type.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2

_Type = descriptor_pb2.FieldDescriptorProto.Type


class IncompatibleError(ValueError):
    """A revision changes more than optional fields."""


def check_both(new: Any, earlier: Any) -> None:
    """Compare the descriptors of two messages and of everything below them."""
    pairs, compared = [(new, earlier)], {(new.full_name, earlier.full_name)}
    if new.full_name != earlier.full_name:
        raise IncompatibleError(f"{new.full_name} is not compatible with {earlier.full_name}")
    while pairs:
        for below in _compare(*pairs.pop()):
            names = (below[0].full_name, below[1].full_name)
            if names not in compared:
                compared.add(names)
                pairs.append(below)


def _compare(new: Any, earlier: Any) -> list[tuple[Any, Any]]:
    """Compare the fields of two messages. Return the pairs of messages that are still to compare."""
    added, former = {field.number: field for field in new.fields}, {field.number: field for field in earlier.fields}
    numbers = {field.name: field.number for field in earlier.fields}
    below = []
    for number, field in added.items():
        other = former.get(number)
        if numbers.get(field.name, number) != number:
            raise IncompatibleError(
                f"{field.full_name} = {number} is not compatible with {field.name} = {numbers[field.name]}"
            )
        if other is None:
            _check_optional(field)
        else:
            _compare_fields(field, other)
            if field.message_type is not None and not field.message_type.full_name.startswith("google.protobuf."):
                below.append((field.message_type, other.message_type))
    for number, other in former.items():
        if number not in added:
            _check_optional(other)
    return below


def _check_optional(field: Any) -> None:
    if field.is_repeated or field.is_required:
        kind = "repeated" if field.is_repeated else "required"
        raise IncompatibleError(f"{field.full_name} = {field.number} is {kind}, and only optional fields may change")


def _compare_fields(field: Any, other: Any) -> None:
    if _description(field) != _description(other):
        raise IncompatibleError(f"{_description(field)} is not compatible with {_description(other)}")
    if field.enum_type is not None:
        _compare_enums(field.enum_type, other.enum_type)
        _compare_enums(other.enum_type, field.enum_type)


def _compare_enums(one: Any, other: Any) -> None:
    values = {(value.name, value.number) for value in other.values}
    for value in one.values:
        if (value.name, value.number) not in values:
            scope = one.full_name.rpartition(".")[0]
            name = f"{scope}.{value.name}" if scope else value.name
            raise IncompatibleError(f"{name} = {value.number} is missing in {other.full_name}")


def _description(field: Any) -> str:
    """Return everything of a field that a revision must keep, apart from its number."""
    message, oneof = field.message_type or field.enum_type, field.containing_oneof
    is_synthetic = oneof is not None and oneof.name == f"_{field.name}" and len(oneof.fields) == 1
    label = "repeated " if field.is_repeated else "required " if field.is_required else ""
    name = message.full_name if message is not None else _Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"{field.name} of type {label}{name}" + ("" if oneof is None or is_synthetic else f" in oneof {oneof.name}")
