"""AsyncMessageQueue: the engine for one event loop. Awaitable, many callers to a commit.

Commands run in the loop and are applied at once; what they decided is committed by a writer thread, and a caller gets
its answer when that commit is done. As commits keep the order of decisions, whatever an answer rests on is durable
before the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from penstock.broker.broker import Broker
from penstock.broker.consuming import Delivery, Peeked, Pulled, Renewed, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.facts import Fact
from penstock.broker.log import Need
from penstock.broker.model import SECOND, Draft, Message, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Appended, Once
from penstock.engine import commands
from penstock.engine.clock import sleep_until
from penstock.engine.engine import Engine, Listener, in_loop, log
from penstock.engine.lookups import Lookups
from penstock.engine.views import SubscriptionMetadata, TopicMetadata
from penstock.engine.wakeups import Revision, Wakeups, revision
from penstock.engine.writer import IDLE_SECONDS, Writer
from penstock.errors import FailedPreconditionError, PenstockError
from penstock.journal.port import Journal

T = TypeVar("T")


class AsyncMessageQueue(Lookups):
    _wakeups: Wakeups

    def __init__(self, journal: Journal | Engine, **parts: Any) -> None:
        """Over a journal, with an engine of its own, recovered here; or over the engine of a queue that stays open.

        `start` it inside the loop that will use it.
        """
        super().__init__(journal if isinstance(journal, Engine) else Engine(journal, **parts))
        self._owns_engine = not isinstance(journal, Engine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer = Writer(self.engine)
        self._closed = False
        if self._owns_engine:
            self.engine.recover()
            # Going back is left to the news of the refusal. In the middle of a turn it would let the decisions of that
            # turn be lost before anybody waits for them.
            self.engine.when_stalled = self._refuse_while_stalled
            self.engine.find_room = lambda: not self.engine.journal.full  # the writer looks for it

    async def start(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Belong to the running loop. Called again, it moves a queue whose loop was closed to a new one."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and not self._loop.is_closed():
            if loop is not self._loop:
                raise FailedPreconditionError("The message queue belongs to another event loop, which is still open")
            return
        if self._loop is not None:
            self._wakeups.close()  # the waiters went with their loop
        self._loop = loop
        self._writer.begin()
        self._wakeups = Wakeups(self.engine)
        self._keeper = loop.create_task(self._keep_house())

    async def close(self) -> None:
        """Commit what is pending; an engine of its own ends with a snapshot and releases the journal."""
        if self._closed:
            return
        self.begin()  # never started, it closes the same way
        self._keeper.cancel()
        self._wakeups.stop()
        self._wakeups.close()
        try:
            if not self.engine.closed:
                await self.committed()
        except PenstockError as error:
            log.error("The last commit failed: %s", error)
        await self._writer.stop()
        self._closed = True
        if self._owns_engine:
            await asyncio.to_thread(self.engine.close)

    def stop_waiting(self) -> None:
        """Whoever waits for messages gets what there is, from now on."""
        self._wakeups.stop()

    @property
    def closed(self) -> bool:
        return self._closed or self.engine.closed

    @property
    def failed(self) -> asyncio.Future[PenstockError]:
        """Done when the journal has failed for good."""
        return self._writer.failed

    def committed(self) -> asyncio.Future[None]:
        """Done when all that was decided so far is durable, or failed if it never will be."""
        return self._writer.committed(self.engine.submit())

    def _refuse_while_stalled(self) -> None:
        stalled = self.engine.commits.stalled
        if stalled is not None:
            raise stalled

    def on(self, kinds: Iterable[type[Fact]], listener: Listener) -> Listener:
        """Call a listener in the loop with every fact of these kinds; give the answer to `off` to end it."""
        return self.engine.on(kinds, in_loop(listener))

    def on_reset(self, listener: Callable[[], None]) -> Listener:
        """Call a listener in the loop when the broker went back to its last commit, or was closed."""
        return self.engine.on_reset(in_loop(listener))

    def off(self, listener: Listener) -> None:
        self.engine.off(listener)

    # ------------------------------------------------------------------ how a call runs

    async def _run(self, command: Callable[[Broker, int], T]) -> T:
        result, number = self.engine.decide(command)
        await self._writer.committed(number)
        return result

    async def _drive(self, steps: commands.Steps[T]) -> T:
        """Run steps, reading what they ask for; the answer waits for all they decided."""
        result, number = await self._walk(steps)
        await self._writer.committed(number)
        return result

    async def _walk(self, steps: commands.Steps[T]) -> tuple[T, int]:
        """Run steps, in one go where nothing has to be read; the result, and the number to wait for."""
        broker, answer = self.engine.broker, None
        while True:
            question, result, number = self.engine.step(steps, answer, broker)
            if question is None:
                return cast(T, result), number
            answer = await self._read(question)

    async def load(self, need: Need) -> None:
        """Bring into memory what a decision needs; it is to be asked for again afterwards."""
        await self._read(need)
        self.engine.check()

    async def _read(self, question: commands.Question) -> int | None:
        engine = self.engine
        tail = engine.tail(question.topic)
        if engine.commits.holds(question.topic):  # only what is committed can be read
            await self.committed()
        if not engine.journal.durable:
            return engine.read(question, tail)
        if isinstance(question, commands.Find):
            return await asyncio.wrap_future(engine.reads.run(engine.journal.find, *question))
        engine.load(question, await asyncio.wrap_future(engine.reads.read(question)), tail)
        return None

    async def _keep_house(self) -> None:
        engine = self.engine
        while True:
            await sleep_until(engine.clock, engine.now() + int(IDLE_SECONDS * SECOND))
            try:
                if engine.is_tick_due():
                    await self._drive(commands.housekeep(engine.broker, engine.now))
            except PenstockError as error:
                log.error("Housekeeping failed: %s", error)

    # ------------------------------------------------------------------ topics and subscriptions

    async def create_topic(self, name: str, options: TopicOptions | None = None) -> TopicMetadata:
        return TopicMetadata.of(await self._run(lambda broker, now: broker.create_topic(now, name, options)))

    async def change_topic(self, name: str, options: TopicOptions) -> TopicMetadata:
        return TopicMetadata.of(await self._run(lambda broker, _: broker.change_topic(name, options)))

    async def delete_topic(self, name: str) -> None:
        await self._run(lambda broker, _: broker.delete_topic(name))

    async def create_subscription(
        self, name: str, topic_name: str, options: SubscriptionOptions | None = None
    ) -> SubscriptionMetadata:
        return SubscriptionMetadata.of(
            await self._run(lambda broker, now: broker.create_subscription(now, name, topic_name, options))
        )

    async def create_subscription_at(
        self, name: str, topic_name: str, offset: int, options: SubscriptionOptions | None = None
    ) -> SubscriptionMetadata:
        """A new subscription that sees what is kept from an offset on; never there without being at its place."""
        engine = self.engine
        steps = commands.create_subscription_at(engine.broker, engine.now, name, topic_name, offset, options)
        return SubscriptionMetadata.of(await self._drive(steps))

    async def change_subscription(self, name: str, options: SubscriptionOptions) -> SubscriptionMetadata:
        return SubscriptionMetadata.of(await self._run(lambda broker, _: broker.change_subscription(name, options)))

    async def delete_subscription(self, name: str) -> None:
        await self._run(lambda broker, _: broker.delete_subscription(name))

    async def detach_subscription(self, name: str) -> None:
        await self._run(lambda broker, _: broker.detach_subscription(name))

    async def touch_subscription(self, name: str) -> None:
        await self._run(lambda broker, now: broker.touch_subscription(now, name))

    def provide_queue(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions | None = None,
        topic_options: TopicOptions | None = None,
    ) -> None:
        """A topic and a subscription that reads it, made together where missing; durable before what comes next."""
        self.engine.decide(
            lambda broker, now: commands.provide_queue(broker, now, topic_name, name, options, topic_options)
        )

    async def remove_queue(self, topic_name: str, name: str) -> None:
        await self._run(lambda broker, _: commands.remove_queue(broker, topic_name, name))

    # ------------------------------------------------------------------ messages

    async def publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, *, sizes: Sequence[int] | None = None
    ) -> Appended:
        """`sizes`: of drafts that the caller has checked itself, against limits no wider than the broker's."""
        appended, number = self.engine.publish(topic_name, drafts, once, sizes)
        await self._writer.committed(number)
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

        `holder`: who asks. While one has messages of an ordering key, nobody else gets more of that key.
        """
        engine = self.engine
        until = engine.now() + int(wait_seconds * SECOND)
        if engine.is_tick_due():  # whatever time has ended is not given out
            await self._walk(commands.housekeep(engine.broker, engine.now))
        while True:
            since = self.revision(name)
            deliveries: list[Delivery] = []
            steps = commands.pull(
                engine.broker, engine.now, name, max_messages, lease_seconds, max_bytes, holder, deliveries
            )
            try:
                await self._drive(steps)
            except asyncio.CancelledError:
                self.put_back(deliveries)  # the caller is gone, and nobody saw them
                raise
            self._pass_on(name)
            if deliveries or not await self._wakeups.wait(name, until, since):
                return deliveries

    def _pass_on(self, name: str) -> None:
        subscription = self.engine.broker.state.subscription_names.get(name)
        if subscription is not None:
            self._wakeups.pass_on(subscription)

    def revision(self, name: str) -> Revision:
        """Taken before a pull that may find nothing, it tells the wait after it whether something came meanwhile."""
        with self.engine.lock:
            return revision(self.engine.broker.state, name)

    async def wait_for_messages(self, name: str, wait_seconds: float, since: Revision | None = None) -> bool:
        """For a streaming consumer: whether it is worth to pull again before the time is over."""
        return await self._wakeups.wait(name, self.engine.now() + int(wait_seconds * SECOND), since)

    async def ack(self, receipts: Sequence[str]) -> Settled:
        return await self._settle(lambda broker: broker.ack, receipts)

    async def nack(
        self, receipts: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False
    ) -> Settled:
        return await self._settle(
            lambda broker: lambda now, texts: broker.nack(now, texts, delay_seconds, unseen), receipts
        )

    async def extend(self, receipts: Sequence[str], seconds: float) -> Settled:
        return await self._settle(lambda broker: lambda now, texts: broker.extend(now, texts, seconds), receipts)

    async def _settle(
        self, command: Callable[[Broker], Callable[[int, Sequence[str]], Settled]], receipts: Sequence[str]
    ) -> Settled:
        return await self._drive(commands.settle(command(self.engine.broker), self.engine.now, receipts))

    async def renew(self, receipt: str, seconds: float, data: bytes | None = None) -> Renewed:
        """Exchange a receipt for a new one, with a new deadline and perhaps a new body."""
        return await self._drive(commands.renew(self.engine.broker, self.engine.now, receipt, seconds, data))

    async def peek(self, name: str, max_messages: int) -> Peeked:
        return await self._drive(commands.peek(self.engine.broker, self.engine.now, name, max_messages))

    async def purge(self, name: str) -> None:
        await self._run(lambda broker, now: broker.purge(now, name))

    # Decided at once, durable later: who owes an answer waits for `committed` first. One future serves for all that was
    # decided before it, so callers with many small requests share it.

    def decide_publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, sizes: Sequence[int] | None = None
    ) -> Appended:
        """`sizes`: of drafts that the caller has checked itself, against limits no wider than the broker's."""
        return self.engine.publish(topic_name, drafts, once, sizes)[0]

    def decide_pull(
        self, name: str, max_messages: int, *, lease_seconds: float | None, max_bytes: int, holder: str = ""
    ) -> Pulled:
        """One look at what is in memory; if the answer says what else it needs, `load` that and ask again."""
        pulled, _ = self.engine.decide(
            lambda broker, now: broker.pull(
                now, name, max_messages, lease_seconds=lease_seconds, max_bytes=max_bytes, holder=holder
            )
        )
        self._pass_on(name)
        return pulled

    def decide_acks(self, receipts: Sequence[str], *, lapsed: bool = False) -> Settled:
        """Ack what was delivered; `lapsed`: also leases that ended after the ack was given, if nobody noticed yet."""
        return self.engine.decide(lambda broker, now: broker.ack(now, receipts, lapsed))[0]

    def decide_extend(self, receipts: Sequence[str], seconds: float, *, lapsed: bool = False) -> Settled:
        """Extend leases; `lapsed`: also those that ended while their holder was at work, if nobody noticed yet."""
        return self.engine.decide(lambda broker, now: broker.extend(now, receipts, seconds, lapsed))[0]

    def decide_ack(self, subscription: int, places: Sequence[tuple[int, ...]]) -> int:
        """Ack deliveries of a subscription by offset and stamp; how many of them were still good."""
        return self.engine.decide(lambda broker, now: broker.ack_delivered(now, subscription, places))[0]

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return what was pulled for one who never got it: the attempt does not count."""
        if deliveries and not self.closed and self.engine.commits.stalled is None:
            receipts = [delivery.receipt for delivery in deliveries]
            self.engine.decide(lambda broker, now: broker.nack(now, receipts, unseen=True))

    async def commit(self) -> None:
        """Until all that was decided so far is durable."""
        self.engine.check()
        await self.committed()

    # ------------------------------------------------------------------ the log

    async def read(self, topic_name: str, first: int, until: int) -> list[Message]:
        """The messages of a topic with first <= offset < until that are still kept, straight from the journal."""
        engine = self.engine
        engine.check()
        topic = engine.broker.state.topic(topic_name)
        first, until = max(first, topic.head), min(until, topic.tail)
        await self.committed()
        if first >= until:
            return []
        return await asyncio.wrap_future(engine.reads.run(engine.journal.read, topic.number, first, until))

    async def first_offset_at(self, topic_name: str, at: int) -> int:
        return await self._drive(commands.first_offset_at(self.engine.broker.state.topic(topic_name), at))

    async def seek_to_offset(self, name: str, offset: int) -> None:
        await self._drive(commands.seek_to_offset(self.engine.broker, self.engine.now, name, offset))

    async def seek_to_time(self, name: str, at: int) -> None:
        await self._drive(commands.seek_to_time(self.engine.broker, self.engine.now, name, at))

    async def seek_to_snapshot(self, name: str, snapshot: str) -> None:
        await self._run(lambda broker, now: broker.seek_to_snapshot(now, name, snapshot))

    async def create_snapshot(
        self, snapshot: str, subscription: str, labels: dict[str, str] | None = None
    ) -> SnapshotDump:
        engine = self.engine
        return await self._drive(commands.create_snapshot(engine.broker, engine.now, snapshot, subscription, labels))

    async def change_snapshot(self, name: str, *, expires_at: int, labels: dict[str, str]) -> SnapshotDump:
        return await self._run(lambda broker, _: broker.change_snapshot(name, expires_at=expires_at, labels=labels))

    async def delete_snapshot(self, name: str) -> None:
        await self._run(lambda broker, _: broker.delete_snapshot(name))

    # ------------------------------------------------------------------ documents of the doors, and numbers

    async def put_document(self, kind: str, name: str, body: bytes) -> None:
        await self._run(lambda broker, _: broker.put_document(kind, name, body))

    async def remove_document(self, kind: str, name: str) -> None:
        await self._run(lambda broker, _: broker.remove_document(kind, name))
