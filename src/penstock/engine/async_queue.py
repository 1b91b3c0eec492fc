"""AsyncMessageQueue: the awaitable queue, and the port of the doors. Many callers share a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.facts import Fact
from penstock.broker.limits import Limits
from penstock.broker.model import SECOND, Draft, Message, SubscriptionOptions
from penstock.broker.names import parse_receipt
from penstock.engine import commands, lookups
from penstock.engine.backups import Backups
from penstock.engine.clock import Clock
from penstock.engine.connections import Connections
from penstock.engine.engine import Engine, in_loop
from penstock.engine.lease_origins import LeaseOrigin
from penstock.engine.loop import EngineLoop
from penstock.engine.port import (
    Appended,
    Delivery,
    Leased,
    Listener,
    Once,
    Renewed,
    Settled,
)
from penstock.engine.statistics import DoorTraffic
from penstock.engine.verbs import command, decision, lookup, timed_decision
from penstock.engine.wakeups import Revision, revision
from penstock.errors import PenstockError, UnavailableError
from penstock.journal.port import Journal


class AsyncMessageQueue:
    def __init__(self, journal: Journal | Engine, **parts: Any) -> None:
        """Open a queue over a journal, with an engine of its own, or over the engine of a queue that stays open.

        Call `start` inside the event loop that will use the queue.
        """
        self.engine = journal if isinstance(journal, Engine) else Engine(journal, **parts)
        self.loop = EngineLoop(self.engine)
        self.connections = Connections()
        self.backup = Backups(self.engine.journal).run
        self._owns_engine = not isinstance(journal, Engine)
        self._closed = False
        self.door, self.traffic = "python", DoorTraffic()
        if self._owns_engine:
            self.engine.recover()
            # The loop goes back when it hears of the refusal. In the middle of a turn, decisions of that turn would be
            # lost before their callers wait for them.
            self.engine.when_stalled = self._refuse_while_stalled
            self.engine.find_room = lambda: not self.engine.journal.full  # the writer makes room

    def _refuse_while_stalled(self) -> None:
        stalled = self.engine.commits.stalled
        if stalled is not None:
            raise stalled

    def at(self, door: str) -> AsyncMessageQueue:
        """Return the same queue for one door. Its traffic is counted, and its leases carry the name of the door."""
        queue = copy(self)
        queue.door, queue.traffic = door, self.engine.doors.setdefault(door, DoorTraffic())
        return queue

    async def start(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Attach the queue to the running event loop. Called again, move it from a closed loop to the running one."""
        self.loop.begin()

    async def close(self) -> None:
        """Commit pending decisions. An engine of its own then writes a snapshot and releases the journal."""
        if self._closed:
            return
        await self.loop.end()
        self._closed = True
        if self._owns_engine:
            await asyncio.to_thread(self.engine.close)

    def stop_waiting(self) -> None:
        """Refuse every pull and lease that would wait, from now on."""
        self.loop.wakeups.stop()

    @property
    def closed(self) -> bool:
        return self._closed or self.engine.closed

    @property
    def failed(self) -> asyncio.Future[PenstockError]:
        """A future that is done when the journal has failed for good."""
        return self.loop.failed

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    def clock_of(self, name: str) -> Clock:
        return self.engine.clocks.of(name)

    @property
    def limits(self) -> Limits:
        return self.engine.broker.limits

    def commit(self) -> asyncio.Future[None]:
        return self.loop.commit()

    def on(self, kinds: Iterable[type[Fact]], listener: Listener) -> Listener:
        return self.engine.on(kinds, in_loop(listener))

    def on_reset(self, listener: Callable[[], None]) -> Listener:
        return self.engine.on_reset(in_loop(listener))

    def off(self, listener: Listener) -> None:
        self.engine.off(listener)

    # ------------------------------------------------------------------ messages

    def publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, *, sizes: Sequence[int] | None = None
    ) -> asyncio.Future[Appended]:
        try:
            appended, number = self.engine.publish(topic_name, drafts, once, sizes)
        except PenstockError as error:
            return self.loop.refused(error)
        self.traffic.count_in(topic_name, len(drafts))
        return self.loop.committed(number, appended)

    def send(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions,
        drafts: Sequence[Draft],
        *,
        sizes: Sequence[int] | None = None,
    ) -> asyncio.Future[Appended]:
        def prepare(broker: Broker, now: int) -> None:
            commands.provide_queue(broker, now, topic_name, name, options)

        try:
            appended, number = self.engine.publish(topic_name, drafts, None, sizes, prepare)
        except PenstockError as error:
            return self.loop.refused(error)
        self.traffic.count_in(topic_name, len(drafts))
        return self.loop.committed(number, appended)

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
        until = self.engine.now() + int(wait_seconds * SECOND) if wait_seconds else 0
        while True:
            leased, again = await self._lease(name, max_messages, lease_seconds, max_bytes, holder, until)
            if leased.deliveries or not again:
                break
        try:
            await leased.durable
        except asyncio.CancelledError:
            self.put_back(leased.deliveries)  # the caller is gone and never saw the messages
            raise
        return leased.deliveries

    async def lease(
        self,
        name: str,
        max_messages: int,
        *,
        lease_seconds: float | None = None,
        max_bytes: int = 0,
        wait_seconds: float = 0,
        holder: str = "",
    ) -> Leased:
        until = self.engine.now() + int(wait_seconds * SECOND) if wait_seconds else 0
        return (await self._lease(name, max_messages, lease_seconds, max_bytes, holder, until))[0]

    async def _lease(
        self, name: str, max_messages: int, lease_seconds: float | None, max_bytes: int, holder: str, until: int
    ) -> tuple[Leased, bool]:
        """Return leased messages, or, if none arrived in time, whether another pull might find some."""
        engine, again = self.engine, False
        if engine.is_tick_due():  # expired messages and leases are handled first
            await self.loop.walk(engine.housekeep)
        since = self.revision(name) if until else None
        deliveries: list[Delivery] = []
        steps = partial(
            commands.pull,
            now=engine.clocks.of(name).now,
            name=name,
            max_messages=max_messages,
            lease_seconds=lease_seconds,
            max_bytes=max_bytes,
            holder=holder,
            taken=deliveries,
        )
        try:
            _, number = await self.loop.walk(steps)
        except asyncio.CancelledError:
            self.put_back(deliveries)
            raise
        tail = self._pass_on(name)
        self._note_lease(name, deliveries, holder)
        if not until or deliveries:
            self.connections.note_poll(name, found=bool(deliveries))
        else:
            again = await self.loop.wakeups.wait(name, until, since)
            if self.loop.wakeups.stopped:
                raise UnavailableError("The server is stopping")
        durable = self.loop.committed(number, None)
        if not deliveries:  # no caller waits for it, so a refused commit must not be logged as unretrieved
            durable.add_done_callback(retrieve)
        return Leased(deliveries, tail, durable), again

    async def lease_at(self, name: str, offsets: Sequence[int], *, holder: str = "") -> list[Delivery]:
        deliveries: list[Delivery] = []
        try:
            now = self.engine.clocks.of(name).now
            steps = partial(commands.lease_at, now=now, name=name, offsets=offsets, taken=deliveries)
            _, number = await self.loop.walk(steps)
            await self.loop.committed(number, None)
        except asyncio.CancelledError:
            self.put_back(deliveries)
            raise
        self._note_lease(name, deliveries, holder)
        return deliveries

    def _note_lease(self, name: str, deliveries: Sequence[Delivery], holder: str) -> None:
        self.traffic.count_out(name, len(deliveries))
        if deliveries:
            at = self.engine.clocks.of(deliveries[0].subscription).now()
            self.engine.lease_origins.note(deliveries, LeaseOrigin(self.door, holder, at))

    def _pass_on(self, name: str) -> int:
        """Wake other consumers for the remaining messages. Return the tail of the topic."""
        state = self.engine.broker.state
        subscription = state.subscription_names.get(name)
        if subscription is None:
            return 0
        self.loop.wakeups.pass_on(subscription)
        return self.engine.tail(subscription.topic)

    def revision(self, name: str) -> Revision:
        """Return a value before a pull, by which the wait after the pull sees whether messages came meanwhile."""
        with self.engine.lock:
            return revision(self.engine.broker.state, name)

    async def wait_for_messages(
        self, name: str, wait_seconds: float, since: Revision | None = None, called: asyncio.Future[None] | None = None
    ) -> bool:
        """Wait for messages for a streaming consumer. Return whether a pull might find some. `called` ends the wait."""
        return await self.loop.wakeups.wait(name, self.engine.now() + int(wait_seconds * SECOND), since, called)

    def connect_consumer(self, subscription: int, holder: str, lease_seconds: float) -> None:
        self.connections.lease_seconds[subscription, holder] = lease_seconds

    def disconnect_consumer(self, subscription: int, holder: str) -> None:
        self.connections.lease_seconds.pop((subscription, holder), None)

    def wake_next(self, name: str) -> None:
        """Wake the next consumer when a streaming consumer ends, in case messages had woken the one that ends."""
        self.loop.wakeups.wake_next(name)

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries and not self.closed and self.engine.commits.stalled is None:
            receipts = [delivery.receipt for delivery in deliveries]
            number = deliveries[0].subscription
            self.engine.decide(lambda broker, now: broker.nack(now, receipts, unseen=True, strict=False), number)

    def ack(self, receipts: Sequence[str], *, lapsed: bool = False, strict: bool = True) -> asyncio.Future[Settled]:
        self.traffic.acks += len(receipts)
        return self._settle(lambda broker: partial(broker.ack, lapsed=lapsed, strict=strict), receipts)

    def ack_delivered(self, subscription: int, places: Sequence[tuple[int, ...]]) -> asyncio.Future[int]:
        self.traffic.acks += len(places)
        return self.loop.run(lambda broker, now: broker.ack_delivered(now, subscription, places), subscription)

    def nack(
        self,
        receipts: Sequence[str],
        delay_seconds: float | None = None,
        *,
        unseen: bool = False,
        strict: bool = True,
    ) -> asyncio.Future[Settled]:
        self.traffic.returns += 0 if unseen else len(receipts)
        return self._settle(
            lambda broker: lambda now, texts: broker.nack(now, texts, delay_seconds, unseen, strict=strict), receipts
        )

    def extend(
        self, receipts: Sequence[str], seconds: float, *, lapsed: bool = False, strict: bool = True
    ) -> asyncio.Future[Settled]:
        self.traffic.returns += len(receipts) if seconds <= 0 else 0  # how Pub/Sub returns messages
        return self._settle(
            lambda broker: lambda now, texts: broker.extend(now, texts, seconds, lapsed, strict=strict), receipts
        )

    def _settle(
        self, command: Callable[[Broker], Callable[[int, Sequence[str]], Settled]], receipts: Sequence[str]
    ) -> asyncio.Future[Settled]:
        now = self.engine.clocks.of_receipts(receipts).now
        return self.loop.drive(lambda broker: commands.settle(command(broker), now, receipts))

    def renew(
        self, receipt: str, seconds: float, data: bytes | None = None, *, strict: bool = True
    ) -> asyncio.Future[Renewed]:
        now = self.engine.clocks.of_receipts([receipt]).now
        renewed = self.loop.drive(lambda broker: commands.renew(broker, now, receipt, seconds, data, strict=strict))
        renewed.add_done_callback(partial(self._note_renewal, receipt))
        return renewed

    def _note_renewal(self, old: str, renewed: asyncio.Future[Renewed]) -> None:
        if renewed.cancelled() or renewed.exception() is not None:
            return
        was, new = parse_receipt(old), parse_receipt(renewed.result().receipt)
        if was is not None and new is not None:
            self.engine.lease_origins.replace(new[0], was[2], new[2])

    peek = command(commands.peek)
    purge = timed_decision(Broker.purge)
    purge_topic = timed_decision(Broker.purge_topic)
    forget_producer = decision(Broker.forget_producer)
    examine = lookup(lookups.examine)
    is_unacked = lookup(lookups.is_unacked)
    unacked = lookup(lookups.unacked)
    unsettled = lookup(lookups.unsettled)
    leases = lookup(lookups.leases)
    holdings = lookup(lookups.holdings)
    sequences = lookup(lookups.sequences)
    topics_of_producer = lookup(lookups.topics_of_producer)
    publisher_receipt = lookup(lookups.publisher_receipt)

    # ------------------------------------------------------------------ the log

    async def read(self, topic_name: str, first: int, until: int, max_bytes: int = 0) -> list[Message]:
        engine = self.engine
        engine.check()
        topic = engine.broker.state.topic(topic_name)
        first, until = max(first, topic.head), min(until, topic.tail)
        if engine.commits.holds(topic.number):  # messages of the topic are still on their way to the journal
            await self.commit()
        if first >= until:
            return []
        bounds = (topic.number, first, until, False, max_bytes) if max_bytes else (topic.number, first, until)
        return await asyncio.wrap_future(engine.reads.run(engine.journal.read, *bounds))

    first_offset_at = command(commands.first_offset_at)
    seek_to_offset = command(commands.seek_to_offset)
    seek_to_time = command(commands.seek_to_time)
    seek_to_snapshot = timed_decision(Broker.seek_to_snapshot)
    preview_seek = lookup(lookups.preview_seek)

    # ------------------------------------------------------------------ topics, subscriptions, queues

    create_topic = timed_decision(commands.create_topic)
    change_topic = decision(commands.change_topic)
    delete_topic = decision(Broker.delete_topic)
    find_topic = lookup(lookups.find_topic)
    topics = lookup(lookups.topics)
    find_topics = lookup(lookups.find_topics)
    names = lookup(lookups.names)
    numbered_names = lookup(lookups.numbered_names)
    topic_statistics = lookup(lookups.topic_statistics)

    create_subscription = timed_decision(commands.create_subscription)
    create_subscription_at = command(commands.create_subscription_at)
    change_subscription = decision(commands.change_subscription)
    delete_subscription = decision(Broker.delete_subscription)
    detach_subscription = decision(Broker.detach_subscription)
    touch_subscription = timed_decision(Broker.touch_subscription)
    find_subscription = lookup(lookups.find_subscription)
    subscriptions = lookup(lookups.subscriptions)
    find_subscriptions = lookup(lookups.find_subscriptions)
    reader_names = lookup(lookups.reader_names)
    backlog_messages = lookup(lookups.backlog_messages)
    subscription_statistics = lookup(lookups.subscription_statistics)
    backlog = lookup(lookups.backlog)

    provide_queue = timed_decision(commands.provide_queue)
    remove_queue = decision(commands.remove_queue)
    find_queue = lookup(lookups.find_queue)

    # ------------------------------------------------------------------ snapshots, documents, the store

    create_snapshot = command(commands.create_snapshot)
    change_snapshot = decision(Broker.change_snapshot)
    delete_snapshot = decision(Broker.delete_snapshot)
    snapshots = lookup(lookups.snapshots)
    put_document = decision(Broker.put_document)
    remove_document = decision(Broker.remove_document)
    document = lookup(lookups.document)
    documents = lookup(lookups.documents)
    store = lookup(lookups.store)


def retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the exception as retrieved, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
