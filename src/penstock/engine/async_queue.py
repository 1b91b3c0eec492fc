"""AsyncMessageQueue: the broker for the doors. Awaitable, in one event loop, many callers to a commit.

The rule kept here: commands run in the loop, one after the other, and are applied at once; what they decided is
committed by a writer thread, and a caller gets its answer when that commit is done. As commits keep the order
of decisions, whatever an answer rests on is durable before the answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.broker.consuming import Delivery, Peeked, Renewed, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.log import Need
from penstock.broker.model import SECOND, Draft, Message, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Appended, Once
from penstock.engine import commands as steps
from penstock.engine.catalogue import Catalogue
from penstock.engine.clock import sleep_until
from penstock.engine.decisions import Decisions
from penstock.engine.engine import log
from penstock.engine.queues import provide_queue, remove_queue
from penstock.engine.standing import Standing, standing
from penstock.engine.statistics import BrokerStatistics
from penstock.engine.tally import statistics
from penstock.engine.views import SubscriptionMetadata
from penstock.engine.wakeups import WaitingRoom
from penstock.errors import FailedPreconditionError, PenstockError, UnavailableError
from penstock.journal.port import Journal

T = TypeVar("T")

MAINTAIN_EVERY = 16  # commits under load between two slices of the journal's upkeep
IDLE_SECONDS = 1.0  # how often the writer looks after the journal when nothing else is to do


class AsyncMessageQueue(Catalogue, Decisions):
    def __init__(self, journal: Journal, **parts: Any) -> None:
        """Recovers at once; `start` it inside the loop that will use it."""
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()  # by rising number
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake_writer = threading.Event()
        self._stopping = False
        self._writer = threading.Thread(target=self._write, name="penstock-writer", daemon=True)
        super().__init__(journal, **parts)
        self._room = WaitingRoom(self.clock)
        self.watch(self._room)

    async def start(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Belong to the running loop. Called again, it moves a queue whose loop was closed to a new one."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and not self._loop.is_closed():
            if loop is not self._loop:
                raise FailedPreconditionError("The message queue belongs to another event loop, which is still open")
            return
        self._loop = loop
        self._waiters.clear()
        self.failed: asyncio.Future[PenstockError] = loop.create_future()
        self._keeper = loop.create_task(self._keep_house())
        if self._journal.durable and not self._writer.is_alive():
            self._writer.start()

    async def close(self) -> None:
        """Commit what is pending, end with a snapshot, release the journal."""
        if self._closed:
            return
        self.begin()  # never started, it closes the same way
        self._keeper.cancel()
        self._room.close()
        await self._flush_quietly()
        self._stopping = True
        self._wake_writer.set()
        if self._writer.is_alive():
            await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._close_journal)

    async def _flush_quietly(self) -> None:
        try:
            await self._committed(self._submit())
        except PenstockError as error:
            log.error("The last commit failed: %s", error)

    # ------------------------------------------------------------------ commits

    def _committed(self, number: int) -> asyncio.Future[None]:
        """A future that is done when a decision is durable."""
        assert self._loop is not None, "the queue was not started"
        future: asyncio.Future[None] = self._loop.create_future()
        if not self._journal.durable:
            self._pipeline.flush()
        if self._pipeline.durable >= number:
            future.set_result(None)
        else:
            self._waiters.append((number, future))
            self._wake_writer.set()
        return future

    def _write(self) -> None:
        """The writer thread: commit what is there; when nothing is, and now and then, look after the journal."""
        busy, commits = True, 0
        while not self._stopping:
            self._wake_writer.wait(0 if busy else IDLE_SECONDS)
            if self._wake_writer.is_set():
                self._wake_writer.clear()
                self._pipeline.flush()
                self._call_loop(self._after_commit)
                commits += 1
                if self._wake_writer.is_set() and commits % MAINTAIN_EVERY:
                    continue
            busy = self._pipeline.maintain()
            if self._pipeline.stalled is not None:
                self._call_loop(self._after_commit)

    def _call_loop(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None, "the writer starts after the loop is known"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def _after_commit(self) -> None:
        durable, waiters = self._pipeline.durable, self._waiters
        while waiters and waiters[0][0] <= durable:
            future = waiters.popleft()[1]
            if not future.done():
                future.set_result(None)
        if self._pipeline.stalled is not None:
            self._after_refusal(self._pipeline.stalled)

    def _after_refusal(self, error: PenstockError) -> None:
        """Everything decided since the last commit is void; who waits for it is told."""
        waiters, self._waiters = self._waiters, deque()
        for _, future in waiters:
            if not future.done():
                future.set_exception(error)
        if not self._pipeline.failed:
            self._go_back()
        elif not self.failed.done():
            self.failed.set_result(error)

    def _start_over(self, void: PenstockError) -> None:
        super()._start_over(void)
        self._room.wake_everybody()  # what was leased to somebody may be free again

    def _check(self) -> None:
        # Going back is left to the news of the refusal. Here, in the middle of somebody's turn, it would let the
        # decisions of that turn be lost before anybody waits for them.
        if self._pipeline.stalled is not None and not self._closed:
            raise self._pipeline.stalled
        super()._check()

    # ------------------------------------------------------------------ how a call runs

    async def _run(self, command: Callable[[], T]) -> T:
        self._check()
        try:
            result = command()
            number = self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise
        await self._committed(number)
        return result

    async def _drive(self, walk: steps.Steps[T]) -> T:
        """Run steps, reading what they ask for; the answer waits for all they decided."""
        result = await self._walk(walk)
        await self._committed(self._submit())
        return result

    async def _walk(self, walk: steps.Steps[T]) -> T:
        """Run steps; in one go, where nothing has to be read."""
        self._check()
        broker, answer = self._broker, None
        try:
            while True:
                try:
                    question = walk.send(answer)
                except Exception as error:
                    self._guard.judge(error)
                    raise
                answer = await self._read(question)
                self._check()
                if self._broker is not broker:  # the steps would go on deciding on a state that is void
                    raise self._void
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def load(self, need: Need) -> None:
        """Bring into memory what a decision needs; it is to be asked for again afterwards."""
        await self._read(need)
        self._check()

    async def _read(self, question: steps.Question) -> int | None:
        tail = self._tail(question.topic)
        if self._pipeline.holds(question.topic):  # only what is committed can be read
            await self._committed(self._submit())
        if not self._journal.durable:
            return self._answer(question, tail)
        if isinstance(question, steps.Find):
            return await asyncio.wrap_future(self._reads.run(self._journal.find, *question))
        self._load(question, await asyncio.wrap_future(self._reads.read(question)), tail)
        return None

    async def _keep_house(self) -> None:
        while True:
            await sleep_until(self.clock, self._now() + int(IDLE_SECONDS * SECOND))
            try:
                if self._pipeline.stalled is None and self._is_tick_due():
                    await self._drive(steps.housekeep(self._broker, self._now))
            except PenstockError as error:
                log.error("Housekeeping failed: %s", error)

    # ------------------------------------------------------------------ topics and subscriptions

    async def create_subscription_at(
        self, name: str, topic_name: str, offset: int, options: SubscriptionOptions | None = None
    ) -> SubscriptionMetadata:
        """A new subscription that sees what is kept from an offset on; never there without being at its place."""
        walk = steps.create_subscription_at(self._broker, self._now, name, topic_name, offset, options)
        return SubscriptionMetadata.of(await self._drive(walk))

    async def detach_subscription(self, name: str) -> None:
        await self._run(lambda: self._broker.detach_subscription(name))

    async def touch_subscription(self, name: str) -> None:
        await self._run(lambda: self._broker.touch_subscription(self._now(), name))

    def provide_queue(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions | None = None,
        topic_options: TopicOptions | None = None,
    ) -> None:
        """A topic and a subscription that reads it, made together where missing; durable before what comes next."""
        self._check()
        try:
            provide_queue(self._broker, self._now(), topic_name, name, options, topic_options)
            self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise

    async def remove_queue(self, topic_name: str, name: str) -> None:
        await self._run(lambda: remove_queue(self._broker, topic_name, name))

    async def commit(self) -> None:
        """Until all that was decided so far is durable."""
        self._check()
        await self.committed()

    # ------------------------------------------------------------------ messages

    async def publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, *, sizes: Sequence[int] | None = None
    ) -> Appended:
        """`sizes`: of drafts that the caller has checked itself, against limits no wider than the broker's."""
        appended = self.decide_publish(topic_name, drafts, once, sizes)
        await self.committed()
        return appended

    async def pull(
        self,
        name: str,
        max_messages: int,
        *,
        lease_seconds: float | None = None,
        max_bytes: int = 0,
        wait_seconds: float = 0,
        holder: str = "",
    ) -> list[Delivery]:
        """Lease up to `max_messages`; with nothing ready, wait up to `wait_seconds` for something.

        `holder`: who asks. While somebody has messages of an ordering key, nobody else gets more of that key.
        """
        until = self._now() + int(wait_seconds * SECOND)
        if self._pipeline.stalled is None and self._is_tick_due():  # whatever time has ended is not given out
            await self._walk(steps.housekeep(self._broker, self._now))
        while True:
            since = self.standing(name)
            deliveries: list[Delivery] = []
            walk = steps.pull(self._broker, self._now, name, max_messages, lease_seconds, max_bytes, holder, deliveries)
            try:
                await self._drive(walk)
            except asyncio.CancelledError:
                self.put_back(deliveries)  # the caller is gone, and nobody saw them
                raise
            self._pass_on(name)
            if deliveries or not await self._wait(name, until, since):
                return deliveries

    def _pass_on(self, name: str) -> None:
        subscription = self._broker.state.subscription_names.get(name)
        if subscription is not None:
            self._room.pass_on(subscription, self._now())

    async def _wait(self, name: str, until: int, since: Standing | None) -> bool:
        """Sleep until there may be something to pull; False when the time is over."""
        now = self._now()
        subscription = self._broker.state.subscription(name)
        if until <= now or subscription.detached or self._room.closed:
            return False
        if since is None or since == self.standing(name):
            await self._room.wait(subscription, now, until)
        return not self._room.closed

    def standing(self, name: str) -> Standing:
        """Taken before a pull that may find nothing, it tells the wait after it whether something came meanwhile."""
        return standing(self._broker.state, name)

    async def wait_for_messages(self, name: str, wait_seconds: float, since: Standing | None = None) -> bool:
        """For a streaming consumer: whether it is worth to pull again before the time is over."""
        return await self._wait(name, self._now() + int(wait_seconds * SECOND), since)

    async def ack(self, receipts: Sequence[str]) -> Settled:
        return await self._settle(self._broker.ack, receipts)

    async def nack(
        self, receipts: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False
    ) -> Settled:
        return await self._settle(lambda now, texts: self._broker.nack(now, texts, delay_seconds, unseen), receipts)

    async def extend(self, receipts: Sequence[str], seconds: float) -> Settled:
        return await self._settle(lambda now, texts: self._broker.extend(now, texts, seconds), receipts)

    async def _settle(self, command: Callable[[int, Sequence[str]], Settled], receipts: Sequence[str]) -> Settled:
        return await self._drive(steps.settle(command, self._now, receipts))

    async def renew(self, receipt: str, seconds: float, data: bytes | None = None) -> Renewed:
        """Exchange a receipt for a new one, with a new deadline and perhaps a new body."""
        return await self._drive(steps.renew(self._broker, self._now, receipt, seconds, data))

    async def peek(self, name: str, max_messages: int) -> Peeked:
        return await self._drive(steps.peek(self._broker, self._now, name, max_messages))

    async def purge(self, name: str) -> None:
        await self._run(lambda: self._broker.purge(self._now(), name))

    # ------------------------------------------------------------------ the log

    async def read(self, topic_name: str, first: int, until: int) -> list[Message]:
        """The messages of a topic with first <= offset < until that are still kept, straight from the journal."""
        self._check()
        topic = self._broker.state.topic(topic_name)
        first, until = max(first, topic.head), min(until, topic.tail)
        await self._committed(self._submit())
        if first >= until:
            return []
        assert self._loop is not None, "a caller runs in the loop"
        return await asyncio.wrap_future(self._reads.run(self._journal.read, topic.number, first, until))

    async def first_offset_at(self, topic_name: str, at: int) -> int:
        return await self._drive(steps.first_offset_at(self._broker.state.topic(topic_name), at))

    async def seek_to_offset(self, name: str, offset: int) -> None:
        await self._drive(steps.seek_to_offset(self._broker, self._now, name, offset))

    async def seek_to_time(self, name: str, at: int) -> None:
        await self._drive(steps.seek_to_time(self._broker, self._now, name, at))

    async def seek_to_snapshot(self, name: str, snapshot: str) -> None:
        await self._run(lambda: self._broker.seek_to_snapshot(self._now(), name, snapshot))

    async def create_snapshot(
        self, snapshot: str, subscription: str, labels: dict[str, str] | None = None
    ) -> SnapshotDump:
        return await self._drive(steps.create_snapshot(self._broker, self._now, snapshot, subscription, labels))

    async def change_snapshot(self, name: str, *, expires_at: int, labels: dict[str, str]) -> SnapshotDump:
        return await self._run(lambda: self._broker.change_snapshot(name, expires_at=expires_at, labels=labels))

    async def delete_snapshot(self, name: str) -> None:
        await self._run(lambda: self._broker.delete_snapshot(name))

    # ------------------------------------------------------------------ documents of the doors

    async def put_document(self, kind: str, name: str, body: bytes) -> None:
        await self._run(lambda: self._broker.put_document(kind, name, body))

    async def remove_document(self, kind: str, name: str) -> None:
        await self._run(lambda: self._broker.remove_document(kind, name))

    # ------------------------------------------------------------------ numbers

    def statistics(self) -> BrokerStatistics:
        if self._closed:
            raise UnavailableError("The message queue is closed")
        counted = statistics(self._broker, self._pipeline.meter, self._oldest, self._now())
        return counted._replace(internal_errors=self.internal_errors)
