"""Filters of readers: by attributes, by a text in the message, by a path in its JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any

import msgspec

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

    def test(message: Message) -> bool:
        try:
            found = _DECODER.decode(message.data)
        except _NO_JSON:
            return False
        for step in steps:
            in_object = isinstance(found, dict) and isinstance(step, str) and step in found
            if not in_object and not (isinstance(found, list) and isinstance(step, int) and step < len(found)):
                return False
            found = found[step]
        return value is _ABSENT or (found == value and isinstance(found, bool) == isinstance(value, bool))

    return test


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
