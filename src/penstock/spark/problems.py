"""Everything wrong with a pipeline, a sentence each.

Looking goes on after a problem, so that one run reports all of them; an unknown name is answered with the nearest right
one.
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
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "a table", "datetime": "a time", "date": "a day", "null": "nothing",
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
    """'; did you mean "from"?' or the list of what there is."""
    names = sorted(known)
    lowered = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f'; did you mean "{lowered[close[0]]}"?' if close else f"; there is {', '.join(names)}"


def read_table(values: object, record: type[R], where: str, problems: Problems) -> R | None:
    """A table as a record, key by key. None if anything in it is wrong; the problems say what."""
    if not isinstance(values, dict):
        problems.add(where, f"expected a table, got {shown(values)}")
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(record)}
    before = len(problems.sentences)
    for key in values:
        if key not in fields:
            problems.add(where, f'unknown key "{key}"{nearest(key, fields)}')
    for key, field in fields.items():
        if field.required and key not in values:
            problems.add(where, f'the key "{key}" is missing')
    found = {
        field.name: _converted(values[key], field.type, f"{where}: {key}" if where else key, problems)
        for key, field in fields.items()
        if key in values
    }
    return record(**found) if len(problems.sentences) == before else None


def _converted(value: Any, kind: Any, where: str, problems: Problems) -> Any:
    tables = [each for each in get_args(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if tables and isinstance(value, dict):
        return read_table(value, tables[0], where, problems)
    choices = [each for each in get_args(kind) if isinstance(each, str)]
    if choices and value not in choices:
        problems.add(where, f"{shown(value)} is none of {', '.join(choices)}")
        return None
    # A day is its midnight, and a time without a zone one in UTC: Spark's session counts in UTC, too.
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    elif isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problems.add(where, _worded(str(error)))
        return None


def _worded(text: str) -> str:
    """msgspec's words as ours: 'expected a text, got a whole number'."""
    text = re.sub(r" - at .*$", "", text)
    text = re.sub(
        r"`([^`]*)`", lambda match: " or ".join(KINDS.get(each, each) for each in match[1].split(" | ")), text
    )
    return text[:1].lower() + text[1:]


def shown(value: object) -> str:
    text = repr(value).replace("'", '"')
    return text if len(text) <= 60 else text[:57] + "..."
