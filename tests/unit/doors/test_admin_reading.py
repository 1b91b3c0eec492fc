"""The parts of reading a log for people: ranges in blocks, forwards and backwards; tests of messages; times."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.model import SECOND, Message
from penstock.doors.http.admin.instants import parse_instant
from penstock.doors.http.admin.matching import Wanted, predicate_of
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.services import reading
from penstock.services.reading import Range, blocks
from penstock.wire.turns import Share

NOW = 1_800_000_000 * SECOND


def message(offset: int, data: bytes = b"", **attributes: str) -> Message:
    return Message(data, attributes, "", NOW, offset, 0, len(data), 0, 0)


class Log:
    """A topic whose blocks end at a number of bytes. It may forget messages or be deleted while it is read."""

    name, number, first_id = "t", 1, 0

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.head = 0
        self.deleted = False
        self.reads: list[int] = []
        self.forget: dict[int, int] = {}  # number of a read -> the head from then on

    async def find_topic(self, key: int) -> Log | None:
        return None if self.deleted else self

    async def read(self, name: str, first: int, until: int, max_bytes: int) -> list[Message]:
        self.head = max(self.head, self.forget.get(len(self.reads), 0))
        found: list[Message] = []
        for offset in range(max(first, self.head), until):
            found.append(message(offset))
            max_bytes -= self.sizes[offset]
            if max_bytes <= 0:
                break
        self.reads.append(sum(self.sizes[each.offset] for each in found))
        return found


async def read(log: Any, span: Range, *, descending: bool = False) -> list[int]:
    found: list[int] = []
    async for block in blocks(log, log, span, Share(lambda: 0), descending=descending):
        assert len(block.messages) <= reading.BLOCK_MESSAGES
        found += [each.offset for each in block.messages]
    return found


@given(
    st.lists(st.integers(0, 700_000), min_size=1, max_size=40),
    st.integers(0, 40),
    st.integers(0, 40),
    st.booleans(),
)
def test_every_offset_of_a_range_comes_once_and_in_order(
    sizes: list[int], first: int, until: int, descending: bool
) -> None:
    log = Log(sizes)
    span = Range(min(first, len(sizes)), min(until, len(sizes)))
    expected = list(range(*span))
    assert asyncio.run(read(log, span, descending=descending)) == (expected[::-1] if descending else expected)
    assert max(log.reads, default=0) <= reading.BLOCK_BYTES + max(sizes), "no more than one block is in memory"


@given(st.integers(0, 3000), st.integers(0, 5), st.booleans())
def test_messages_forgotten_meanwhile_are_left_out(head: int, at: int, descending: bool) -> None:
    log = Log([0] * 3000)
    log.forget[at] = head
    found = asyncio.run(read(log, Range(0, 3000), descending=descending))
    assert found == sorted(found, reverse=descending)
    assert set(range(head, 3000)) <= set(found), "what is kept is never left out"


@pytest.mark.parametrize("descending", [False, True])
def test_a_commit_of_many_bytes_is_more_than_one_block(descending: bool) -> None:
    """A journal may return all requested messages, however many bytes they have."""

    class Commit(Log):
        async def read(self, name: str, first: int, until: int, max_bytes: int) -> list[Message]:
            return [message(offset, b"x" * self.sizes[offset]) for offset in range(first, until)]

    async def sizes(log: Any) -> list[int]:
        found = []
        async for block in blocks(log, log, Range(0, len(log.sizes)), Share(lambda: 0), descending=descending):
            found.append(sum(each.size for each in block.messages))
            rest = [each.offset for each in block.messages][-1]
            assert block.rest == (Range(0, rest) if descending else Range(rest + 1, len(log.sizes)))
        return found

    half = reading.BLOCK_BYTES // 2
    log = Commit([half, half, 1, 3 * half, half])
    assert asyncio.run(sizes(log)) == (
        [half, 3 * half, 1 + half, half] if descending else [2 * half, 1, 3 * half, half]
    )
    offsets = asyncio.run(read(log, Range(0, 5), descending=descending))
    assert offsets == sorted(range(5), reverse=descending)


def test_the_deletion_of_a_topic_ends_the_reading() -> None:
    log = Log([1] * 10)
    log.deleted = True
    with pytest.raises(NotFoundError):
        asyncio.run(read(log, Range(0, 10)))


@pytest.mark.parametrize(
    ("wanted", "data", "attributes", "expected"),
    [
        ({"text": "é"}, "café".encode(), {}, True),
        ({"text": "x"}, b"\xff", {"key": "axb"}, True),
        ({"text": "key"}, b"", {"key": ""}, True),
        ({"text": "x"}, b"y", {}, False),
        ({"json": "$"}, b"5", {}, True),
        ({"json": "$"}, b"not json", {}, False),
        ({"json": "$=5"}, b"5", {}, True),
        ({"json": "$.a=null"}, b'{"a": null}', {}, True),
        ({"json": "$.a"}, b'{"a": null}', {}, True),
        ({"json": "$.a=1"}, b'{"a": true}', {}, False),
        ({"json": "$.a=true"}, b'{"a": 1}', {}, False),
        ({"json": "$.a=1"}, b'{"a": 1.0}', {}, True),
        ({"json": "$.a=b c"}, b'{"a": "b c"}', {}, True),
        ({"json": '$.a="5"'}, b'{"a": "5"}', {}, True),
        ({"json": "$.a=5"}, b'{"a": "5"}', {}, False),
        ({"json": '$["a b"][1]'}, b'{"a b": [1, 2]}', {}, True),
        ({"json": "$[2]"}, b"[1, 2]", {}, False),
        ({"json": "$['a.b']=1"}, b'{"a.b": 1}', {}, True),
        ({"json": r'$["a\"b"]=1'}, rb'{"a\"b": 1}', {}, True),
        ({"json": "$.id=7"}, b'{"id": 7, "v": 1e400}', {}, True),
        ({"json": "$.v=1e400"}, b'{"id": 7, "v": 1e400}', {}, True),
        ({"json": "$.v=0.1"}, b'{"v": 0.10}', {}, True),
        ({"json": "$.v=0.1"}, b'{"v": 0.10000000000000000001}', {}, False),
        ({"json": "$.v"}, b'{"v": 1e99999999999999999999}', {}, True),
        ({"json": "$.v=1e99999999999999999999"}, b'{"v": 1e99999999999999999999}', {}, False),
        ({"json": "$.a"}, b'{"a": 1, "b": "\xff"}', {}, False),
        ({"json": "$.a=2"}, b'{"a": 1, "\\u0061": 2}', {}, True),
        ({"json": "$.a[0]"}, b'{"a": 5}', {}, False),
        ({"json": "$[600]=600"}, json.dumps([*range(700)]).encode(), {}, True),
        ({"json": "$[700]"}, json.dumps([*range(700)]).encode(), {}, False),
        ({"json": "$.a"}, b"[" * 100_000, {}, False),
        ({"filter": 'attributes.k = "v"', "text": "x"}, b"x", {"k": "v"}, True),
        ({"filter": 'attributes.k = "v"', "text": "x"}, b"y", {"k": "v"}, False),
    ],
)
def test_which_messages_are_wanted(
    wanted: dict[str, str], data: bytes, attributes: dict[str, str], expected: bool
) -> None:
    test = predicate_of(Wanted(**wanted))
    assert test is not None
    assert test(message(0, data, **attributes)) is expected


KEYS = st.sampled_from(["a", "b", "", "a.b", 'a"b', "é", "\n"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, "", "a", "5"]),
    lambda part: st.lists(part, max_size=12) | st.dictionaries(KEYS, part, max_size=3),
    max_leaves=15,
)


@given(JSON, st.lists(KEYS | st.integers(0, 12), max_size=3), JSON | st.just(...))
def test_a_path_is_followed_as_in_parsed_json(content: Any, steps: list[str | int], value: Any) -> None:
    found: list[Any] = [content]
    for step in steps:
        if isinstance(step, str):
            found = [each[step] for each in found if isinstance(each, dict) and step in each]
        else:
            found = [each[step] for each in found if isinstance(each, list) and step < len(each)]
    path = "$" + "".join(f"[{json.dumps(step)}]" for step in steps)
    if value is not ...:
        path += f"={json.dumps(value)}"
        found = [each for each in found if each == value and isinstance(each, bool) == isinstance(value, bool)]
    test = predicate_of(Wanted(json=path))
    assert test is not None
    for text in (json.dumps(content), json.dumps(content, indent=1, ensure_ascii=False)):
        assert test(message(0, text.encode())) is bool(found)


@pytest.mark.parametrize("part", ["1.5", '{"a": {}}', "[[]]"])
def test_a_large_body_is_searched_without_making_its_values(part: str) -> None:
    many = f"[{','.join([part] * 100_000)}]"
    bodies = [("$.b=1", f'{{"a": {many}, "b": 1}}', True), ("$[0]=1", f"[1,{many}]", True), ("$.a=1", many, False)]
    for path, text, expected in [
        *bodies,
        ("$", many, True),
        ("$=5", many, False),
        ("$.a=5", f'{{"a": {many}}}', False),
    ]:
        test, data = predicate_of(Wanted(json=path)), message(0, (" " * (1 << 20) + text).encode())
        assert test is not None
        test(data)
        tracemalloc.start()
        try:
            assert test(data) is expected
            assert tracemalloc.get_traced_memory()[1] < 2 * data.size
        finally:
            tracemalloc.stop()


def test_a_path_of_many_steps_is_refused() -> None:
    assert predicate_of(Wanted(json="$" + ".a" * 100)) is not None
    with pytest.raises(InvalidArgumentError, match=r"^json may have at most 100 steps$"):
        predicate_of(Wanted(json="$" + ".a" * 101))


def test_where_nothing_is_asked_all_are_wanted() -> None:
    assert predicate_of(Wanted()) is None


@pytest.mark.parametrize(
    "path",
    ["", "a", ".a", "$a", "$.", "$[", "$[x]", "$[-1]", "$.a b", '$["a]', r'$["\q"]', "$.n>297", "$.n<=3", "$.n!=3"],
)
def test_an_invalid_path_is_refused(path: str) -> None:
    if not path:
        assert predicate_of(Wanted(json=path)) is None
        return
    with pytest.raises(InvalidArgumentError, match=r"^json must be a path such as"):
        predicate_of(Wanted(json=path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-01-15T08:00:00Z", NOW),
        ("2027-01-15T08:00:00.000001Z", NOW + 1000),
        ("2027-01-15T09:00:00+01:00", NOW),
        ("2027-01-15T09:00:00 01:00", NOW),  # a plus that was not escaped in a query
        ("2027-01-15 08:00", NOW),
        ("2027-01-15", NOW - 8 * 3600 * SECOND),
        ("0001-01-01", 0),
        ("-10s", NOW - 10 * SECOND),
        ("-1.5m", NOW - 90 * SECOND),
        ("-250ms", NOW - SECOND // 4),
        ("-2h", NOW - 7200 * SECOND),
        ("-999999999w", 0),
    ],
)
def test_instants_as_people_write_them(text: str, expected: int) -> None:
    assert parse_instant(text, "at", NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "now", "10m", "-10", "-m", "2027", "2027-02-30", "20270115", "-١s", "2027-01-15T"]
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^at must be an instant such as"):
        parse_instant(text, "at", NOW)
