"""SharedQueue: a MessageQueue that threads use, awaited from an event loop.

The rule kept here: the loop never waits for a disk. A queue in memory answers at once and is called directly; a
durable one is called in a thread, and publishes to one topic one after the other, so that they keep their order.
Whoever waits in the loop is called by what any thread decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.broker.broker import Broker
from penstock.broker.consuming import Delivery, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.limits import Limits
from penstock.broker.model import SECOND, Draft
from penstock.broker.publishing import Appended
from penstock.engine import commands as steps
from penstock.engine.bell import Bell
from penstock.engine.blocking_queue import MessageQueue
from penstock.engine.catalogue import Catalogue
from penstock.engine.clock import Clock, sleep_until
from penstock.engine.engine import log
from penstock.engine.standing import Standing, standing
from penstock.engine.views import SubscriptionMetadata, TopicMetadata
from penstock.errors import FailedPreconditionError, PenstockError

T = TypeVar("T")

THREADS = 8
TICK_SECONDS = 1.0
MOMENT = SECOND // 1000


class SharedQueue(Catalogue):
    """Close to AsyncMessageQueue in what it offers, and to MessageQueue in how it decides."""

    def __init__(self, queue: MessageQueue) -> None:
        self._queue = queue
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None
        self.calls = 0  # under way in threads
        self._turns: dict[str, asyncio.Lock] = {}  # topic -> whose turn it is to publish, while somebody does

    @property
    def clock(self) -> Clock:
        return self._queue.clock

    @property
    def limits(self) -> Limits:
        return self._queue.limits

    @property
    def _broker(self) -> Broker:
        return self._queue._broker  # asked for anew each time: after a refused commit it is another one

    def _now(self) -> int:
        return self._queue.clock.now()

    def begin(self) -> None:
        """Belong to the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise FailedPreconditionError("This belongs to another event loop, which is still open")
        self._loop = loop
        self._bell = Bell(loop, self.clock)
        self._queue.watch(self._bell)
        self._keeper = loop.create_task(self._keep_house())
        if self._queue.durable and self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-shared")

    async def close(self) -> None:
        """Let go of the queue, which stays open for the others."""
        if self._loop is not None:
            self._queue.unwatch(self._bell)
            self._bell.close()
            self._keeper.cancel()
        if self._threads is not None:
            await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, command: Callable[[], T]) -> T:
        if self._threads is None:
            return self._queue._run(command)
        self.calls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._queue._run, command)
        finally:
            self.calls -= 1

    async def _drive(self, make: Callable[[], steps.Steps[T]]) -> T:
        return await self._run(lambda: self._queue._finish(make()))

    async def _keep_house(self) -> None:
        while True:
            await sleep_until(self.clock, self.clock.now() + int(TICK_SECONDS * SECOND))
            try:
                await self._run(lambda: None)  # every command lets time act first
            except PenstockError as error:
                log.error("Housekeeping failed: %s", error)

    # ------------------------------------------------------------------ topics and subscriptions

    def topic(self, name: str) -> TopicMetadata:
        with self._queue._lock:
            return TopicMetadata.of(self._broker.state.topic(name))

    def subscription(self, name: str) -> SubscriptionMetadata:
        with self._queue._lock:
            self._queue._expire_unused(name)
            return SubscriptionMetadata.of(self._broker.state.subscription(name))

    def topic_exists(self, name: str) -> bool:
        return self._queue.topic_exists(name)

    def subscription_exists(self, name: str) -> bool:
        return self._queue.subscription_exists(name)

    def topics(self) -> list[TopicMetadata]:
        return self._queue.get_all_topics()

    def subscriptions(self, topic_name: str | None = None) -> list[SubscriptionMetadata]:
        with self._queue._lock:
            return [SubscriptionMetadata.of(each) for each in self._queue._living(topic_name)]

    # ------------------------------------------------------------------ messages

    async def publish(
        self, topic_name: str, drafts: Sequence[Draft], *, sizes: Sequence[int] | None = None
    ) -> Appended:
        if self._threads is None:
            return await self._append(topic_name, drafts, sizes)
        turn = self._turns.setdefault(topic_name, asyncio.Lock())
        try:
            async with turn:
                return await self._append(topic_name, drafts, sizes)
        finally:
            if not turn.locked():
                self._turns.pop(topic_name, None)

    async def _append(self, topic_name: str, drafts: Sequence[Draft], sizes: Sequence[int] | None) -> Appended:
        def command() -> Appended:
            self._queue._refuse_when_full()
            return self._broker.publish(self._now(), topic_name, drafts, None, sizes)

        return await self._run(command)

    async def pull(
        self, name: str, max_messages: int, *, lease_seconds: float | None = None, max_bytes: int = 0
    ) -> list[Delivery]:
        return await self._drive(
            lambda: steps.pull(self._broker, self._now, name, max_messages, lease_seconds, max_bytes)
        )

    def standing(self, name: str) -> Standing:
        with self._queue._lock:
            return standing(self._broker.state, name)

    async def wait_for_messages(self, name: str, wait_seconds: float, since: Standing | None = None) -> bool:
        """Whether it is worth to pull again before the time is over."""
        now = self._now()
        with self._queue._lock:  # whoever decides next has to call the one who begins to wait here
            subscription = self._broker.state.subscription(name)
            if self._queue.closed or subscription.detached:
                return False
            if since is not None and since != standing(self._broker.state, name):
                return True
            until = max(now + MOMENT, min(now + int(wait_seconds * SECOND), subscription.timers.next_due()))
            called = self._bell.listen(subscription.topic, subscription.number)
        await self._bell.wait(called, until)
        return not self._queue.closed

    async def ack(self, receipts: Sequence[str]) -> Settled:
        return await self._drive(lambda: steps.settle(self._broker.ack, self._now, receipts))

    async def nack(
        self, receipts: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False
    ) -> Settled:
        def command(now: int, texts: Sequence[str]) -> Settled:
            return self._broker.nack(now, texts, delay_seconds, unseen)

        return await self._drive(lambda: steps.settle(command, self._now, receipts))

    def decide_acks(self, receipts: Sequence[str], *, lapsed: bool = False) -> Settled:
        return self._decide(lambda now: self._broker.ack(now, receipts, lapsed))

    def decide_extend(self, receipts: Sequence[str], seconds: float, *, lapsed: bool = False) -> Settled:
        return self._decide(lambda now: self._broker.extend(now, receipts, seconds, lapsed))

    def _decide(self, command: Callable[[int], Settled]) -> Settled:
        """As AsyncMessageQueue does: decided at once, written with whatever is written next."""
        with self._queue._lock:
            self._queue._check()
            try:
                return command(self._now())
            except Exception as error:
                self._queue._guard.judge(error)
                raise
            finally:
                self._queue._submit()

    async def commit(self) -> None:
        """Until all that was decided so far is durable."""
        await self._run(lambda: None)

    # ------------------------------------------------------------------ the log

    async def seek_to_time(self, name: str, at: int) -> None:
        await self._drive(lambda: steps.seek_to_time(self._broker, self._now, name, at))

    async def seek_to_snapshot(self, name: str, snapshot: str) -> None:
        await self._run(lambda: self._broker.seek_to_snapshot(self._now(), name, snapshot))

    async def create_snapshot(
        self, snapshot: str, subscription: str, labels: dict[str, str] | None = None
    ) -> SnapshotDump:
        return await self._drive(lambda: steps.create_snapshot(self._broker, self._now, snapshot, subscription, labels))

    async def delete_snapshot(self, name: str) -> None:
        await self._run(lambda: self._broker.delete_snapshot(name))

    def snapshots(self) -> list[SnapshotDump]:
        with self._queue._lock:
            return list(self._broker.state.snapshots.values())
