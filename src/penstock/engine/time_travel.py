"""Time travel: the time of a namespace is stopped, moved forward and let go again, while programs use it.

Moving goes from due time to due time. At each of them time stands: what is due has its effect, whoever waits for it
gets it and has some real time to act on it, and only then time goes on. So an hour that is skipped leaves behind what
an hour that passed would have. What nobody waits for needs no stop: it depends on the instants alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.model import FOREVER, SECOND
from penstock.broker.names import receipt
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.activity import Activity
from penstock.engine.clock import turns
from penstock.engine.commands import housekeep
from penstock.engine.engine import Engine
from penstock.engine.loop import EngineLoop
from penstock.engine.namespaces import DOCUMENTS, NamespaceClock
from penstock.errors import FailedPreconditionError, InvalidArgumentError, PenstockError

PATIENCE_SECONDS = 0.25  # real ones, for whoever was given messages at a stop, before time goes on
STOP_SECONDS_MAX = 10.0  # real ones, for one stop, however much is still being done
IDLE_SECONDS = 0.05  # real ones, without anything happening, before an automatic clock is moved
EXTENSION_SECONDS = 3600.0  # for how long connected consumers extend a lease: what the client libraries do
STOPS_MAX = 100_000  # in one advance
EARLIEST, LATEST = 365 * 86400 * SECOND, 84_006 * 86400 * SECOND  # 1971 and 2200: what lasts ends within 64 bits

RUNNING, FROZEN, AUTOMATIC, SHARED = "running", "frozen", "automatic", "shared"

log = logging.getLogger("penstock")


class Time(NamedTuple):
    """The time of a namespace, as it is shown."""

    now: int
    mode: str  # shared: it is the server's own; else frozen, running or automatic
    ahead: int  # nanoseconds before the server's; negative: behind it
    next_due: int  # the next moment that somebody waits for; FOREVER: nobody does


class Pace(NamedTuple):
    """How time is moved."""

    patience_seconds: float = PATIENCE_SECONDS
    extension_seconds: float = EXTENSION_SECONDS  # 0: no lease is extended while time is moved


PACE = Pace()


class TimeTravel:
    def __init__(self, engine: Engine, loop: EngineLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._locks: dict[str, asyncio.Lock] = {}
        self._automatic: dict[str, asyncio.Task[None]] = {}
        self._kept: dict[str, set[tuple[int, int, int]]] = {}  # deliveries that are not waited for a second time
        self._consumers: dict[tuple[int, str], float] = {}  # connected: subscription and holder -> seconds of a lease
        self._polled: set[str] = set()  # subscriptions whose last pull found nothing and did not wait

    def connect(self, subscription: int, holder: str, lease_seconds: float) -> None:
        """A consumer is there that extends its leases by itself, until `disconnect`; by real time, as it must."""
        self._consumers[subscription, holder] = lease_seconds

    def disconnect(self, subscription: int, holder: str) -> None:
        self._consumers.pop((subscription, holder), None)

    def note_poll(self, subscription: str, *, found: bool) -> None:
        """Who asks and does not wait will ask again: an automatic clock takes it for waiting."""
        if self._automatic and found:
            self._polled.discard(subscription)
        elif self._automatic:
            self._polled.add(subscription)

    # ------------------------------------------------------------------ verbs

    async def show(self, namespace: str) -> Time:
        engine, clock = self._engine, self._engine.own_clocks.get(namespace)
        if clock is None:
            return Time(engine.now(), SHARED, 0, FOREVER)
        mode = AUTOMATIC if namespace in self._automatic else FROZEN if clock.stands else RUNNING
        return Time(clock.now(), mode, clock.ahead, clock.next_alarm())

    async def freeze(self, namespace: str, at: int | None = None, pace: Pace = PACE) -> Time:
        """Stand still, now or at a later instant; in a namespace without topics, at any."""
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
        """Move by so many seconds, or to an instant; afterwards the clock runs, stands or skips as it did before."""
        at = self._now(namespace) + int(seconds * SECOND) if until is None else until
        self._check(namespace, at, may_go_back=until is None)  # a clock that runs is past its own now already
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
        """Run on from where it is. `catch_up`: go to the server's time first, and be one with it from then on."""
        known = self._engine.own_clocks.get(namespace)
        if known is None:
            return await self.show(namespace)
        self._check(namespace, self._engine.now() if catch_up else None, may_go_back=known.ahead <= 0)
        self._end_automatic(namespace)
        async with self._own(namespace) as clock:
            if catch_up:
                await self._move(namespace, clock, self._engine.now(), pace)
            clock.run()
        if catch_up:
            await self.forget(namespace)
        return await self.show(namespace)

    async def automate(self, namespace: str, idle_seconds: float = IDLE_SECONDS, pace: Pace = PACE) -> Time:
        """Stand still, and skip to the next moment that somebody waits for whenever nobody is busy."""
        self._end_automatic(namespace)
        async with self._own(namespace) as clock:
            clock.stand()
        skipping = self._skip(namespace, idle_seconds, pace)
        self._automatic[namespace] = asyncio.get_running_loop().create_task(skipping)
        return await self.show(namespace)

    async def forget(self, namespace: str) -> None:
        """Nothing is left of a namespace: whoever uses its names next begins with the server's time."""
        self._end_automatic(namespace)
        self._kept.pop(namespace, None)
        self._locks.pop(namespace, None)
        if self._engine.own_clocks.pop(namespace, None) is not None:
            self._wake(namespace)
            if namespace in self._engine.broker.state.documents.get(DOCUMENTS, {}):  # not where it is moved just now
                await self._loop.run(lambda broker, _: broker.remove_document(DOCUMENTS, namespace))

    def close(self) -> None:
        for namespace in list(self._automatic):
            self._end_automatic(namespace)

    # ------------------------------------------------------------------ one clock

    @asynccontextmanager
    async def _own(self, namespace: str) -> AsyncIterator[NamespaceClock]:
        """The clock of a namespace, made where it has none; one caller at a time, and durable as it was left."""
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            clock = self._engine.own_clocks.get(namespace)
            if clock is None:
                clock = self._engine.own_clocks[namespace] = NamespaceClock(self._engine.clock)
                self._wake(namespace)
            try:
                yield clock
            finally:
                if self._engine.own_clocks.get(namespace) is clock:  # or it was forgotten meanwhile
                    await self._loop.run(lambda broker, _: broker.put_document(DOCUMENTS, namespace, clock.dump()))

    def _wake(self, namespace: str) -> None:
        """Whoever waits looks again, and waits on the clock that counts now."""
        for each in self._subscriptions(namespace):
            self._loop.wakeups.wake_all(each.number)

    def _end_automatic(self, namespace: str) -> None:
        task = self._automatic.pop(namespace, None)
        if task is not None:
            task.cancel()

    def _now(self, namespace: str) -> int:
        return self._engine.own_clocks.get(namespace, self._engine.clock).now()

    def _check(self, namespace: str, at: int | None, *, may_go_back: bool = False) -> None:
        """What is refused changes nothing: it is looked at first."""
        if at is None:
            return
        if not EARLIEST <= at <= LATEST:
            raise InvalidArgumentError("Time can be moved from 1971-01-01 to 2200-01-01")
        ahead = self._now(namespace) - at
        if ahead > 0 and not may_go_back:
            raise FailedPreconditionError(
                f"Time does not go back: {namespace} is {ahead / SECOND:,.3f} seconds ahead of that"
            )

    def _topics(self, namespace: str) -> list[Topic]:
        topics, clocks = self._engine.broker.state.topics.values(), self._engine.clocks
        return [each for each in topics if clocks.namespace_of(each.name) == namespace]

    def _subscriptions(self, namespace: str) -> list[Subscription]:
        return [reader for topic in self._topics(namespace) for reader in topic.readers.values()]

    # ------------------------------------------------------------------ moving

    async def _move(self, namespace: str, clock: NamespaceClock, until: int, pace: Pace) -> None:
        clock.stand()
        with self._watch(namespace) as activity:
            known = self._kept.setdefault(namespace, set())
            held = set(self._held(namespace))
            known &= held
            activity.given.update({(number, offset): stamp for number, offset, stamp in held - known})
            await self._pause(activity, pace, known)
            await self._stop(namespace, clock, clock.now(), pace)
            for _ in range(STOPS_MAX):
                due = self._next_stop(namespace, clock)
                if due > until:
                    break
                await self._stop(namespace, clock, due, pace)
                await self._pause(activity, pace, known)
            for topic in self._topics(namespace):
                topic.trim_at = 0  # retention holds from the first answer on
            await self._stop(namespace, clock, until, pace)
            await self._pause(activity, pace, known)

    def _next_stop(self, namespace: str, clock: NamespaceClock) -> int:
        """When something happens that others may see at that moment: a wait ends, a message moves, a lease goes on."""
        connected, now = {number for number, _ in self._consumers}, clock.now()
        dues = [
            each.timers.next_due()
            for each in self._subscriptions(namespace)
            if each.options.dead_letter_topic or each.options.expired_topic or each.number in connected
        ]
        return min([due for due in [clock.next_alarm(), *dues] if due > now], default=FOREVER)

    async def _stop(self, namespace: str, clock: NamespaceClock, at: int, pace: Pace) -> None:
        clock.move(at)
        clocks = self._engine.clocks

        def time_of(topic_name: str) -> int:
            return clock.now() if clocks.namespace_of(topic_name) == namespace else -1  # nothing is due elsewhere

        def act(broker: Broker, _: int) -> None:
            self._extend(broker, namespace, clock.now(), pace)
            waited_for = self._loop.wakeups.waited_for()
            for each in self._subscriptions(namespace):
                if each.options.expiration_seconds and each.number in waited_for:
                    broker.touch_subscription(clock.now(), each.name)  # who waits asks again and again
            broker.expire_resources(clock.now(), time_of)

        await self._loop.run(act)
        await self._loop.drive(lambda broker: housekeep(broker, clock.now, time_of))

    def _extend(self, broker: Broker, namespace: str, now: int, pace: Pace) -> None:
        """Leases that end while their consumer is connected are extended on its behalf, as it would have done."""
        by_seconds: dict[float, list[str]] = {}
        for number, offset, stamp in self._held(namespace):
            origin = self._engine.lease_origins.find(number, stamp)
            if origin is None or broker.state.subscriptions[number].outstanding[offset].due > now:
                continue
            left = (origin.at - now) / SECOND + pace.extension_seconds
            seconds = min(self._consumers[number, origin.holder], left)
            if seconds > 0:
                by_seconds.setdefault(seconds, []).append(receipt(number, offset, stamp))
        for seconds, receipts in by_seconds.items():
            broker.extend(now, receipts, seconds, lapsed=True)

    def _next_polled(self, namespace: str, now: int) -> int:
        """When the next message comes that somebody has asked for; they have to ask again for the one after it."""
        polled = [each for each in self._subscriptions(namespace) if each.name in self._polled]
        dues = [due for each in polled if (due := each.timers.next_due()) > now]
        self._polled.difference_update(each.name for each in polled)
        return min(dues, default=FOREVER)

    def _held(self, namespace: str) -> Iterator[tuple[int, int, int]]:
        """What connected consumers hold: subscription, offset and stamp."""
        connected = {number for number, _ in self._consumers}
        for each in self._subscriptions(namespace):
            for offset, entry in each.outstanding.items() if each.number in connected else ():
                origin = self._engine.lease_origins.find(each.number, entry.stamp) if entry.leased else None
                if origin is not None and (each.number, origin.holder) in self._consumers:
                    yield each.number, offset, entry.stamp

    # ------------------------------------------------------------------ real time

    @contextmanager
    def _watch(self, namespace: str) -> Iterator[Activity]:
        clocks = self._engine.clocks
        activity = Activity(self._engine, lambda topic_name: clocks.namespace_of(topic_name) == namespace)
        try:
            yield activity
        finally:
            activity.close()

    async def _pause(self, activity: Activity, pace: Pace, kept: set[tuple[int, int, int]]) -> None:
        """Until all that was given to somebody is answered; who makes no progress for a while is not waited for, nor
        what comes back again and again."""
        activity.begin_stop()
        time = asyncio.get_running_loop().time
        end = time() + STOP_SECONDS_MAX
        await turns()
        while activity.given and time() < end and await activity.goes_on(pace.patience_seconds):
            await turns()
        kept |= {(number, offset, stamp) for (number, offset), stamp in activity.given.items()}
        activity.given.clear()

    async def _skip(self, namespace: str, idle_seconds: float, pace: Pace) -> None:
        """An automatic clock."""
        with self._watch(namespace) as activity:
            seen = -1
            while True:
                await asyncio.sleep(idle_seconds)
                if activity.count != seen:
                    seen = activity.count
                    continue
                clock = self._engine.own_clocks[namespace]
                due = min(clock.next_alarm(), self._next_polled(namespace, clock.now()))
                if due < FOREVER and not any(self._held(namespace)):
                    try:
                        async with self._own(namespace):
                            await self._move(namespace, clock, max(due, clock.now()), pace)
                    except PenstockError as error:
                        log.error("The time of %s could not be moved: %s", namespace, error)
