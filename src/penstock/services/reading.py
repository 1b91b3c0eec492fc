"""Reading a range of a topic, forwards or backwards, block by block.

Nothing is consumed, the cache of consumers is not used, and one block is in memory at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, TypeAlias

from penstock.broker.model import Message
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import NotFoundError
from penstock.wire.turns import Share

BLOCK_MESSAGES = 1000
BLOCK_BYTES = 1 << 20

Predicate: TypeAlias = Callable[[Message], bool]


class Range(NamedTuple):
    """Offsets with first <= offset < until."""

    first: int
    until: int


class Block(NamedTuple):
    """Consecutive messages, in the order asked for."""

    messages: list[Message]
    rest: Range  # the part that is still to be read


async def blocks(
    queue: Queue, topic: TopicMetadata, span: Range, share: Share, *, descending: bool
) -> AsyncIterator[Block]:
    """Yield the blocks of a range. Raise NotFoundError if the topic is deleted meanwhile.

    Every read is a slice of the share, because a reading thread delays the event loop as well.
    """
    count, looked_at = BLOCK_MESSAGES, -1
    while span.first < span.until:
        current = await queue.find_topic(topic.number)
        if current is None:
            raise NotFoundError(f"Topic not found: {topic.name}")
        span = Range(max(span.first, current.head), span.until)
        part = Range(max(span.first, span.until - count), span.until) if descending else span
        part = Range(part.first, min(part.until, part.first + count))
        messages: list[Message] = []
        if part.first < part.until:
            async with share:
                messages = await queue.read(current.name, *part, BLOCK_BYTES)
        if not messages and looked_at < part.first < part.until:
            looked_at = part.first  # trimmed while it was read: look up the new head
        elif descending and messages and messages[-1].offset + 1 < part.until:
            count = max(1, len(messages) // 2)  # too many bytes: the end of the range is needed first
        elif descending:
            *before, last = _split(messages[::-1])
            for piece in before:
                yield Block(piece, Range(span.first, piece[-1].offset))
            span = Range(span.first, part.first)
            count = min(BLOCK_MESSAGES, 2 * count)
            yield Block(last, span)
        else:
            for piece in _split(messages):
                span = Range(piece[-1].offset + 1 if piece else part.until, span.until)
                yield Block(piece, span)


def _split(messages: list[Message]) -> list[list[Message]]:
    """Split messages into blocks. A journal may return more than it was asked for, such as one whole commit."""
    pieces, size = [messages[:1]], sum(message.size for message in messages[:1])
    for message in messages[1:]:
        size += message.size
        if size > BLOCK_BYTES:
            pieces.append([])
            size = message.size
        pieces[-1].append(message)
    return pieces


async def filter_messages(messages: list[Message], test: Predicate | None, share: Share) -> list[Message]:
    """Return the messages that pass the test, which runs in slices of the share."""
    return messages if test is None else await share.filter(test, messages)
