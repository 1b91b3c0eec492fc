"""Filters of readers: by attributes, by a text in the message, by a path in its JSON.

A path is followed without making Python values of what is beside it, which would take a second for 10 MB of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.broker.filters import compile_filter
from penstock.broker.model import Message
from penstock.errors import InvalidArgumentError
from penstock.services.reading import Predicate

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]="'<>! ]+)|\[(?P<index>\d{1,9})\]"""
    r"""|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\['(?P<plain>[^']*)'\]"""
)
_DECODER = msgspec.json.Decoder(float_hook=Decimal)  # keeps 0.1 exact, and reads 1e400
# Arithmetic: numbers that cannot be compared.
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ArithmeticError)
_NOT_A_PATH = "json must be a path such as $.a.b[0], or $.a.b=5"
_ABSENT = object()
_STEPS_MAX = 100
_LENGTHS = (8, 64, 512)  # of lists that are read without making values; of a longer one each item is a value
_COMPARED_BYTES = 64 << 10  # of JSON. A longer value equals no value that was asked for, which has a bounded length


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of messages. An empty filter matches every message."""

    filter: Annotated[str, msgspec.Meta(description='Filter on attributes, such as attributes.a = "b".')] = ""
    text: Annotated[str, msgspec.Meta(description="Text in the data, or in a key or value of an attribute.")] = ""
    json: Annotated[str, msgspec.Meta(description="Path in JSON data ($.a.b), or path and value ($.a.b=5).")] = ""


def predicate_of(wanted: Wanted) -> Predicate | None:
    """Return a test of messages, or None if every message matches."""
    tests = [*_tests(wanted)]
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda message: all(test(message) for test in tests)


def _tests(wanted: Wanted) -> Iterator[Predicate]:
    """Yield the tests, the cheapest first."""
    if wanted.filter:
        accepts = compile_filter(wanted.filter)
        yield lambda message: accepts(message.attributes)
    if wanted.text:
        yield _has_text(wanted.text)
    if wanted.json:
        yield _has_place(wanted.json)


def _has_text(text: str) -> Predicate:
    data = text.encode()

    def test(message: Message) -> bool:
        if data in message.data:
            return True
        return any(text in key or text in value for key, value in message.attributes.items())

    return test


def _has_place(text: str) -> Predicate:
    steps, value = _read_path(text)
    follow = [_follow(step) for step in steps]
    bytes_max = _COMPARED_BYTES + 8 * len(text)

    def test(message: Message) -> bool:
        try:
            found: Raw | UnsetType = msgspec.json.decode(message.data.decode(), type=Raw)
            for part_of in follow:
                if found is UNSET:
                    return False
                found = part_of(found)
            if value is _ABSENT or found is UNSET or len(memoryview(found)) > bytes_max:
                return value is _ABSENT and found is not UNSET
            content = _DECODER.decode(found)
        except _NO_JSON:
            return False
        return bool(content == value) and isinstance(content, bool) == isinstance(value, bool)

    return test


def _follow(step: str | int) -> Callable[[Raw], Raw | UnsetType]:
    """Return a function that takes one part out of an object or a list. It raises DecodeError for other values."""
    if isinstance(step, int):
        length = next((length for length in _LENGTHS if step < length), 0)
        if length:
            read, item = _list_decoder(length).decode, attrgetter(f"item{step}")
            return lambda value: item(read(value))
        items = msgspec.json.Decoder(list[Raw])
        return lambda value: next(iter(items.decode(value)[step : step + 1]), UNSET)
    try:
        kind = msgspec.defstruct("Object", [("part", Raw | UnsetType, UNSET)], rename={"part": step})
    except ValueError:  # msgspec does not take characters that JSON escapes
        parts = msgspec.json.Decoder(dict[str, Raw])
        return lambda value: parts.decode(value).get(step, UNSET)
    members: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
    return lambda value: members.decode(value).part


@lru_cache
def _list_decoder(length: int) -> msgspec.json.Decoder[Any]:
    fields = [(f"item{index}", Raw | UnsetType, UNSET) for index in range(length)]
    return msgspec.json.Decoder(msgspec.defstruct("List", fields, array_like=True))


def _read_path(text: str) -> tuple[list[str | int], Any]:
    if not text.startswith("$"):
        raise InvalidArgumentError(_NOT_A_PATH)
    steps: list[str | int] = []
    at = 1
    while at < len(text) and text[at] != "=":
        step = _STEP.match(text, at)
        if step is None:
            raise InvalidArgumentError(_NOT_A_PATH)
        steps.append(_key(step))
        if len(steps) > _STEPS_MAX:
            raise InvalidArgumentError(f"json may have at most {_STEPS_MAX} steps")
        at = step.end()
    if at == len(text):
        return steps, _ABSENT
    try:
        return steps, _DECODER.decode(text[at + 1 :].encode())
    except _NO_JSON:
        return steps, text[at + 1 :]  # a value that is not JSON is a string


def _key(step: re.Match[str]) -> str | int:
    if step["index"]:
        return int(step["index"])
    if not step["quoted"]:
        return step["name"] or step["plain"] or ""
    try:
        return msgspec.json.decode(step["quoted"].encode(), type=str)
    except _NO_JSON:
        raise InvalidArgumentError(_NOT_A_PATH) from None
