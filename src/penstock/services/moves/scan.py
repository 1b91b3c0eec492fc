"""The messages of a move: one pass over the unacked messages of a subscription, and a preview of the pass."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.broker.model import Message
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import FailedPreconditionError, NotFoundError

BATCH_MESSAGES = 250  # looked at in one step
BATCH_BYTES = 4 << 20  # read in one step, approximately
GAP = 32  # offsets between two messages that are still read together
PREVIEW_SECONDS = 5.0
REASONS_MAX = 20  # counted separately
REST = "other reasons"

NOT_CHOSEN = "not chosen"
NOT_A_DEAD_LETTER = "not a dead letter: its original topic is unknown"
GONE = "no such message"
TAKEN = "leased by a consumer, or already settled"


class Sources(Protocol):
    """The attributes of dead letters that name their origin."""

    def source_subscription(self, attributes: Mapping[str, str]) -> str | None: ...

    def without_source(self, attributes: Mapping[str, str]) -> dict[str, str]: ...


class Choice(NamedTuple):
    """The messages of a move, and their destination."""

    to: str | None  # a topic; None: each dead letter returns to its original topic
    matches: Callable[[Message], bool] | None = None  # None: every message
    offsets: Sequence[int] = ()  # only these; empty: all
    most: int = 0  # 0: no limit
    rate: float = 0  # messages per second; 0: no limit
    restored: bool = False  # drop the attributes that dead-lettering added; always the case if `to` is None


class Scan:
    """One pass over the unacked messages of a subscription, which chooses the destination of each.

    The pass ends at the tail at its start, so that a move to the same topic does not move its own messages.
    """

    def __init__(self, queue: Queue, subscription: str, topic: TopicMetadata, choice: Choice, sources: Sources) -> None:
        self._queue = queue
        self._subscription = subscription
        self._topic = topic
        self._choice = choice
        self._sources = sources
        self._chosen = choice.matches
        self._asked = sorted(set(choice.offsets))
        self.place = topic.head  # offset: all messages before it were seen
        self._origins: dict[str, str | None] = {}  # source subscription -> its topic
        self.left: dict[str, int] = {}  # by reason

    async def next(self, most: int) -> list[tuple[Message, str]] | None:
        """Return the next messages to move, each with its topic, or None at the end."""
        offsets = await self._offsets(most)
        if not offsets:
            return None
        messages, self.place = await self._read(offsets)
        seen = bisect_left(offsets, self.place)
        if self._choice.offsets:
            self._asked = offsets[seen:] + self._asked
        if len(messages) < seen:
            self.leave(GONE, seen - len(messages))
        chosen = []
        for message in messages:
            if self._chosen is not None and not self._chosen(message):
                self.leave(NOT_CHOSEN)
                continue
            topic, reason = (self._choice.to, "") if self._choice.to else await self._origin(message)
            if topic is None:
                self.leave(reason)
            else:
                chosen.append((message, topic))
        return chosen

    async def _offsets(self, most: int) -> list[int]:
        if self._choice.offsets:
            offsets, self._asked = self._asked[:most], self._asked[most:]
            return offsets
        unacked = await self._queue.unacked(self._subscription, self.place, most)
        return [offset for offset in unacked if offset < self._topic.tail]

    async def _read(self, offsets: Sequence[int]) -> tuple[list[Message], int]:
        """Return the messages, and the offset up to which all were read. Some may be left to the next step.

        Offsets that are close to each other are read together.
        """
        messages: list[Message] = []
        first, room = 0, BATCH_BYTES
        for end in range(1, len(offsets) + 1):
            if end < len(offsets) and offsets[end] - offsets[end - 1] <= GAP:
                continue
            wanted, last = set(offsets[first:end]), offsets[end - 1]
            read = await self._queue.read(self._topic.name, offsets[first], last + 1, room)
            messages += [message for message in read if message.offset in wanted]
            room -= sum(message.size for message in read)
            last = read[-1].offset if read else last
            if room <= 0 or last < offsets[end - 1]:
                return messages, last + 1
            first = end
        return messages, offsets[-1] + 1

    async def leased(self, first: int, last: int) -> set[int]:
        """Return the offsets in a range that consumers have leased."""
        leases = await self._queue.leases(self._subscription, first, last - first + 1)
        return {lease.offset for lease in leases if lease.offset <= last}

    def leave(self, reason: str, count: int = 1) -> None:
        reason = reason if reason in self.left or len(self.left) < REASONS_MAX else REST
        self.left[reason] = self.left.get(reason, 0) + count

    async def _origin(self, message: Message) -> tuple[str | None, str]:
        """Return the original topic of a dead letter, or the reason why it has none."""
        topic = message.attributes.get("dead_letter_source_topic")
        if topic is None:
            source = self._sources.source_subscription(message.attributes)
            if source is None:
                return None, NOT_A_DEAD_LETTER
            if source not in self._origins:
                subscription = await self._queue.find_subscription(source)
                self._origins[source] = subscription.topic if subscription is not None else None
            topic = self._origins[source]
            if topic is None:
                return None, f"its original subscription was deleted: {source}"
        if await self._queue.find_topic(topic) is None:
            return None, f"its original topic was deleted: {topic}"
        return topic, ""


class Preview(NamedTuple):
    """The expected result of a move."""

    by_topic: Mapping[str, int]
    left: Mapping[str, int]
    complete: bool  # False: the time ended before all messages were looked at


async def preview(queue: Queue, subscription: str, choice: Choice, sources: Sources) -> Preview:
    """Return the expected result of a move, without changing anything. It takes at most PREVIEW_SECONDS."""
    _, topic = await source_of(queue, subscription)
    scan, by_topic = Scan(queue, subscription, topic, choice, sources), Counter[str]()
    unacked = queue.is_unacked  # offsets chosen by id may be settled already
    loop = asyncio.get_running_loop()
    until = loop.time() + PREVIEW_SECONDS
    while loop.time() < until:
        chosen = await scan.next(BATCH_MESSAGES)
        if chosen is None:
            return Preview(by_topic, scan.left, True)
        leased = await scan.leased(chosen[0][0].offset, chosen[-1][0].offset) if chosen else set()
        for message, to in chosen:
            if message.offset in leased or (choice.offsets and not await unacked(subscription, message.offset)):
                scan.leave(TAKEN)
            elif choice.most and by_topic.total() >= choice.most:
                scan.leave(NOT_CHOSEN)
            else:
                by_topic[to] += 1
        await asyncio.sleep(0)
    return Preview(by_topic, scan.left, False)


async def source_of(queue: Queue, subscription: str) -> tuple[int, TopicMetadata]:
    """Return the number and the topic of a subscription to move from."""
    known = await queue.find_subscription(subscription)
    if known is None:
        raise NotFoundError(f"Subscription not found: {subscription}")
    topic = await queue.find_topic(known.topic) if not known.detached else None
    if topic is None:
        raise FailedPreconditionError(f"Subscription is detached: {subscription}")
    if known.options.ordering:
        raise FailedPreconditionError(
            f"Messages cannot be moved from a subscription with message ordering: {subscription}. "
            "Move from another subscription of its topic"
        )
    return known.number, topic
