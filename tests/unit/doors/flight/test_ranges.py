"""Shares of limits and splits of ranges, with a log that is only a list of sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.flight import ranges
from penstock.doors.flight.errors import OutOfRangeError
from penstock.doors.flight.ipc import TopicBounds
from penstock.doors.flight.topic_log import TopicLog
from penstock.errors import DamagedStoreError, InvalidArgumentError
from penstock.journal.port import StoredBatch


class Sizes:
    """A log reader of one topic that has only sizes."""

    def __init__(self, sizes: list[int]) -> None:
        self.positions = [0, *accumulate(sizes)]

    def position_of(self, topic: int, offset: int) -> int:
        return self.positions[offset]

    def offset_of(self, topic: int, position: int, low: int, high: int) -> int:
        return min(max(bisect_left(self.positions, position), low), high)

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        raise NotImplementedError

    def close(self) -> None: ...


def log_of(sizes: list[int]) -> tuple[TopicLog, TopicBounds]:
    sizes_log = Sizes(sizes)
    return TopicLog(None, sizes_log), TopicBounds("t", 1, "", 0, 0, len(sizes), 0, sizes_log.positions[-1])  # type: ignore[arg-type]


SIZES = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@given(sizes=SIZES, target=st.integers(1, 400), rows=st.none() | st.integers(1, 30), parts=st.integers(0, 12))
def test_parts_cover_their_range(sizes: list[int], target: int, rows: int | None, parts: int) -> None:
    log, topic = log_of(sizes)
    found = ranges.split(log, [ranges.span(log, topic, 0, len(sizes))], target, rows, parts)
    assert [each.first for each in found] == [0, *(each.until for each in found[:-1])]
    assert found[-1].until == len(sizes)
    assert all(each.rows > 0 for each in found)
    assert sum(each.bytes for each in found) == sum(sizes)
    assert len(found) >= min(parts, len(sizes))
    assert rows is None or all(each.rows <= rows for each in found)
    assert all(each.bytes < target + max(sizes) for each in found)


@given(sizes=SIZES, first=st.integers(0, 59), rows=st.none() | st.integers(1, 80), size=st.none() | st.integers(1, 900))
def test_a_limit_is_kept_and_never_stands_still(
    sizes: list[int], first: int, rows: int | None, size: int | None
) -> None:
    log, topic = log_of(sizes)
    first = min(first, len(sizes))
    span = ranges.backlog(log, topic, first, None)
    end = ranges.limit(log, [span], rows, size)["t"]
    assert first <= end <= len(sizes)
    assert end > first or first == len(sizes)
    assert rows is None or end - first <= rows
    assert size is None or end <= first + 1 or sum(sizes[first:end]) <= size


@given(st.data())
def test_shares_add_up(data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 1000), min_size=1, max_size=10).filter(sum))
    amount = data.draw(st.integers(1, sum(weights)))
    shares = ranges.apportion(amount, weights)
    assert sum(shares) == amount
    assert all(share <= weight for share, weight in zip(shares, weights, strict=True))


def test_a_range_that_cannot_be_read() -> None:
    topic = TopicBounds("t", 1, "", 0, 4, 10, 4, 10)
    with pytest.raises(OutOfRangeError, match="Topic t no longer has offset 3: the earliest kept is 4"):
        ranges.check_range(topic, 3, 10)
    assert ranges.check_range(topic, 3, 10, lossy=True) == (4, 10)
    assert ranges.check_range(topic, 3, 3) == (3, 3)
    with pytest.raises(InvalidArgumentError):
        ranges.check_range(topic, 4, 11)


# ---------------------------------------------------------------------- messages that are removed during a scan


class Gappy(Sizes):
    """A log reader with given batches, which may end with a failure."""

    def __init__(self, batches: list[tuple[int, int]], *, fails: bool) -> None:
        super().__init__([])
        self._batches, self._fails = batches, fails

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        for start, end in self._batches:
            yield StoredBatch(start, end, b"")
        if self._fails:
            raise DamagedStoreError


class KnownHead(TopicLog):
    """A log whose head is known without asking the server."""

    head = 0

    def topic(self, name: str) -> TopicBounds:
        return TopicBounds(name, 1, "", 0, self.head, 100, 0, 0)


@pytest.mark.parametrize(
    ("batches", "fails"), [([(20, 40)], False), ([(0, 10), (20, 40)], False), ([(0, 10)], True), ([], False)]
)
def test_messages_forgotten_during_a_scan_are_out_of_range(batches: list[tuple[int, int]], fails: bool) -> None:
    log = KnownHead(None, Gappy(batches, fails=fails))  # type: ignore[arg-type]
    wanted = 10 if batches[:1] == [(0, 10)] else 0
    log.head = 15
    with pytest.raises(OutOfRangeError) as caught:
        list(log.stored(log.topic("t"), 0, 40))
    assert (caught.value.wanted, caught.value.earliest) == (wanted, 15)
    log.head = wanted
    with pytest.raises(DamagedStoreError):
        list(log.stored(log.topic("t"), 0, 40))
