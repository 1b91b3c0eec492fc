"""The stream: it pulls for one consumer, as much as flow control allows, and goes on whatever happens.

The rule kept here: what was pulled is either handed to the consumer or given back. A pull is never cut short, only
the wait between pulls is; an error is reported once, and the stream tries again until it is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from penstock.broker.consuming import Delivery
from penstock.broker.model import SECOND, SubscriptionOptions
from penstock.engine.clock import Alarm
from penstock.engine.wakeups import Revision
from penstock.errors import FailedPreconditionError, PenstockError
from penstock.pubsub.inventory import Inventory
from penstock.pubsub.message import Message, Received
from penstock.pubsub.session import Session

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

PULL_MESSAGES = 500  # at once; more would keep the event loop from everybody else
WAIT_SECONDS = 30.0  # after that the subscription is looked at again, whatever happened
CHECK_SECONDS = 1.0  # how often a stream that is full looks whether its subscription is still there
RETRY_FIRST_SECONDS = 0.1
RETRY_LAST_SECONDS = 5.0


class Stream:
    def __init__(
        self,
        subscription: Subscription,
        session: Session,
        *,
        appetite: Callable[[], int],
        arrived: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._subscription = subscription
        self._session = session
        self._appetite = appetite  # how many the consumer can take at once
        self._arrived = arrived  # called when there is something in `ready`
        self._failed = failed
        self.ready: deque[Message] = deque()  # pulled, and not yet in the consumer's hands
        self.inventory = Inventory(session.clock, self.wake, subscription.settlement.hold)
        self.closing = False
        self._last_error: Exception | None = None
        self._retry_seconds = RETRY_FIRST_SECONDS
        self._resting: asyncio.Future[None] | None = None
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
            except Exception as error:  # noqa: BLE001 - a stream that ends without a word would look like an empty queue
                await self._after(error)

    async def _turn(self) -> None:
        queue, name = self._session.queue, self._subscription.name
        since = queue.revision(name)
        if since.detached:
            raise FailedPreconditionError(f"Subscription is detached, its topic was deleted: {name}")
        messages = self._room()
        if not messages:
            await (self._watch(since) if not self._appetite() else self._rest(CHECK_SECONDS))
            return
        lease_seconds = self._subscription.options.lease_seconds(since.options.lease_seconds)
        deliveries = await queue.pull(name, messages, lease_seconds=lease_seconds, max_bytes=self._free_bytes())
        if deliveries:
            self._receive(deliveries, lease_seconds)
            self._report_stuck(deliveries, since.options)
            await asyncio.sleep(0)  # those who work on them come first
        elif not self.closing:
            self._recovered()
            await self._wait(queue.wait_for_messages(name, WAIT_SECONDS, since))

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
        self.wake()

    async def _wait(self, something: Coroutine[Any, Any, bool]) -> None:
        self._waiting = True
        try:
            await something
        finally:
            self._waiting = False

    def _room(self) -> int:
        """How many messages may be pulled now."""
        flow, held = self._subscription.options.flow_control, self.inventory
        if self.closing or held.messages >= flow.max_messages or held.bytes >= flow.max_bytes:
            return 0
        most = flow.max_messages if flow.allow_excess_messages else flow.max_messages - held.messages
        return min(most, PULL_MESSAGES, self._appetite())

    def _free_bytes(self) -> int:
        flow = self._subscription.options.flow_control
        return 0 if flow.allow_excess_messages else flow.max_bytes - self.inventory.bytes

    def _receive(self, deliveries: list[Delivery], lease_seconds: float) -> None:
        self._recovered()
        settlement, now = self._subscription.settlement, self._session.clock.now()
        messages: list[Message] = [Received(delivery, settlement, now) for delivery in deliveries]
        self.inventory.max_extension_seconds = self._subscription.options.flow_control.max_extension_seconds
        self.inventory.add(messages, lease_seconds)
        self.ready.extend(messages)
        if self.closing:
            self.give_back()
        else:
            self._arrived()

    # ------------------------------------------------------------------ errors

    def _report_stuck(self, deliveries: list[Delivery], options: SubscriptionOptions) -> None:
        """Messages that come again because they have no dead letter topic to go to."""
        topic, most = options.dead_letter_topic, options.max_delivery_attempts
        if not topic or all(each.attempt <= most for each in deliveries) or self._session.queue.topic_exists(topic):
            return
        text = f"A message of {self._subscription.name} cannot be dead-lettered: there is no topic {topic}"
        self._subscription.report(FailedPreconditionError(text))

    async def _after(self, error: Exception) -> None:
        """Say it once, then try again after a while."""
        if str(error) != str(self._last_error):
            self._last_error = error
            self._failed(error)
        self._subscription.remark(f"trying again in {self._retry_seconds:g} s: {error}")
        await self._rest(self._retry_seconds)
        self._retry_seconds = min(2 * self._retry_seconds, RETRY_LAST_SECONDS)

    def _recovered(self) -> None:
        self._last_error, self._retry_seconds = None, RETRY_FIRST_SECONDS

    # ------------------------------------------------------------------ resting

    async def _rest(self, seconds: float = 0.0) -> None:
        """Until woken, or at most so long; 0 means for ever."""
        if self.closing:
            return
        alarm: Alarm | None = None
        if seconds:
            clock = self._session.clock
            alarm = clock.alarm(clock.now() + int(seconds * SECOND), self.wake)
        try:
            await self.pause()
        finally:
            if alarm is not None:
                alarm.cancel()

    async def pause(self) -> None:
        """Until woken."""
        self._resting = asyncio.get_running_loop().create_future()
        try:
            await self._resting
        finally:
            self._resting = None

    def wake(self) -> None:
        """Something changed: room, a listener, options."""
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    # ------------------------------------------------------------------ the end

    def give_back(self) -> None:
        """Return what the consumer has not seen yet."""
        while self.ready:
            self._subscription.settlement.put_back(self.ready.popleft())

    async def stop(self) -> None:
        """No more pulls; what has not been handed out goes back."""
        self.closing = True
        self.give_back()
        self.wake()
        if self._waiting:
            self._task.cancel()
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])
