"""Columns cut out of the stored bytes, compared with decoded columns. Other layouts are decoded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.model import Message
from penstock.doors.flight import fast_columns as module
from penstock.doors.flight.fast_columns import fast_columns
from penstock.doors.flight.slow_columns import SlowColumns
from penstock.doors.flight.stored_rows import stored_rows
from penstock.errors import DamagedStoreError
from penstock.journal import codec
from penstock.journal.port import StoredBatch

COLUMNS = ("data", "attributes", "publish_time", "ordering_key")
KINDS: list[dict[str, str]] = [{}, {"a": "b"}, {"a": "bc"}, {"a": "b", "c": ""}, {"é": "x" * 300}]
sizes = st.sampled_from([0, 1, 99, 255, 256, 257, 1000, 65_535])


def stored(messages: list[tuple[bytes, dict[str, str], str, int]], first: int = 0) -> StoredBatch:
    log = [
        Message(data, attributes, key, at, first + place, place << 20, len(data), 0, 0)
        for place, (data, attributes, key, at) in enumerate(messages)
    ]
    return StoredBatch(first, first + len(log), codec.encode_messages(log))


@pytest.fixture(autouse=True, scope="module")
def _also_few_rows() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_MIN", 1)
        yield


@given(
    st.lists(st.tuples(sizes, st.sampled_from(KINDS), st.integers(2**40, 2**62)), min_size=1, max_size=30),
    st.integers(0, 255),
    st.integers(1, 30),
)
@settings(deadline=None)
def test_fast_columns_equal_decoded_columns(
    parts: list[tuple[int, dict[str, str], int]], fill: int, place: int
) -> None:
    times = sorted(at for _, _, at in parts)
    messages = [(bytes([fill]) * size, kind, "", at) for (size, kind, _), at in zip(parts, times, strict=True)]
    halves = [stored(messages[:place]), stored(messages[place:], place)]
    together = stored_rows([half for half in halves if half.until > half.first])
    found, decoded = fast_columns(together), SlowColumns.of(together)
    assert found is not None
    for low in {0, min(place, len(messages) - 1)}:
        some, same = found.slice(low, len(messages) - low), decoded.slice(low, len(messages) - low)
        for name in COLUMNS:
            column = getattr(some, name)()
            column.validate(full=True)
            assert column.equals(getattr(same, name)()), name


@pytest.mark.parametrize(
    "odd",
    [
        (b"x", {}, "key", 2**60),
        (b"x" * 65_536, {}, "", 2**60),
        (b"x", {}, "", 1),
    ],
    ids=["an ordering key", "very large data", "a time from long ago"],
)
@pytest.mark.parametrize("place", [0, 100])
def test_other_layouts_are_left(odd: tuple[bytes, dict[str, str], str, int], place: int) -> None:
    messages = [(b"x", {"a": "b"}, "", 2**60)] * 200
    assert fast_columns(stored_rows([stored(messages)])) is not None
    messages[place] = odd
    assert fast_columns(stored_rows([stored(messages)])) is None


@pytest.mark.parametrize("plain", [0, 100])
def test_attributes_of_many_kinds_are_left(plain: int) -> None:
    messages = [(b"x", {"n": str(n * (n > plain))}, "", 2**60) for n in range(300)]
    assert fast_columns(stored_rows([stored(messages)])) is None


def test_batches_are_put_together_whatever_their_heads() -> None:
    lengths = (1, 15, 16, 70_000)
    first, batches = 0, []
    for length in lengths:
        batches.append(stored([(b"x", {}, "", 2**60)] * length, first))
        first += length
    together = stored_rows(batches)
    assert len(together.rows) == sum(lengths)
    assert fast_columns(together).data().to_pylist() == [b"x"] * sum(lengths)  # type: ignore[union-attr]


@pytest.mark.parametrize("body", [b"", b"\x91\x01", b"\xdc\x00\x05", b"\xc0"])
def test_a_batch_that_holds_another_number_is_damage(body: bytes) -> None:
    good = stored([(b"x", {}, "", 1)] * 2)
    with pytest.raises(DamagedStoreError):
        stored_rows([good, StoredBatch(2, 4, body)])
    with pytest.raises(DamagedStoreError):
        stored_rows([StoredBatch(2, 4, body)])


@pytest.mark.parametrize("place", [0, 150])
@pytest.mark.parametrize("field", [7, 9], ids=["an attribute", "the ordering key"])
def test_a_number_in_place_of_a_text_is_damage(place: int, field: int) -> None:
    good = stored([(b"x", {"a": "b"}, "", 2**60)] * 200)
    rows = [bytes(row) for row in stored_rows([good]).rows]
    length = 1 + rows[place][field] - 0xA0
    rows[place] = rows[place][:field] + b"\x05" + rows[place][field + length :]
    damaged = stored_rows([good._replace(body=b"\xdc\x00\xc8" + b"".join(rows))])
    with pytest.raises(DamagedStoreError):
        (fast_columns(damaged) or SlowColumns.of(damaged)).attributes()
