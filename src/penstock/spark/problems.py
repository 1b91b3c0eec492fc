"""The problems of a pipeline, one sentence each.

Reading continues after a problem, so that one run reports all of them. An unknown name gets the nearest valid one as a
hint.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, TypeVar, get_args

import msgspec

R = TypeVar("R", bound=msgspec.Struct)

KINDS = {
    "str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "a table", "datetime": "a date-time", "date": "a date", "null": "nothing",
}  # fmt: skip


class Problems:
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, where: str, what: str) -> None:
        sentence = f"{where}: {what}" if where else what
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def __bool__(self) -> bool:
        return bool(self.sentences)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean "from"?', or the list of valid names if none is near."""
    names = sorted(known)
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f'; did you mean "{lowered[close[0]]}"?' if close else f"; valid: {', '.join(names)}"


def read_table(values: object, record: type[R], where: str, problems: Problems) -> R | None:
    """Convert a table to a record, key by key. Return None, and add to the problems, if a key or value is invalid."""
    if not isinstance(values, dict):
        problems.add(where, f"expected a table, got {show_value(values)}")
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(record)}
    before = len(problems.sentences)
    for key in values:
        if key not in fields:
            problems.add(where, f'unknown key "{key}"{nearest(key, fields)}')
    for key, field in fields.items():
        if field.required and key not in values:
            problems.add(where, f'the key "{key}" is missing')
    converted = {
        field.name: _convert(values[key], field.type, f"{where}: {key}" if where else key, problems)
        for key, field in fields.items()
        if key in values
    }
    return record(**converted) if len(problems.sentences) == before else None


def _convert(value: Any, kind: Any, where: str, problems: Problems) -> Any:
    tables = [member for member in get_args(kind) if isinstance(member, type) and issubclass(member, msgspec.Struct)]
    if tables and isinstance(value, dict):
        return read_table(value, tables[0], where, problems)
    choices = [member for member in get_args(kind) if isinstance(member, str)]
    if choices and value not in choices:
        problems.add(where, f"{show_value(value)} is not one of {', '.join(choices)}")
        return None
    # A date means midnight, and a time without a zone is in UTC, like Spark's session.
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    elif isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problems.add(where, _translate(str(error)))
        return None


def _translate(text: str) -> str:
    """Translate msgspec's type names: 'expected a string, got a whole number'."""
    text = re.sub(r" - at .*$", "", text)
    text = re.sub(
        r"`([^`]*)`", lambda match: " or ".join(KINDS.get(kind, kind) for kind in match[1].split(" | ")), text
    )
    return text[:1].lower() + text[1:]


def show_value(value: object) -> str:
    text = repr(value).replace("'", '"')
    return text if len(text) <= 60 else text[:57] + "..."
