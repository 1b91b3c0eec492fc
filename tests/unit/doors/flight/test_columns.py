"""Stored messages as record batches: the same content for all sizes of stored batches."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.model import Message
from penstock.doors.flight import columns
from penstock.doors.flight.columns import SCHEMA, record_batches
from penstock.errors import DamagedStoreError
from penstock.journal import codec
from penstock.journal.port import StoredBatch

TOPIC, FIRST_ID = "projects/p/topics/t", 5 << 58

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
drafts = st.tuples(
    st.one_of(st.binary(max_size=20), st.binary(min_size=500, max_size=600)),
    st.one_of(st.just({}), st.dictionaries(texts, texts, max_size=3)),
    st.one_of(st.just(""), texts),
    st.integers(0, 2**62),
)


def log_of(parts: list[tuple[bytes, dict[str, str], str, int]], first: int) -> list[Message]:
    times = sorted(at for *_, at in parts)  # they never run backwards within a topic
    return [
        Message(data, attributes, key, times[place], first + place, 0, len(data), 0, 0)
        for place, (data, attributes, key, _) in enumerate(parts)
    ]


def stored(log: list[Message], cuts: set[int]) -> list[StoredBatch]:
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    return [
        StoredBatch(log[low].offset, log[high - 1].offset + 1, codec.encode_messages(log[low:high]))
        for low, high in pairwise(bounds)
    ]


def expected_row(message: Message) -> dict[str, object]:
    return {
        "topic": TOPIC,
        "offset": message.offset,
        "message_id": str(FIRST_ID + message.offset),
        "data": message.data,
        "attributes": list(message.attributes.items()),
        "publish_time": message.publish_time // 1000,
        "ordering_key": message.ordering_key,
    }


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    table = pa.Table.from_batches(batches, SCHEMA)
    place = SCHEMA.get_field_index("publish_time")
    return table.set_column(place, "publish_time", table["publish_time"].cast(pa.int64())).to_pylist()


@given(st.lists(drafts, min_size=1, max_size=40), st.sets(st.integers(1, 39)), st.integers(0, 2**38), st.data())
@settings(deadline=None)
def test_stored_messages_are_read_unchanged(
    parts: list[tuple[bytes, dict[str, str], str, int]], cuts: set[int], start: int, data: st.DataObject
) -> None:
    log = log_of(parts, start)
    first = data.draw(st.integers(0, len(log) - 1))
    until = data.draw(st.integers(first + 1, len(log)))
    batches = list(record_batches(TOPIC, FIRST_ID, stored(log, cuts), start + first, start + until))
    assert rows_of(batches) == [expected_row(message) for message in log[first:until]]


def test_attributes_that_repeat_and_attributes_that_differ() -> None:
    few = log_of([(b"", {"n": str(place % 3)}, "", 1) for place in range(500)], 0)
    many = log_of([(b"", {"n": str(place)}, "", 1) for place in range(500)], 0)
    for log in (few, many, few[:100] + log_of([(b"", {"n": str(place)}, "", 1) for place in range(400)], 100)):
        assert rows_of(list(record_batches(TOPIC, FIRST_ID, stored(log, set()), 0, 500))) == list(
            map(expected_row, log)
        )


def test_small_batches_are_put_together_and_large_ones_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROWS_MAX", 4)
    log = log_of([(b"x", {}, "", 1)] * 21, 0)
    sizes = [len(batch) for batch in record_batches(TOPIC, FIRST_ID, stored(log, {1, 2, 3, 4, 5, 6}), 0, 21)]
    assert sizes == [4, 4, 4, 4, 4, 1]


def test_only_the_chosen_columns_come_in_their_own_order() -> None:
    log = log_of([(b"x", {"a": "b"}, "k", 1)], 3)
    (batch,) = record_batches(TOPIC, FIRST_ID, stored(log, set()), 3, 4, ["data", "offset"])
    assert batch.to_pylist() == [{"offset": 3, "data": b"x"}]


@pytest.mark.parametrize("body", [codec.encode_messages([]), b"\x91\x01", b""])
def test_a_body_that_does_not_fit_is_damage(body: bytes) -> None:
    with pytest.raises(DamagedStoreError):
        list(record_batches(TOPIC, FIRST_ID, [StoredBatch(0, 1, body)], 0, 1))
