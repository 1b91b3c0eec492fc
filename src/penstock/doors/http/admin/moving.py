"""Moving messages from a subscription to topics: one pass over what is unacked, safe to break off and to start again.

What is chosen is leased for as long as the process lives, published under a publish-once key made of the subscription's
identity and the message's offset, and acked when that is durable. After a crash the leases are gone and the keys are
not: the same move again publishes nothing twice. A block of keys is forgotten when all its messages are settled. What
is not chosen is never touched.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from penstock.broker.model import SECOND, Draft, Message
from penstock.broker.names import move_producer
from penstock.broker.retry import SOURCE_PUBLISH_TIME
from penstock.doors.http.admin.matching import Wanted, predicate_of
from penstock.engine.port import Appended, Delivery, Once, Queue, TopicMetadata
from penstock.errors import FailedPreconditionError, NotFoundError, PenstockError, UnavailableError, where

log = logging.getLogger("penstock.doors.http")

BATCH_MESSAGES = 250  # looked at in one step
BATCH_BYTES = 4 << 20  # and about so many bytes
BLOCK = 1000  # offsets that share the producer of their publish-once keys, which are forgotten together
GAP = 32  # offsets between two messages that are still read together
PREVIEW_SECONDS = 5.0
REASONS_MAX = 20  # told apart
REST = "other reasons"

RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"

NOT_CHOSEN = "not chosen"
NOT_A_DEAD_LETTER = "it does not say where it came from"
GONE = "there is no such message"
TAKEN = "a consumer has it, or it is settled"


class Sources(Protocol):
    """How a dead letter says where it came from."""

    def source_subscription(self, attributes: Mapping[str, str]) -> str | None: ...

    def without_source(self, attributes: Mapping[str, str]) -> dict[str, str]: ...


class Choice(NamedTuple):
    """Which messages, and where to."""

    to: str | None  # None: each dead letter to the topic it came from
    wanted: Wanted = Wanted()
    offsets: Sequence[int] = ()  # only these; empty: all
    most: int = 0  # 0: no limit
    rate: float = 0  # a second; 0: no limit


class Scan:
    """One pass over what is unacked in a subscription when it begins: which message goes where, and which stays.

    It ends at the tail it began with, so that a move to the topic it reads does not go on with its own messages.
    """

    def __init__(self, queue: Queue, subscription: str, topic: TopicMetadata, choice: Choice, sources: Sources) -> None:
        self._queue = queue
        self._subscription = subscription
        self._topic = topic
        self._choice = choice
        self._sources = sources
        self._chosen = predicate_of(choice.wanted)
        self._asked = sorted(set(choice.offsets))
        self.place = topic.head  # all before it is seen
        self._origins: dict[str, str | None] = {}  # source subscription -> its topic
        self.left: dict[str, int] = {}  # by reason

    async def next(self, most: int) -> list[tuple[Message, str]] | None:
        """The next messages to move, each with its topic; None at the end."""
        offsets = await self._offsets(most)
        if not offsets:
            return None
        found, self.place = await self._read(offsets)
        seen = bisect_left(offsets, self.place)
        if self._choice.offsets:
            self._asked = offsets[seen:] + self._asked
        if len(found) < seen:
            self.leave(GONE, seen - len(found))
        chosen = []
        for message in found:
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
        """The messages, and the offset up to which all is seen: what is too many bytes is left to the next step.

        What lies close together is read together.
        """
        found: list[Message] = []
        first, room = 0, BATCH_BYTES
        for place in range(1, len(offsets) + 1):
            if place < len(offsets) and offsets[place] - offsets[place - 1] <= GAP:
                continue
            wanted, last = set(offsets[first:place]), offsets[place - 1]
            read = await self._queue.read(self._topic.name, offsets[first], last + 1, room)
            found += [message for message in read if message.offset in wanted]
            room -= sum(message.size for message in read)
            last = read[-1].offset if read else last
            if room <= 0 or last < offsets[place - 1]:
                return found, last + 1
            first = place
        return found, offsets[-1] + 1

    async def leased(self, first: int, last: int) -> set[int]:
        """Those between two offsets that consumers have."""
        leases = await self._queue.leases(self._subscription, first, last - first + 1)
        return {each.offset for each in leases if each.offset <= last}

    def leave(self, reason: str, count: int = 1) -> None:
        reason = reason if reason in self.left or len(self.left) < REASONS_MAX else REST
        self.left[reason] = self.left.get(reason, 0) + count

    async def _origin(self, message: Message) -> tuple[str | None, str]:
        """The topic a dead letter came from, or why there is none."""
        topic = message.attributes.get("dead_letter_source_topic")
        if topic is None:
            source = self._sources.source_subscription(message.attributes)
            if source is None:
                return None, NOT_A_DEAD_LETTER
            if source not in self._origins:
                known = await self._queue.find_subscription(source)
                self._origins[source] = known.topic if known is not None else None
            topic = self._origins[source]
            if topic is None:
                return None, f"the subscription it came from is gone: {source}"
        if await self._queue.find_topic(topic) is None:
            return None, f"the topic it came from is gone: {topic}"
        return topic, ""


class Move:
    """A move and how far it is."""

    def __init__(self, number: int, queue: Queue, subscription: str, choice: Choice, sources: Sources) -> None:
        self.id = str(number)
        self.subscription = subscription
        self.topic: str | None = None  # where the subscription was made for the move
        self.choice = choice
        self.state = RUNNING
        self.reason = ""
        self.moved = self.total = 0
        self.started_at, self.ended_at = queue.clock.now(), 0
        self._queue = queue
        self._sources = sources
        self._scan: Scan | None = None
        self._stop = asyncio.Event()
        self._unsettled: set[int] = set()  # published, and not known to be acked
        self._blocks: set[tuple[str, int]] = set()  # of publish-once keys that topics remember, by topic
        self._task: asyncio.Task[None] | None = None
        self.on_end: Callable[[], Awaitable[None]] | None = None

    @property
    def left(self) -> Mapping[str, int]:
        """What stays, by reason; once it is over, also what it did not come to."""
        looked = self._scan.left if self._scan is not None else {}
        rest = self.total - self.moved - sum(looked.values()) - self.unknown
        full = 0 < self.choice.most <= self.moved
        if rest <= 0 or self.state == RUNNING or (self.state == DONE and not full):  # others settled the rest
            return looked
        reason = NOT_CHOSEN if self.state == DONE else f"{self.state} before it came to them"
        return {**looked, reason: looked.get(reason, 0) + rest}

    @property
    def unknown(self) -> int:
        return len(self._unsettled)

    async def begin(self) -> None:
        """Checks what can be checked, and goes on in the background."""
        number, topic = await source_of(self._queue, self.subscription)
        self._scan = Scan(self._queue, self.subscription, topic, self.choice, self._sources)
        self._producer = partial(move_producer, topic.identity, number)  # of a block
        backlog = await self._queue.backlog(self.subscription)
        self.total = len(set(self.choice.offsets)) or backlog.messages
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """After the step it is in."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            await self._all()
            self.state = STOPPED if self._stop.is_set() else DONE
            if self.unknown:
                self.reason = "start it again to settle what is unknown"
        except PenstockError as error:
            self.state, self.reason = FAILED, error.message
        except asyncio.CancelledError:
            self.state, self.reason = STOPPED, "the server stops"
        except Exception as error:  # noqa: BLE001 - a bug here must not go unseen
            self.state, self.reason = FAILED, "an internal error, which the log names"
            log.error("moving from %s failed: %s", self.subscription, where(error))
        finally:
            with suppress(PenstockError):
                if self.on_end is not None and self.state != STOPPED:
                    await self.on_end()
            self.ended_at = self._queue.clock.now()

    async def _all(self) -> None:
        assert self._scan is not None
        rate, most = self.choice.rate, self.choice.most
        began, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        at_once = max(1, min(BATCH_MESSAGES, int(rate / 4))) if rate else BATCH_MESSAGES
        while not self._stop.is_set() and (not most or self.moved < most):
            chosen = await self._scan.next(min(at_once, most - self.moved) if most else at_once)
            if chosen is None:
                break
            await self._step(chosen)
            if rate:
                pause = began + self.moved / rate - loop.time()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), max(0.0, pause))
        await self._forget(self._blocks)

    async def _step(self, chosen: Sequence[tuple[Message, str]]) -> None:
        """Lease, publish, ack; each when the one before is durable."""
        assert self._scan is not None
        topics = {message.offset: topic for message, topic in chosen}
        leased = await self._queue.lease_at(self.subscription, list(topics), holder=f"move {self.id}") if topics else []
        if len(leased) < len(topics):
            self._scan.leave(TAKEN, len(topics) - len(leased))
        kept = {each.message.offset: each for each in leased}  # to be given back
        try:
            published = await self._publish_all(leased, topics)
            stale = set((await self._queue.ack([each.receipt for each in published])).stale) if published else set()
            done = [each for each in published if each.receipt not in stale]
            for delivery in done:
                del kept[delivery.message.offset]
            self._unsettled -= {each.message.offset for each in done}
            self.moved += len(done)
        finally:
            self._queue.put_back(list(kept.values()))
        await self._forget([each for each in self._blocks if (each[1] + 1) * BLOCK <= self._scan.place])

    async def _publish_all(self, leased: Sequence[Delivery], topics: Mapping[int, str]) -> list[Delivery]:
        """Those that are published; the others are refused, or nobody knows and the move ends."""
        assert self._scan is not None
        self._unsettled |= {each.message.offset for each in leased}
        decided = [self._publish(each, topics[each.message.offset]) for each in leased]
        published, lost = [], None
        for delivery, answer in zip(leased, await asyncio.gather(*decided, return_exceptions=True), strict=True):
            offset = delivery.message.offset
            if not isinstance(answer, BaseException):
                self._blocks.add((topics[offset], offset // BLOCK))
                published.append(delivery)
            elif isinstance(answer, PenstockError) and not isinstance(answer, UnavailableError):
                self._scan.leave(answer.message)
                self._unsettled.discard(offset)
            else:
                lost = answer
        if lost is not None and not published:
            raise lost
        return published

    def _publish(self, delivery: Delivery, topic: str) -> asyncio.Future[Appended]:
        message, now = delivery.message, self._queue.clock_of(self.subscription).now()
        attributes = message.attributes
        if self.choice.to is None:  # back where it came from, as it was
            attributes = self._sources.without_source(attributes)
            attributes = {name: each for name, each in attributes.items() if not name.startswith(_OWN_PREFIX)}
        delay = max(0, message.visible_at - now) / SECOND if message.visible_at else 0
        life = max(1, message.expires_at - now) / SECOND if message.expires_at else 0
        draft = Draft(message.data, attributes, message.ordering_key, delay, life)
        once = Once(self._producer(message.offset // BLOCK), 0, message.offset)
        return self._queue.publish(topic, [draft], once)

    async def _forget(self, blocks: Iterable[tuple[str, int]]) -> None:
        """What is settled is not published again, so its key need not be remembered.

        In the same block may be others, published by a move that was broken off: their keys still count.
        """
        for topic, block in list(blocks):
            with suppress(NotFoundError):
                known = await self._queue.sequences(topic, self._producer(block))
                unacked = await self._queue.unacked(self.subscription, block * BLOCK, BLOCK)
                if not set(known).intersection(unacked):
                    await self._queue.forget_producer(topic, self._producer(block))
            self._blocks.discard((topic, block))


_OWN_PREFIX = SOURCE_PUBLISH_TIME.removesuffix("publish_time_ns")


class Preview(NamedTuple):
    """What a move would do."""

    by_topic: Mapping[str, int]
    left: Mapping[str, int]
    complete: bool  # all of it was looked at


async def preview(queue: Queue, subscription: str, choice: Choice, sources: Sources) -> Preview:
    """Looks and touches nothing, for PREVIEW_SECONDS at most."""
    _, topic = await source_of(queue, subscription)
    scan, by_topic = Scan(queue, subscription, topic, choice, sources), Counter[str]()
    unacked = queue.is_unacked  # chosen by their offsets they may be settled
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
    """The number of a subscription to move from, and its topic."""
    known = await queue.find_subscription(subscription)
    if known is None:
        raise NotFoundError(f"Subscription not found: {subscription}")
    topic = await queue.find_topic(known.topic) if not known.detached else None
    if topic is None:
        raise FailedPreconditionError(f"Subscription is detached: {subscription}")
    if known.options.ordering:
        raise FailedPreconditionError(
            f"Messages cannot be chosen where they are delivered in order: {subscription}; "
            "another subscription of its topic can be moved from"
        )
    return known.number, topic
