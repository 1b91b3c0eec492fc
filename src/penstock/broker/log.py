"""The part of the topics' logs that is in memory: a bounded cache of messages, in chunks of consecutive offsets.

The rule kept here: memory has a budget. The oldest chunk leaves when the budget is spent, whoever owns it; what
is not here is asked for by range (`Need`) and put here by whoever reads it from the journal.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from typing import NamedTuple

from penstock.broker.model import Message

CHUNK_MESSAGES = 512
CHUNK_BYTES = 512 * 1024
OVERHEAD_BYTES = 400  # what a message costs in memory beside its data, measured
READ_AHEAD_MESSAGES = 1024  # asked for at once, or fewer where messages are large
READ_AHEAD_BYTES = 1024 * 1024


class Need(NamedTuple):
    """Messages that a command has to see before it can decide; read them, `load` them and ask again."""

    topic: int
    first: int
    until: int


class Chunk:
    """Messages with consecutive offsets."""

    __slots__ = ("bytes", "first", "messages")

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[Message] = []
        self.bytes = 0


class LogCache:
    """Chunks of all topics, with one budget in bytes."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._firsts: dict[int, list[int]] = {}  # topic -> first offsets of its chunks, ascending
        self._chunks: OrderedDict[tuple[int, int], Chunk] = OrderedDict()  # oldest load first
        self.bytes = 0

    def append(self, topic: int, messages: list[Message]) -> None:
        """New messages at the tail of a topic."""
        firsts = self._firsts.get(topic)
        first = messages[0].offset
        if firsts:
            chunk = self._chunks[topic, firsts[-1]]
            room = len(chunk.messages) < CHUNK_MESSAGES and chunk.bytes < CHUNK_BYTES
            if room and chunk.first + len(chunk.messages) == first:
                self._fill(chunk, messages)
                self._evict()
                return
        self.load(topic, messages)

    def load(self, topic: int, messages: list[Message]) -> None:
        """Messages read from the journal; those that came here by another way meanwhile are left out."""
        messages = self._missing(topic, messages)
        for start in range(0, len(messages), CHUNK_MESSAGES):
            part = messages[start : start + CHUNK_MESSAGES]
            chunk = Chunk(part[0].offset)
            insort(self._firsts.setdefault(topic, []), chunk.first)
            self._chunks[topic, chunk.first] = chunk
            self._fill(chunk, part)
        self._evict()

    def span(self, topic: int, offset: int) -> tuple[list[Message], int] | None:
        """The chunk that holds an offset and the place of the offset in it."""
        firsts = self._firsts.get(topic)
        if not firsts:
            return None
        place = bisect_right(firsts, offset) - 1
        if place < 0:
            return None
        chunk = self._chunks[topic, firsts[place]]
        index = offset - chunk.first
        return (chunk.messages, index) if index < len(chunk.messages) else None

    def get(self, topic: int, offset: int) -> Message | None:
        span = self.span(topic, offset)
        return span[0][span[1]] if span else None

    def need(self, topic: int, offset: int, tail: int, mean_bytes: int) -> Need:
        """The range to read for a missing offset: ahead of it, up to what is here already."""
        ahead = max(1, min(READ_AHEAD_MESSAGES, READ_AHEAD_BYTES // (mean_bytes + 1)))
        until = min(offset + ahead, tail)
        firsts = self._firsts.get(topic, [])
        place = bisect_right(firsts, offset)
        if place < len(firsts):
            until = min(until, firsts[place])
        return Need(topic, offset, until)

    def forget(self, topic: int, until: int) -> None:
        """Whole chunks below an offset are no longer needed."""
        firsts = self._firsts.get(topic)
        while firsts:
            chunk = self._chunks[topic, firsts[0]]
            if chunk.first + len(chunk.messages) > until:
                return
            self._drop(topic, chunk.first)
            firsts = self._firsts.get(topic)

    def drop(self, topic: int) -> None:
        for first in list(self._firsts.get(topic, ())):
            self._drop(topic, first)

    def _missing(self, topic: int, messages: list[Message]) -> list[Message]:
        first, until = messages[0].offset, messages[-1].offset + 1
        span = self.span(topic, first)
        if span is not None:
            first += len(span[0]) - span[1]
        firsts = self._firsts.get(topic, [])
        place = bisect_right(firsts, first)
        if place < len(firsts):
            until = min(until, firsts[place])
        start = messages[0].offset
        return messages if until - first == len(messages) else messages[first - start : max(until - start, 0)]

    def _fill(self, chunk: Chunk, messages: list[Message]) -> None:
        last = messages[-1]
        size = last.position + last.size - messages[0].position + OVERHEAD_BYTES * len(messages)
        chunk.messages.extend(messages)
        chunk.bytes += size
        self.bytes += size

    def _evict(self) -> None:
        # The newest chunk always stays: it is what was asked for or just published.
        while self.bytes > self.budget_bytes and len(self._chunks) > 1:
            topic, first = next(iter(self._chunks))
            self._drop(topic, first)

    def _drop(self, topic: int, first: int) -> None:
        self.bytes -= self._chunks.pop((topic, first)).bytes
        firsts = self._firsts[topic]
        del firsts[bisect_right(firsts, first) - 1]
        if not firsts:
            del self._firsts[topic]
