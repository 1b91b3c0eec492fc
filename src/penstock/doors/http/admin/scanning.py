"""Reading a topic's log for people: a range of it, forwards or backwards, block by block.

Nothing is consumed, the cache of the consumers is not touched, and one block is in memory at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from penstock.broker.model import Message
from penstock.doors.http.admin.matching import Predicate
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import NotFoundError
from penstock.wire.turns import Turns

BLOCK_MESSAGES = 1000
BLOCK_BYTES = 1 << 20
TESTED = 50  # messages between two looks at the clock


class Range(NamedTuple):
    """Offsets with first <= offset < until."""

    first: int
    until: int


class Block(NamedTuple):
    """Consecutive messages, in the order asked for."""

    messages: list[Message]
    rest: Range  # what is still to be looked at


async def blocks(queue: Queue, topic: TopicMetadata, span: Range, *, descending: bool) -> AsyncIterator[Block]:
    """The range, as it is kept while it is read. It ends with an error when the topic is deleted meanwhile."""
    count, looked_at = BLOCK_MESSAGES, -1
    while span.first < span.until:
        found = await queue.find_topic(topic.number)
        if found is None:
            raise NotFoundError(f"Topic not found: {topic.name}")
        span = Range(max(span.first, found.head), span.until)
        part = Range(max(span.first, span.until - count), span.until) if descending else span
        part = Range(part.first, min(part.until, part.first + count))
        messages = await queue.read(found.name, *part, BLOCK_BYTES) if part.first < part.until else []
        if not messages and looked_at < part.first < part.until:
            looked_at = part.first  # forgotten while it was read: look where the log begins now
        elif descending and messages and messages[-1].offset + 1 < part.until:
            count = max(1, len(messages) // 2)  # too many bytes, and the end of it is wanted first
        elif descending:
            span = Range(span.first, part.first)
            count = min(BLOCK_MESSAGES, 2 * count)
            yield Block(messages[::-1], span)
        else:
            span = Range(messages[-1].offset + 1 if messages else part.until, span.until)
            yield Block(messages, span)


async def chosen(messages: list[Message], test: Predicate | None) -> list[Message]:
    """Those of them that are wanted; others get to run in between."""
    if test is None:
        return messages
    turns, found = Turns(), list[Message]()
    for first in range(0, len(messages), TESTED):
        found += filter(test, messages[first : first + TESTED])
        await turns.give()
    return found
