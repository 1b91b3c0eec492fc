"""One move: messages of a subscription go to topics, in one pass over its unacked messages. It can be repeated safely.

Chosen messages are leased until the process ends, published under a publish-once key made of the identity of the topic,
the subscription and the offset, and acked when the publish is durable. A crash ends the leases but not the keys, so
that the same move publishes no message twice. The keys of a block are forgotten when all its messages are settled.
Messages that are not chosen are never touched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from penstock.broker.model import SECOND, Draft, Message
from penstock.broker.names import move_producer
from penstock.broker.retry import SOURCE_PUBLISH_TIME
from penstock.engine.port import Appended, Delivery, Once, Queue
from penstock.errors import NotFoundError, PenstockError, UnavailableError, where
from penstock.services.moves.scan import BATCH_MESSAGES, NOT_CHOSEN, TAKEN, Choice, Scan, Sources, source_of

log = logging.getLogger("penstock.services.moves")

BLOCK = 1000  # offsets that share the producer of their publish-once keys, which are forgotten together
RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"

_OWN_PREFIX = SOURCE_PUBLISH_TIME.removesuffix("publish_time_ns")


class Move:
    def __init__(self, number: int, queue: Queue, subscription: str, choice: Choice, sources: Sources) -> None:
        self.id = str(number)
        self.subscription = subscription
        self.topic: str | None = None  # set if the subscription was created for the move
        self.choice = choice
        self.state = RUNNING
        self.reason = ""
        self.moved = self.total = 0
        self.started_at, self.ended_at = queue.clock.now(), 0
        self._queue = queue
        self._sources = sources
        self._scan: Scan | None = None
        self._stop = asyncio.Event()
        self._unsettled: set[int] = set()  # offsets that were published, as far as known, but not acked
        self._blocks: set[tuple[str, int]] = set()  # topic and number of each block of publish-once keys
        self._task: asyncio.Task[None] | None = None
        self.on_end: Callable[[], Awaitable[None]] | None = None

    @property
    def left(self) -> Mapping[str, int]:
        """The number of messages that were not moved, by reason. After the end it includes messages not looked at."""
        looked = self._scan.left if self._scan is not None else {}
        rest = self.total - self.moved - sum(looked.values()) - self.unknown
        full = 0 < self.choice.most <= self.moved
        if rest <= 0 or self.state == RUNNING or (self.state == DONE and not full):  # others settled the rest
            return looked
        reason = NOT_CHOSEN if self.state == DONE else f"not reached: the move {self.state}"
        return {**looked, reason: looked.get(reason, 0) + rest}

    @property
    def unknown(self) -> int:
        return len(self._unsettled)

    async def begin(self) -> None:
        """Check the move and run it in the background."""
        number, topic = await source_of(self._queue, self.subscription)
        self._scan = Scan(self._queue, self.subscription, topic, self.choice, self._sources)
        self._producer = partial(move_producer, topic.identity, number)  # of a block
        backlog = await self._queue.backlog(self.subscription)
        self.total = len(set(self.choice.offsets)) or backlog.messages
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop after the current step."""
        self._stop.set()
        await self.wait()

    async def wait(self) -> None:
        """Wait until the move is over, however it ends. A caller that is cancelled does not stop the move."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await self.wait()

    async def _run(self) -> None:
        try:
            await self._move_all()
            self.state = STOPPED if self._stop.is_set() else DONE
            if self.unknown:
                self.reason = "start the move again to settle the unknown messages"
        except PenstockError as error:
            self.state, self.reason = FAILED, error.message
        except asyncio.CancelledError:
            self.state, self.reason = STOPPED, "the server stopped"
        except Exception as error:  # noqa: BLE001 - a bug here must not go unseen
            self.state, self.reason = FAILED, "an internal error; the log has details"
            log.error("moving from %s failed: %s", self.subscription, where(error))
        finally:
            with suppress(PenstockError):
                if self.on_end is not None and self.state != STOPPED:
                    await self.on_end()
            self.ended_at = self._queue.clock.now()

    async def _move_all(self) -> None:
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
        """Lease, publish and ack messages. Each step begins when the one before is durable."""
        assert self._scan is not None
        topics = {message.offset: topic for message, topic in chosen}
        leased = await self._queue.lease_at(self.subscription, list(topics), holder=f"move {self.id}") if topics else []
        if len(leased) < len(topics):
            self._scan.leave(TAKEN, len(topics) - len(leased))
        kept = {delivery.message.offset: delivery for delivery in leased}  # messages to put back
        try:
            published = await self._publish_all(leased, topics)
            stale = (
                set((await self._queue.ack([delivery.receipt for delivery in published])).stale) if published else set()
            )
            done = [delivery for delivery in published if delivery.receipt not in stale]
            for delivery in done:
                del kept[delivery.message.offset]
            self._unsettled -= {delivery.message.offset for delivery in done}
            self.moved += len(done)
        finally:
            self._queue.put_back(list(kept.values()))
        await self._forget([block for block in self._blocks if (block[1] + 1) * BLOCK <= self._scan.place])

    async def _publish_all(self, leased: Sequence[Delivery], topics: Mapping[int, str]) -> list[Delivery]:
        """Return the deliveries that were published. Others were refused, or are unknown and stop the move."""
        assert self._scan is not None
        self._unsettled |= {delivery.message.offset for delivery in leased}
        decided = [self._publish(delivery, topics[delivery.message.offset]) for delivery in leased]
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
        if self.choice.to is None or self.choice.restored:
            attributes = self._sources.without_source(attributes)
            attributes = {name: value for name, value in attributes.items() if not name.startswith(_OWN_PREFIX)}
        delay = max(0, message.visible_at - now) / SECOND if message.visible_at else 0
        life = max(1, message.expires_at - now) / SECOND if message.expires_at else 0
        draft = Draft(message.data, attributes, message.ordering_key, delay, life)
        once = Once(self._producer(message.offset // BLOCK), 0, message.offset)
        return self._queue.publish(topic, [draft], once)

    async def _forget(self, blocks: Iterable[tuple[str, int]]) -> None:
        """Forget the publish-once keys of blocks whose messages are all settled.

        Keys of unacked messages that an interrupted move published are kept.
        """
        for topic, block in list(blocks):
            with suppress(NotFoundError):
                published = await self._queue.sequences(topic, self._producer(block), 0)
                unacked = await self._queue.unacked(self.subscription, block * BLOCK, BLOCK)
                if not set(published).intersection(unacked):
                    await self._queue.forget_producer(topic, self._producer(block))
            self._blocks.discard((topic, block))
