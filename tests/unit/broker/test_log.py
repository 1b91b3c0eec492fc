"""The cache of the log: a message is the right one or missing, and the cache keeps to its budget."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.log import OVERHEAD_BYTES, LogCache, Need, Sizes
from penstock.broker.model import Message

COST = 10 + OVERHEAD_BYTES  # bytes of each message here


def message(offset: int) -> Message:
    return Message(b"%010d" % offset, {}, "", 1, offset, offset * 10, 10, 0, 0)


def messages(first: int, until: int) -> list[Message]:
    return [message(offset) for offset in range(first, until)]


def filled(*ranges: tuple[int, int], budget: int = 10**9) -> LogCache:
    cache = LogCache(Sizes(cache_bytes=budget))
    for first, until in ranges:
        cache.load(1, messages(first, until))
    return cache


def held(cache: LogCache, topic: int = 1, until: int = 3000) -> set[int]:
    return {offset for offset in range(until) if cache.get(topic, offset) is not None}


def test_published_messages_are_found() -> None:
    cache = LogCache(Sizes())
    for first in range(0, 1000, 10):
        cache.append(1, messages(first, first + 10))
    assert held(cache) == set(range(1000))
    assert cache.get(1, 1000) is None
    assert cache.get(2, 0) is None
    assert len(cache._ages) <= 1 + 1000 // cache.sizes.chunk_messages


def test_a_span_is_the_chunk_and_the_place_in_it() -> None:
    span = filled((100, 200)).span(1, 150)
    assert span is not None
    assert span[0][span[1]].offset == 150


def test_a_missing_range_ends_where_the_next_chunk_begins() -> None:
    cache = filled((100, 200), (500, 600))
    assert cache.need(1, 50, 10_000, 10) == Need(1, 50, 100)
    assert cache.need(1, 200, 10_000, 10) == Need(1, 200, 500)
    assert cache.need(1, 600, 650, 10) == Need(1, 600, 650)
    assert cache.need(1, 600, 10_000, 10) == Need(1, 600, 600 + Sizes().read_messages)
    assert cache.need(1, 600, 10_000, Sizes().read_bytes) == Need(1, 600, 601)


def test_messages_that_were_loaded_meanwhile_are_not_there_twice() -> None:
    cache = filled((100, 200))
    for first, until in [(50, 150), (150, 250), (0, 300), (100, 200), (120, 130)]:
        cache.load(1, messages(first, until))
        assert cache.bytes == COST * len(held(cache))


def test_the_oldest_load_leaves_first() -> None:
    cache = filled((0, 100), (100, 200), (200, 300), budget=COST * 250)
    assert held(cache) == set(range(100, 300))


def test_requested_messages_stay_however_large() -> None:
    cache = filled((0, 100), (100, 200), budget=1)
    assert held(cache) == set(range(100, 200))


def test_topics_share_the_budget() -> None:
    cache = LogCache(Sizes(cache_bytes=COST * 150))
    cache.load(1, messages(0, 100))
    cache.load(2, messages(0, 100))
    assert (held(cache, 1), held(cache, 2)) == (set(), set(range(100)))


def test_whole_chunks_are_forgotten() -> None:
    cache = filled((0, 100), (100, 200))
    cache.forget(1, 150)
    assert held(cache) == set(range(100, 200))
    cache.forget(1, 200)
    assert (held(cache), cache.bytes, cache._topics) == (set(), 0, {})


def test_a_dropped_topic_leaves_nothing() -> None:
    cache = filled((0, 100), (500, 700))
    cache.load(2, messages(0, 10))
    cache.drop(1)
    assert (held(cache), cache.bytes) == (set(), COST * 10)


RANGES = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
STEPS = st.tuples(st.sampled_from(["load", "append", "forget", "need"]), st.integers(1, 2), RANGES)
SIZES = st.builds(
    Sizes,
    cache_bytes=st.sampled_from([1, COST * 3, COST * 10, 10**9]),
    chunk_messages=st.integers(1, 4),
    chunk_bytes=st.sampled_from([1, 15, 10**6]),
    read_messages=st.integers(1, 6),
    read_bytes=st.sampled_from([1, 10**6]),
)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25), SIZES)
def test_the_cache_is_a_dictionary_that_may_forget(steps: list[tuple[str, int, tuple[int, int]]], sizes: Sizes) -> None:
    """Law 5: reads of any ranges return the right messages.

    No message is kept or counted twice, requested messages are there, and the budget holds.
    """
    cache = LogCache(sizes)
    tails, known = {1: 0, 2: 0}, dict[tuple[int, int], Message]()

    def put(load: Callable[[int, list[Message]], None], topic: int, first: int, until: int) -> None:
        new = messages(first, until)
        load(topic, new)
        known.update({(topic, each.offset): each for each in new})

    for action, topic, (first, until) in steps:
        tail = tails[topic]
        if action == "append":
            tails[topic] = tail + until - first
            put(cache.append, topic, tail, tails[topic])
        elif action == "load" and first < tail:
            put(cache.load, topic, first, min(until, tail))
            assert cache.get(topic, first) is not None
        elif action == "forget":
            cache.forget(topic, first)
            known = {place: each for place, each in known.items() if place[0] != topic or place[1] >= first}
        elif action == "need" and first < tail and cache.get(topic, first) is None:
            need = cache.need(topic, first, tail, 10)
            assert need.first == first < need.until <= min(tail, first + sizes.read_messages)
            assert not held(cache, topic, tail) & set(range(need.first, need.until))
            put(cache.load, topic, need.first, need.until)
            assert cache.get(topic, first) is not None
        found = {(t, o): each for t in tails for o in range(tails[t]) if (each := cache.get(t, o)) is not None}
        assert all(each.offset == place[1] for place, each in found.items())
        if sizes.cache_bytes == 10**9:
            assert found.keys() >= known.keys()
        assert cache.bytes == COST * len(found)
        assert cache.bytes <= sizes.cache_bytes or len(cache._ages) == 1
        assert len(cache._ages) == sum(len(chunks.firsts) for chunks in cache._topics.values())


def test_a_chunk_that_begins_where_the_next_one_does_is_not_loaded_over_it() -> None:
    """Two readers of a backlog ask for the same block. The second answer begins in a chunk and ends beyond it."""
    cache = LogCache(Sizes(chunk_messages=10))
    cache.load(1, messages(0, 30))
    cache.load(1, messages(5, 40))
    assert cache.bytes == COST * 40
    cache.drop(1)
    assert (cache.bytes, held(cache)) == (0, set())


def test_the_first_of_a_block_stays_where_the_block_is_larger_than_the_cache() -> None:
    """A command asked for the first message. Without it the command would ask forever."""
    cache = LogCache(Sizes(cache_bytes=COST * 2, chunk_messages=2))
    cache.load(1, messages(0, 20))
    assert held(cache) == {0, 1}
