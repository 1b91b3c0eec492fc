"""Sentences about invalid queries and bodies."""

from __future__ import annotations

import time

import msgspec
import pytest

from penstock.doors.http.admin.checking import read_body
from penstock.errors import InvalidArgumentError

SECONDS_MAX = 0.1  # seconds of processor time; a pattern that walks the whole name takes 0.3 or more


class Body(msgspec.Struct, forbid_unknown_fields=True):
    count: int = 0
    names: dict[str, int] = {}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"%s": 1}' % (b"x" * (15 << 20)), "Unknown field: xxx"),
        (b'{"names": {"%s": "text"}}' % (b"y" * (15 << 20)), "Each value in names"),
        (b'{"count": "%s"}' % (b"z" * (15 << 20)), "count must be a whole number"),
    ],
    ids=["an unknown field", "a value of the wrong type", "a long value"],
)
def test_a_sentence_about_a_very_long_name_is_made_at_once(body: bytes, sentence: str) -> None:
    started = time.thread_time()
    with pytest.raises(InvalidArgumentError) as raised:
        read_body(Body, body)
    assert time.thread_time() - started < SECONDS_MAX
    assert raised.value.message.startswith(sentence)
    assert len(raised.value.message) < 400
