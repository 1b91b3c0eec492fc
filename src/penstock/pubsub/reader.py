"""The reader, which pulls for one consumer as much as flow control allows.

Pulled messages are passed to the consumer or returned. A pull is never interrupted, only the wait between pulls. After
closing, every message is answered or its lease has ended, and no task runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from penstock.broker.consuming import Delivery
from penstock.broker.model import SECOND, SubscriptionOptions
from penstock.engine import lookups
from penstock.errors import FailedPreconditionError
from penstock.pubsub.leases import Leases
from penstock.pubsub.message import Received
from penstock.pubsub.options import WAIT
from penstock.pubsub.session import Session, Signal

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

PULL_MESSAGES = 500  # messages in one pull; more would block the event loop
WAIT_SECONDS = 30.0  # maximum wait before the next pull
CHECK_SECONDS = 1.0  # interval at which a full reader checks that its subscription exists
SOON = SECOND  # an `async for` loop that handles a pull within this time gets twice as many messages


class Reader:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self.ready: deque[Received] = deque()  # pulled, not passed to the consumer yet
        self.in_hand: dict[asyncio.Task[Any], Received] = {}  # message of each task
        self.workers: set[asyncio.Task[None]] = set()  # tasks that end with the reader
        self.changed = Signal(session.clock)  # wakes on messages, a new listener, new options
        self.released = Signal(session.clock)  # wakes when a message is released or a worker ends
        self.leases = Leases(session.clock, subscription.acks, self.released)
        self.closing = False
        self._pulling = False
        self._ending: asyncio.Task[None] | None = None
        self._excused: set[asyncio.Task[Any]] = set()  # tasks that wait for the end, which closing does not wait for

    # ------------------------------------------------------------------ pulling

    async def pull(self, wanted: int) -> None:
        """Pull at most `wanted` messages, or wait until another pull may find some."""
        self._pulling = True
        try:
            await self._pull(wanted)
        finally:
            self._pulling = False
            self.wake()

    def wake(self) -> None:
        """Make the reader check its state again."""
        self.changed.wake()
        self.released.wake()

    async def _pull(self, wanted: int) -> None:
        queue, name, options = self._session.queue, self._subscription.name, self._subscription.options
        since = queue.revision(name)
        if since.detached:
            raise FailedPreconditionError(f"Subscription is detached, its topic was deleted: {name}")
        room = min(wanted, self._room())
        if room:
            lease_seconds = options.lease_seconds(since.options.lease_seconds)
            max_bytes = 0 if options.allow_excess_messages else options.max_bytes - self.leases.bytes
            deliveries = await queue.pull(name, room, lease_seconds=lease_seconds, max_bytes=max_bytes)
            if deliveries:
                self._receive(deliveries, lease_seconds)
                self._report_stuck(deliveries, since.options)
                return
        if self.closing:
            return
        if room or not wanted:
            await queue.wait_for_messages(name, WAIT_SECONDS, since, self.changed.waiter())
        else:
            await self.released.wait(CHECK_SECONDS)

    def _room(self) -> int:
        """Return how many messages may be pulled now."""
        options, held = self._subscription.options, len(self.leases.held)
        if self.closing or held >= options.max_messages or self.leases.bytes >= options.max_bytes:
            return 0
        return min(PULL_MESSAGES, options.max_messages - (0 if options.allow_excess_messages else held))

    def _receive(self, deliveries: list[Delivery], lease_seconds: float) -> None:
        acks, leases, now = self._subscription.acks, self.leases, self._session.clock.now()
        messages = [Received(delivery, acks, now, leases) for delivery in deliveries]
        leases.max_extension_seconds = self._subscription.options.max_extension_seconds
        leases.add(messages, lease_seconds)
        self.ready.extend(messages)
        if self.closing:
            self.give_back()

    def _report_stuck(self, deliveries: list[Delivery], options: SubscriptionOptions) -> None:
        """Report messages that are redelivered because their dead letter topic does not exist."""
        topic, most = options.dead_letter_topic, options.max_delivery_attempts
        if not topic or all(delivery.attempt <= most for delivery in deliveries):
            return
        if lookups.find_topic(self._session.queue.engine, topic) is not None:
            return
        text = f"A message of {self._subscription.name} cannot be dead-lettered: there is no topic {topic}"
        self._subscription.report(FailedPreconditionError(text))

    # ------------------------------------------------------------------ closing

    def give_back(self) -> None:
        """Return the messages that the consumer has not seen."""
        while self.ready:
            self._subscription.acks.put_back(self.ready.popleft())

    async def stop(self) -> None:
        """Stop pulling, and return the messages that the consumer has not seen."""
        self.closing = True
        self.give_back()
        self.wake()
        while self._pulling:
            await self.released.wait()
        self._session.queue.wake_next(self._subscription.name)

    def begin_closing(self) -> asyncio.Task[None]:
        """Close in a separate task. A listener may call this, and closing does not wait for that listener."""
        if self._ending is None:
            self.closing = True
            self._ending = self._session.spawn(self._close())
        task = asyncio.current_task()
        if task is not None:
            self._excused.add(task)
            self.wake()
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
        await self._subscription.acks.outbox.drain()
        self._subscription.leave(self)

    async def _wait_for_answers(self, seconds: float | None) -> None:
        clock = self._session.clock
        until = None if seconds is None else clock.now() + int(seconds * SECOND)
        while len(self.leases.held) > len(self._in_excused_hands()) or self.workers - self._excused:
            left = 0.0 if until is None else (until - clock.now()) / SECOND
            if until is not None and left <= 0:
                return
            await self.released.wait(left)

    def _in_excused_hands(self) -> set[Received]:
        return {self.in_hand[task] for task in self._excused if task in self.in_hand} & self.leases.held.keys()


async def messages(subscription: Subscription, session: Session) -> AsyncIterator[Received]:
    """Yield messages one after the other, for `async for`.

    It pulls only when it has no messages left, and only as many as the caller handles well within a lease.
    """
    lookups.subscription(session.use().engine, subscription.name)
    reader, clock, task, portion = Reader(subscription, session), session.clock, asyncio.current_task(), 1
    assert task is not None
    pulled_at = clock.now()
    subscription.enter(reader)
    try:
        while not reader.closing:
            portion = min(2 * portion, PULL_MESSAGES) if clock.now() - pulled_at < SOON else max(1, portion // 2)
            await reader.pull(portion)
            pulled_at = clock.now()
            while reader.ready:
                message = reader.in_hand[task] = reader.ready.popleft()
                if message in reader.leases.held:
                    yield message
                    message.left = True
    finally:
        if task in reader.in_hand:
            reader.in_hand[task].left = True
        if not reader.closing:
            await reader.stop()
            subscription.leave(reader)
