"""A bounded cache of the topics' messages, in chunks of consecutive offsets.

An offset is cached at most once. The oldest chunk is evicted when the memory budget is spent. Commands ask for missing
messages by range (`Need`). The caller reads the range from the journal and loads the messages that are still missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import NamedTuple

from penstock.broker.model import Message

OVERHEAD_BYTES = 400  # measured memory of a message beside its data


class Sizes(NamedTuple):
    """The sizes of the cache of logs, and of reads."""

    cache_bytes: int = 16 * 1024 * 1024
    chunk_messages: int = 512
    chunk_bytes: int = 512 * 1024  # a chunk of this size gets no more messages
    read_messages: int = 1024  # asked for at once, or fewer if messages are large
    read_bytes: int = 1024 * 1024
    topics_ahead: int = 8  # number of topics, the last ones drained, whose next block is read ahead


class Need(NamedTuple):
    """Messages that a command has to see before it can decide. Read them, `load` them and repeat the command."""

    topic: int
    first: int
    until: int


class Chunks(NamedTuple):
    """The cached messages of one topic: non-empty lists of messages, and their first offsets, ascending."""

    firsts: list[int]
    lists: list[list[Message]]


class LogCache:
    """Chunks of all topics, with one budget in bytes."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.bytes = 0
        self._topics: dict[int, Chunks] = {}
        self._ages: OrderedDict[tuple[int, int], None] = OrderedDict()  # topic and first offset, oldest chunk first

    def append(self, topic: int, messages: list[Message]) -> None:
        """Add new messages at the tail of a topic."""
        chunks = self._topics.get(topic)
        if chunks is not None:
            last, new = chunks.lists[-1], messages[0]
            full = len(last) >= self.sizes.chunk_messages or new.position - last[0].position >= self.sizes.chunk_bytes
            if last[-1].offset + 1 == new.offset and not full:
                last += messages
                self.bytes += _cost(messages)
                self._evict()
                return
        self.load(topic, messages)

    def load(self, topic: int, messages: list[Message]) -> None:
        """Add messages with consecutive offsets, except messages that are cached already."""
        start = messages[0].offset
        for first, until in self._gaps(topic, start, start + len(messages)):
            self._add(topic, first, messages[first - start : until - start])
        span = self.span(topic, start)
        assert span is not None, "it was cached or was just added"
        self._ages.move_to_end((topic, span[0][0].offset))  # evicted last, because a command waits for it
        self._evict()

    def span(self, topic: int, offset: int) -> tuple[list[Message], int] | None:
        """Return the chunk that holds an offset, and the index of the offset in it."""
        chunks = self._topics.get(topic)
        if chunks is None:
            return None
        number = bisect_right(chunks[0], offset) - 1
        if number < 0:
            return None
        messages, index = chunks[1][number], offset - chunks[0][number]
        return (messages, index) if index < len(messages) else None

    def get(self, topic: int, offset: int) -> Message | None:
        span = self.span(topic, offset)
        return span[0][span[1]] if span else None

    def need(self, topic: int, offset: int, tail: int, mean_bytes: int) -> Need:
        """Return the range to read for a missing offset, up to the next cached message."""
        ahead = max(1, min(self.sizes.read_messages, self.sizes.read_bytes // (mean_bytes + 1)))
        return Need(topic, offset, self._end_of_gap(topic, offset, min(offset + ahead, tail)))

    def forget(self, topic: int, until: int) -> None:
        """Drop chunks that lie below an offset."""
        while (chunks := self._topics.get(topic)) is not None and chunks.lists[0][-1].offset < until:
            self._drop(topic, chunks.firsts[0])

    def drop(self, topic: int) -> None:
        while topic in self._topics:
            self._drop(topic, self._topics[topic].firsts[-1])

    def _gaps(self, topic: int, first: int, until: int) -> list[tuple[int, int]]:
        """Return the missing parts of a range, in pieces of at most a chunk."""
        gaps = []
        while first < until:
            span = self.span(topic, first)
            if span is not None:
                first += len(span[0]) - span[1]
            else:
                end = self._end_of_gap(topic, first, min(until, first + self.sizes.chunk_messages))
                gaps.append((first, end))
                first = end
        return gaps

    def _end_of_gap(self, topic: int, offset: int, until: int) -> int:
        """Return the first cached offset after a missing one, at most `until`."""
        firsts = self._topics[topic].firsts if topic in self._topics else []
        index = bisect_right(firsts, offset)
        return min(until, firsts[index]) if index < len(firsts) else until

    def _add(self, topic: int, first: int, messages: list[Message]) -> None:
        chunks = self._topics.setdefault(topic, Chunks([], []))
        index = bisect_left(chunks.firsts, first)
        chunks.firsts.insert(index, first)
        chunks.lists.insert(index, messages)
        self._ages[topic, first] = None
        self.bytes += _cost(messages)

    def _evict(self) -> None:
        # The newest chunk always stays, because it was just asked for or published.
        while self.bytes > self.sizes.cache_bytes and len(self._ages) > 1:
            self._drop(*next(iter(self._ages)))

    def _drop(self, topic: int, first: int) -> None:
        chunks = self._topics[topic]
        index = bisect_left(chunks.firsts, first)
        del chunks.firsts[index], self._ages[topic, first]
        self.bytes -= _cost(chunks.lists.pop(index))
        if not chunks.firsts:
            del self._topics[topic]


def _cost(messages: list[Message]) -> int:
    last = messages[-1]
    return last.position + last.size - messages[0].position + OVERHEAD_BYTES * len(messages)
