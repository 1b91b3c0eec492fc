"""The sizes of caches, chunks and reads in the simulations: mostly so small that every boundary is met."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.broker.log import OVERHEAD_BYTES, LogCache, Sizes

# Every field is named, because Hypothesis invents the others of a NamedTuple, even if they have a default.
LOG_SIZES = st.builds(
    Sizes,
    cache_bytes=st.sampled_from([1, 4 * OVERHEAD_BYTES, 12 * OVERHEAD_BYTES, 10**7]),
    chunk_messages=st.sampled_from([1, 2, 3, 512]),
    chunk_bytes=st.sampled_from([1, 10**6, 10**6]),
    read_messages=st.sampled_from([1, 2, 3, 7, 1024]),
    read_bytes=st.sampled_from([1, 10**6, 10**6]),
    topics_ahead=st.sampled_from([0, 1, 8]),
)


def check_cache(cache: LogCache) -> None:
    """Check that an offset is in at most one chunk, and that the counts match the contents."""
    total = 0
    for topic, (firsts, lists) in cache._topics.items():
        offsets = [message.offset for messages in lists for message in messages]
        assert firsts == [messages[0].offset for messages in lists]
        assert offsets == sorted(set(offsets)), f"topic {topic} has messages twice"
        total += sum(message.size + OVERHEAD_BYTES for messages in lists for message in messages)
    assert cache.bytes == total
    assert len(cache._ages) == sum(len(chunks.firsts) for chunks in cache._topics.values())
