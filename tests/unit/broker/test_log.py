"""The cache of the log: what it gives is right or missing, never wrong, and it keeps to its budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.log import CHUNK_MESSAGES, OVERHEAD_BYTES, READ_AHEAD_BYTES, READ_AHEAD_MESSAGES, LogCache, Need
from penstock.broker.model import Message

COST = 10 + OVERHEAD_BYTES  # of each message here


def message(offset: int) -> Message:
    return Message(b"%010d" % offset, {}, "", 1, offset, offset * 10, 10, 0, 0)


def messages(first: int, until: int) -> list[Message]:
    return [message(offset) for offset in range(first, until)]


def filled(*ranges: tuple[int, int], budget: int = 10**9) -> LogCache:
    cache = LogCache(budget)
    for first, until in ranges:
        cache.load(1, messages(first, until))
    return cache


def held(cache: LogCache, topic: int = 1, until: int = 3000) -> set[int]:
    return {offset for offset in range(until) if cache.get(topic, offset) is not None}


def test_what_is_published_is_found() -> None:
    cache = LogCache(10**9)
    for first in range(0, 1000, 10):
        cache.append(1, messages(first, first + 10))
    assert held(cache) == set(range(1000))
    assert cache.get(1, 1000) is None
    assert cache.get(2, 0) is None
    assert len(cache._chunks) <= 1 + 1000 // CHUNK_MESSAGES


def test_a_span_is_the_chunk_and_the_place_in_it() -> None:
    span = filled((100, 200)).span(1, 150)
    assert span is not None
    assert span[0][span[1]].offset == 150


def test_what_is_missing_is_asked_for_up_to_what_is_there() -> None:
    cache = filled((100, 200), (500, 600))
    assert cache.need(1, 50, 10_000, 10) == Need(1, 50, 100)
    assert cache.need(1, 200, 10_000, 10) == Need(1, 200, 500)
    assert cache.need(1, 600, 650, 10) == Need(1, 600, 650)
    assert cache.need(1, 600, 10_000, 10) == Need(1, 600, 600 + READ_AHEAD_MESSAGES)
    assert cache.need(1, 600, 10_000, READ_AHEAD_BYTES) == Need(1, 600, 601)


def test_what_came_another_way_meanwhile_is_not_there_twice() -> None:
    cache = filled((100, 200))
    for first, until in [(50, 150), (150, 250), (0, 300), (100, 200), (120, 130)]:
        cache.load(1, messages(first, until))
        assert cache.bytes == COST * len(held(cache))


def test_the_oldest_load_leaves_first() -> None:
    cache = filled((0, 100), (100, 200), (200, 300), budget=COST * 250)
    assert held(cache) == set(range(100, 300))


def test_what_was_just_asked_for_stays_however_large() -> None:
    cache = filled((0, 100), (100, 200), budget=1)
    assert held(cache) == set(range(100, 200))


def test_topics_share_the_budget() -> None:
    cache = LogCache(COST * 150)
    cache.load(1, messages(0, 100))
    cache.load(2, messages(0, 100))
    assert (held(cache, 1), held(cache, 2)) == (set(), set(range(100)))


def test_whole_chunks_are_forgotten() -> None:
    cache = filled((0, 100), (100, 200))
    cache.forget(1, 150)
    assert held(cache) == set(range(100, 200))
    cache.forget(1, 200)
    assert (held(cache), cache.bytes, cache._firsts) == (set(), 0, {})


def test_a_dropped_topic_leaves_nothing() -> None:
    cache = filled((0, 100), (500, 700))
    cache.load(2, messages(0, 10))
    cache.drop(1)
    assert (held(cache), cache.bytes) == (set(), COST * 10)


RANGES = st.tuples(st.integers(0, 300), st.integers(1, 100)).map(lambda pair: (pair[0], pair[0] + pair[1]))
STEPS = st.one_of(
    st.tuples(st.just("load"), RANGES),
    st.tuples(st.just("append"), RANGES),
    st.tuples(st.just("forget"), RANGES),
    st.tuples(st.just("need"), RANGES),
)


@given(st.lists(STEPS, max_size=40), st.integers(1, COST * 300))
def test_the_cache_is_never_wrong(steps: list[tuple[str, tuple[int, int]]], budget: int) -> None:
    """Every message found has the offset asked for, nothing is counted twice, and reading what is needed helps."""
    cache, tail = LogCache(budget), 0
    for action, (first, until) in steps:
        if action == "append":
            cache.append(1, messages(tail, tail + until - first))
            tail += until - first
        elif action == "load" and first < tail:
            cache.load(1, messages(first, min(until, tail)))
        elif action == "forget":
            cache.forget(1, first)
        elif action == "need" and first < tail and cache.get(1, first) is None:
            need = cache.need(1, first, tail, 10)
            assert need.first == first < need.until <= tail
            assert not held(cache, until=tail) & set(range(need.first, need.until))
            cache.load(1, messages(need.first, min(need.until, need.first + CHUNK_MESSAGES)))
            assert cache.get(1, first) is not None
        found = [cache.get(1, offset) for offset in range(tail)]
        assert all(each is None or each.offset == offset for offset, each in enumerate(found))
        assert cache.bytes == COST * sum(each is not None for each in found)
        assert cache.bytes <= budget or len(cache._chunks) == 1
