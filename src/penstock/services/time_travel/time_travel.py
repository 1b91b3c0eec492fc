"""Time travel: stopping the clock of a namespace, moving it forward and releasing it, while programs use it.

A clock moves from due time to due time and stops at each. There due messages are delivered, and consumers have some
real time to ack them before the clock moves on. So a skipped hour has the same effects as an hour that passed. Due
times that no consumer can observe need no stop, because their effects depend on the instants alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.model import FOREVER, SECOND
from penstock.broker.names import receipt
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import turns
from penstock.engine.commands import housekeep
from penstock.engine.namespaces import DOCUMENTS, NamespaceClock
from penstock.errors import FailedPreconditionError, InvalidArgumentError, PenstockError
from penstock.services.time_travel.watch import Watch

PATIENCE_SECONDS = 0.25  # real seconds that a stop waits for the next ack of a delivered message
STOP_SECONDS_MAX = 10.0  # real seconds of one stop at most
IDLE_SECONDS = 0.05  # real seconds without activity before an automatic clock advances
EXTENSION_SECONDS = 3600.0  # connected consumers extend a lease for this long, as the client libraries do
STOPS_MAX = 100_000  # in one advance
EARLIEST, LATEST = 365 * 86400 * SECOND, 84_006 * 86400 * SECOND  # 1971 and 2200: every deadline fits into 64 bits

RUNNING, FROZEN, AUTOMATIC, SHARED = "running", "frozen", "automatic", "shared"

log = logging.getLogger("penstock")


class Time(NamedTuple):
    """The state of the clock of a namespace."""

    now: int
    mode: str  # shared (the server's clock), frozen, running or automatic
    ahead: int  # nanoseconds ahead of the server's clock; negative: behind it
    next_due: int  # the next instant that a client waits for; FOREVER: no client waits


class Pace(NamedTuple):
    """The settings of a move of the clock."""

    patience_seconds: float = PATIENCE_SECONDS
    extension_seconds: float = EXTENSION_SECONDS  # 0: no lease is extended while the clock moves


PACE = Pace()


class TimeTravel:
    def __init__(self, queue: AsyncMessageQueue) -> None:
        self._engine = queue.engine
        self._loop = queue.loop
        self._connections = queue.connections
        self._locks: dict[str, asyncio.Lock] = {}
        self._automatic: dict[str, asyncio.Task[None]] = {}
        self._ignored: dict[str, set[tuple[int, int, int]]] = {}  # deliveries that no later stop waits for

    # ------------------------------------------------------------------ verbs

    async def show(self, namespace: str) -> Time:
        engine, clock = self._engine, self._engine.own_clocks.get(namespace)
        if clock is None:
            return Time(engine.now(), SHARED, 0, FOREVER)
        mode = AUTOMATIC if namespace in self._automatic else FROZEN if clock.stands else RUNNING
        return Time(clock.now(), mode, clock.ahead, clock.next_alarm())

    async def freeze(self, namespace: str, at: int | None = None, pace: Pace = PACE) -> Time:
        """Stop the clock, now or at a later instant. Without topics in the namespace, `at` may be any instant."""
        empty = not self._topics(namespace)
        self._check(namespace, at, may_go_back=empty)
        self._end_automatic(namespace)
        async with self._own(namespace) as clock:
            clock.stand()
            if at is not None and at < clock.now() and empty:
                clock.begin_at(at)
            elif at is not None:
                await self._move(namespace, clock, at, pace)
        return await self.show(namespace)

    async def advance(self, namespace: str, seconds: float = 0, until: int | None = None, pace: Pace = PACE) -> Time:
        """Move the clock by `seconds`, or to the instant `until`. The clock keeps its mode."""
        at = self._now(namespace) + int(seconds * SECOND) if until is None else until
        self._check(namespace, at, may_go_back=until is None)  # a running clock has already passed its own now
        async with self._own(namespace) as clock:
            runs = not clock.stands
            if until is None:
                until = clock.now() + int(seconds * SECOND)
            try:
                await self._move(namespace, clock, until, pace)
            finally:
                if runs:
                    clock.run()
        return await self.show(namespace)

    async def release(self, namespace: str, *, catch_up: bool = False, pace: Pace = PACE) -> Time:
        """Let the clock run from its current time. `catch_up`: then share the server's clock."""
        own = self._engine.own_clocks.get(namespace)
        if own is None:
            return await self.show(namespace)
        self._check(namespace, self._engine.now() if catch_up else None, may_go_back=own.ahead <= 0)
        self._end_automatic(namespace)
        async with self._own(namespace) as clock:
            if catch_up:
                await self._move(namespace, clock, self._engine.now(), pace)
            clock.run()
        if catch_up:
            await self.forget(namespace)
        return await self.show(namespace)

    async def automate(self, namespace: str, idle_seconds: float = IDLE_SECONDS, pace: Pace = PACE) -> Time:
        """Stop the clock, and move it to the next due time whenever no consumer is busy."""
        self._end_automatic(namespace)
        async with self._own(namespace) as clock:
            clock.stand()
        if self._connections.polled is None:
            self._connections.polled = set()
        skipping = self._skip(namespace, idle_seconds, pace)
        self._automatic[namespace] = asyncio.get_running_loop().create_task(skipping)
        return await self.show(namespace)

    async def forget(self, namespace: str) -> None:
        """Remove the clock of a namespace. Its names use the server's time from then on."""
        self._end_automatic(namespace)
        self._ignored.pop(namespace, None)
        self._locks.pop(namespace, None)
        if self._engine.own_clocks.pop(namespace, None) is not None:
            self._wake(namespace)
            stored = self._engine.broker.state.documents.get(DOCUMENTS, {})
            if namespace in stored:  # absent while a first move is under way
                await self._loop.run(lambda broker, _: broker.remove_document(DOCUMENTS, namespace))

    def close(self) -> None:
        for namespace in list(self._automatic):
            self._end_automatic(namespace)

    # ------------------------------------------------------------------ one clock

    @asynccontextmanager
    async def _own(self, namespace: str) -> AsyncIterator[NamespaceClock]:
        """Yield the clock of a namespace, created if missing, to one caller at a time. Store it afterwards."""
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            clock = self._engine.own_clocks.get(namespace)
            if clock is None:
                clock = self._engine.own_clocks[namespace] = NamespaceClock(self._engine.clock)
                self._wake(namespace)
            try:
                yield clock
            finally:
                if self._engine.own_clocks.get(namespace) is clock:  # unless the clock was removed meanwhile
                    await self._loop.run(lambda broker, _: broker.put_document(DOCUMENTS, namespace, clock.dump()))

    def _wake(self, namespace: str) -> None:
        """Wake all waiting pulls of a namespace, so that they wait on its current clock."""
        for subscription in self._subscriptions(namespace):
            self._loop.wakeups.wake_all(subscription.number)

    def _end_automatic(self, namespace: str) -> None:
        task = self._automatic.pop(namespace, None)
        if task is not None:
            task.cancel()
        if not self._automatic:
            self._connections.polled = None

    def _now(self, namespace: str) -> int:
        return self._engine.own_clocks.get(namespace, self._engine.clock).now()

    def _check(self, namespace: str, at: int | None, *, may_go_back: bool = False) -> None:
        """Raise an error before anything changes if the clock cannot be moved to an instant."""
        if at is None:
            return
        if not EARLIEST <= at <= LATEST:
            raise InvalidArgumentError("Time can be moved from 1971-01-01 to 2200-01-01")
        ahead = self._now(namespace) - at
        if ahead > 0 and not may_go_back:
            raise FailedPreconditionError(
                f"Time does not go back: {namespace} is {ahead / SECOND:,.3f} seconds ahead of that"
            )

    def _is_in(self, namespace: str) -> Callable[[str], bool]:
        """Return a test of the names of topics."""
        namespace_of = self._engine.clocks.namespace_of
        return lambda topic_name: namespace_of(topic_name) == namespace

    def _topics(self, namespace: str) -> list[Topic]:
        is_here = self._is_in(namespace)
        return [topic for topic in self._engine.broker.state.topics.values() if is_here(topic.name)]

    def _subscriptions(self, namespace: str) -> list[Subscription]:
        return [reader for topic in self._topics(namespace) for reader in topic.readers.values()]

    # ------------------------------------------------------------------ moving

    async def _move(self, namespace: str, clock: NamespaceClock, until: int, pace: Pace) -> None:
        clock.stand()
        with self._watch(namespace) as activity:
            ignored = self._ignored.setdefault(namespace, set())
            held = set(self._held_leases(namespace))
            ignored &= held
            activity.given.update({(number, offset): stamp for number, offset, stamp in held - ignored})
            await self._pause(activity, pace, ignored)
            await self._stop(namespace, clock, clock.now(), pace)
            for _ in range(STOPS_MAX):
                due = self._next_stop(namespace, clock)
                if due > until:
                    break
                await self._stop(namespace, clock, due, pace)
                await self._pause(activity, pace, ignored)
            await self._loop.run(lambda broker, _: broker.make_trims_due(self._is_in(namespace)))
            await self._stop(namespace, clock, until, pace)
            await self._pause(activity, pace, ignored)

    def _next_stop(self, namespace: str, clock: NamespaceClock) -> int:
        """Return the next due time that clients can see: a wait ends, a message moves, a lease is extended."""
        connected, now = {number for number, _ in self._connections.lease_seconds}, clock.now()
        dues = [
            reader.timers.next_due()
            for reader in self._subscriptions(namespace)
            if reader.options.dead_letter_topic or reader.options.expired_topic or reader.number in connected
        ]
        return min([due for due in [clock.next_alarm(), *dues] if due > now], default=FOREVER)

    async def _stop(self, namespace: str, clock: NamespaceClock, at: int, pace: Pace) -> None:
        clock.move(at)
        is_here = self._is_in(namespace)

        def time_of(topic_name: str) -> int:
            return clock.now() if is_here(topic_name) else -1  # nothing is due in other namespaces

        def act(broker: Broker, _: int) -> None:
            self._extend(broker, namespace, clock.now(), pace)
            waited_for = self._loop.wakeups.waited_for()
            for subscription in self._subscriptions(namespace):
                if subscription.options.expiration_seconds and subscription.number in waited_for:
                    broker.touch_subscription(clock.now(), subscription.name)  # a waiting pull counts as use
            broker.expire_resources(clock.now(), time_of)

        await self._loop.run(act)
        await self._loop.drive(lambda broker: housekeep(broker, clock.now, time_of))

    def _extend(self, broker: Broker, namespace: str, now: int, pace: Pace) -> None:
        """Extend expired leases of connected consumers on their behalf, as the consumers would have done."""
        by_seconds: dict[float, list[str]] = {}
        for number, offset, stamp in self._held_leases(namespace):
            origin = self._engine.lease_origins.find(number, stamp)
            if origin is None or broker.state.subscriptions[number].outstanding[offset].due > now:
                continue
            left = (origin.at - now) / SECOND + pace.extension_seconds
            seconds = min(self._connections.lease_seconds[number, origin.holder], left)
            if seconds > 0:
                by_seconds.setdefault(seconds, []).append(receipt(number, offset, stamp))
        for seconds, receipts in by_seconds.items():
            broker.extend(now, receipts, seconds, lapsed=True)

    def _next_polled(self, namespace: str, now: int) -> int:
        """Return the next due time of a polled subscription. Each poll counts once."""
        names = self._connections.polled or set()
        polled = [subscription for subscription in self._subscriptions(namespace) if subscription.name in names]
        dues = [due for subscription in polled if (due := subscription.timers.next_due()) > now]
        names.difference_update(subscription.name for subscription in polled)
        return min(dues, default=FOREVER)

    def _held_leases(self, namespace: str) -> Iterator[tuple[int, int, int]]:
        """Yield subscription, offset and stamp of every lease of a connected consumer."""
        connected = {number for number, _ in self._connections.lease_seconds}
        for subscription in self._subscriptions(namespace):
            for offset, entry in subscription.outstanding.items() if subscription.number in connected else ():
                origin = self._engine.lease_origins.find(subscription.number, entry.stamp) if entry.leased else None
                if origin is not None and (subscription.number, origin.holder) in self._connections.lease_seconds:
                    yield subscription.number, offset, entry.stamp

    # ------------------------------------------------------------------ real time

    @contextmanager
    def _watch(self, namespace: str) -> Iterator[Watch]:
        activity = Watch(self._engine, self._is_in(namespace))
        try:
            yield activity
        finally:
            activity.close()

    async def _pause(self, activity: Watch, pace: Pace, ignored: set[tuple[int, int, int]]) -> None:
        """Wait until all delivered messages are acked or returned, as long as consumers make progress.

        Messages that were redelivered often at this stop are not waited for.
        """
        activity.begin_stop()
        time = asyncio.get_running_loop().time
        end = time() + STOP_SECONDS_MAX
        await turns()
        while activity.given and time() < end and await activity.makes_progress(pace.patience_seconds):
            await turns()
        ignored |= {(number, offset, stamp) for (number, offset), stamp in activity.given.items()}
        activity.given.clear()

    async def _skip(self, namespace: str, idle_seconds: float, pace: Pace) -> None:
        """Run an automatic clock."""
        with self._watch(namespace) as activity:
            seen = -1
            while True:
                await asyncio.sleep(idle_seconds)
                if activity.fact_count != seen:
                    seen = activity.fact_count
                    continue
                clock = self._engine.own_clocks[namespace]
                due = min(clock.next_alarm(), self._next_polled(namespace, clock.now()))
                if due < FOREVER and not any(self._held_leases(namespace)):
                    try:
                        async with self._own(namespace):
                            await self._move(namespace, clock, max(due, clock.now()), pace)
                    except PenstockError as error:
                        log.error("The clock of %s could not be moved: %s", namespace, error)
