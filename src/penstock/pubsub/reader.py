"""Reader: pulls for one consumer, as much as flow control allows, and goes on whatever happens until it is closed.

What was pulled is handed to the consumer or given back: a pull is never cut short, only the wait between pulls is. When
closing is over, every message it held is answered or its lease has ended, and no task of it runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from penstock.broker.consuming import Delivery
from penstock.broker.model import SECOND, SubscriptionOptions
from penstock.engine.wakeups import Revision
from penstock.errors import FailedPreconditionError, PenstockError
from penstock.pubsub.leases import Leases
from penstock.pubsub.message import Received
from penstock.pubsub.options import WAIT
from penstock.pubsub.session import Session, Signal

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

PULL_MESSAGES = 500  # at once; more would keep the event loop from everybody else
WAIT_SECONDS = 30.0  # after that the subscription is looked at again, whatever happened
CHECK_SECONDS = 1.0  # how often a reader that is full looks whether its subscription is still there
RETRY_FIRST_SECONDS = 0.1
RETRY_LAST_SECONDS = 5.0


class Consumer(Protocol):
    """What a reader pulls for."""

    def wanted(self) -> int:
        """How many messages it can take at once."""

    def look(self) -> None:
        """There is something in `ready`, or the reader closes."""

    def failed(self, error: Exception) -> None: ...


class Reader:
    def __init__(self, subscription: Subscription, session: Session, consumer: Consumer) -> None:
        self._subscription = subscription
        self._session = session
        self._consumer = consumer
        self.ready: deque[Received] = deque()  # pulled, and not yet in the consumer's hands
        self.in_hand: dict[asyncio.Task[Any], Received] = {}  # what a task works on
        self.workers: set[asyncio.Task[None]] = set()  # tasks of the consumer that end with it
        self.changed = Signal(session.clock)  # room, a listener, options
        self.leases = Leases(session.clock, subscription.acks, self.changed)
        self.closing = False
        self._ending: asyncio.Task[None] | None = None
        self._excused: set[asyncio.Task[Any]] = set()  # who waits for the end cannot be waited for
        self._last_error: Exception | None = None
        self._retry_seconds = RETRY_FIRST_SECONDS
        self._waiting = False  # for messages, in the queue: the one moment when it may be interrupted
        self._task = session.spawn(self._run())

    # ------------------------------------------------------------------ pulling

    async def _run(self) -> None:
        while not self.closing:
            try:
                await self._turn()
            except asyncio.CancelledError:
                if not self.closing:
                    raise
            except Exception as error:  # noqa: BLE001 - if it ended silently, that would look like an empty queue
                await self._retry_after(error)

    async def _turn(self) -> None:
        queue, name, options = self._session.queue, self._subscription.name, self._subscription.options
        since = queue.revision(name)
        if since.detached:
            raise FailedPreconditionError(f"Subscription is detached, its topic was deleted: {name}")
        wanted = self._consumer.wanted()
        room = min(wanted, self._room())
        if not room:
            await (self._rest(CHECK_SECONDS) if wanted else self._watch(since))
            return
        flow, lease_seconds = options.flow_control, options.lease_seconds(since.options.lease_seconds)
        max_bytes = 0 if flow.allow_excess_messages else flow.max_bytes - self.leases.bytes
        deliveries = await queue.pull(name, room, lease_seconds=lease_seconds, max_bytes=max_bytes)
        self._last_error, self._retry_seconds = None, RETRY_FIRST_SECONDS
        if deliveries:
            self._receive(deliveries, lease_seconds)
            self._report_stuck(deliveries, since.options)
            await asyncio.sleep(0)  # those who work on them come first
        elif not self.closing:
            self._waiting = True
            try:
                await queue.wait_for_messages(name, WAIT_SECONDS, since)
            finally:
                self._waiting = False

    def _room(self) -> int:
        """How many messages may be pulled now."""
        flow, held = self._subscription.options.flow_control, len(self.leases.held)
        if self.closing or held >= flow.max_messages or self.leases.bytes >= flow.max_bytes:
            return 0
        return min(PULL_MESSAGES, flow.max_messages if flow.allow_excess_messages else flow.max_messages - held)

    def _receive(self, deliveries: list[Delivery], lease_seconds: float) -> None:
        acks, leases, now = self._subscription.acks, self.leases, self._session.clock.now()
        messages = [Received(delivery, acks, now, leases) for delivery in deliveries]
        leases.max_extension_seconds = self._subscription.options.flow_control.max_extension_seconds
        leases.add(messages, lease_seconds)
        self.ready.extend(messages)
        if self.closing:
            self.give_back()
        else:
            self._consumer.look()

    def _report_stuck(self, deliveries: list[Delivery], options: SubscriptionOptions) -> None:
        """Messages that come again because they have no dead letter topic to go to."""
        topic, most = options.dead_letter_topic, options.max_delivery_attempts
        if not topic or all(each.attempt <= most for each in deliveries) or self._session.queue.topic_exists(topic):
            return
        text = f"A message of {self._subscription.name} cannot be dead-lettered: there is no topic {topic}"
        self._subscription.report(FailedPreconditionError(text))

    async def _retry_after(self, error: Exception) -> None:
        """Say it once, then try again after a while."""
        if str(error) != str(self._last_error):
            self._last_error = error
            self._consumer.failed(error)
        self._subscription.remark(f"trying again in {self._retry_seconds:g} s: {error}")
        await self._rest(self._retry_seconds)
        self._retry_seconds = min(2 * self._retry_seconds, RETRY_LAST_SECONDS)

    async def _rest(self, seconds: float = 0) -> None:
        """Until something changes, or at most so long; 0: however long that takes."""
        if not self.closing:
            await self.changed.wait(seconds)

    async def _watch(self, since: Revision) -> None:
        """The consumer wants nothing: until it does, or something happens to the subscription."""
        watching = self._session.spawn(self._look_out(since))
        try:
            await self._rest()
        finally:
            watching.cancel()

    async def _look_out(self, since: Revision) -> None:
        try:
            await self._session.queue.wait_for_messages(self._subscription.name, WAIT_SECONDS, since)
        except PenstockError as error:
            self._subscription.remark(f"no longer waiting: {error}")
        self.changed.wake()

    # ------------------------------------------------------------------ the end

    def give_back(self) -> None:
        """Return what the consumer has not seen yet."""
        while self.ready:
            self._subscription.acks.put_back(self.ready.popleft())

    async def stop(self) -> None:
        """No more pulls; what has not been handed out goes back."""
        self.closing = True
        self.give_back()
        self.changed.wake()
        self._consumer.look()
        if self._waiting:
            self._task.cancel()
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    def begin_closing(self) -> asyncio.Task[None]:
        """Close in a task of its own, as a listener may ask for it, who is then not waited for."""
        if self._ending is None:
            self.closing = True
            self._ending = self._session.spawn(self._close())
        task = asyncio.current_task()
        if task is not None:
            self._excused.add(task)
            self.changed.wake()
        return self._ending

    async def _close(self) -> None:
        options = self._subscription.options
        await self.stop()
        if options.close_behavior == WAIT:
            await self._wait_for_answers(options.close_timeout_seconds)
        excused = self._in_excused_hands()
        for message in self.leases.clear():
            if message not in excused:
                message.nack()
        workers = self.workers - self._excused
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        await self._subscription.acks.drain()
        self._subscription.leave(self)

    async def _wait_for_answers(self, seconds: float | None) -> None:
        clock = self._session.clock
        until = None if seconds is None else clock.now() + int(seconds * SECOND)
        while len(self.leases.held) > len(self._in_excused_hands()) or self.workers - self._excused:
            left = 0.0 if until is None else (until - clock.now()) / SECOND
            if until is not None and left <= 0:
                return
            await self.changed.wait(left)

    def _in_excused_hands(self) -> set[Received]:
        return {self.in_hand[task] for task in self._excused if task in self.in_hand} & self.leases.held.keys()
