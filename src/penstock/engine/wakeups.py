"""The waiting room: who waits for messages, and who is called when some come.

The rule kept here: what was decided says who is called. A fact that lets something go calls as many waiters as it
lets messages go, first come first called; a fact that puts something off moves the one alarm of its subscription,
and the alarm calls one, who sees what has come due and so calls the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from penstock.broker import facts as f
from penstock.broker.model import FOREVER, SECOND
from penstock.broker.state import State
from penstock.broker.subscription import Subscription
from penstock.engine.clock import Alarm, Clock

MOMENT = SECOND // 1000  # an alarm for the past rings after this, lest two overdue things call each other for ever


class NextDue(NamedTuple):
    due: int
    alarm: Alarm


class WaitingRoom:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[int, OrderedDict[asyncio.Future[None], None]] = {}  # by subscription, first come first
        self._topics: dict[int, dict[int, None]] = {}  # topic -> subscriptions that somebody waits on
        self._alarms: dict[int, NextDue] = {}  # by subscription
        self._left_to_others: dict[int, tuple[int, int, int]] = {}  # subscription -> how it stood when all were called
        self.closed = False

    async def wait(self, subscription: Subscription, now: int, until: int) -> None:
        """Until called, or until the time is over."""
        if self.closed:
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        topic, number = subscription.topic, subscription.number
        self._waiting.setdefault(number, OrderedDict())[called] = None
        self._topics.setdefault(topic, {})[number] = None
        self.set_alarm(subscription, now)
        over = self._clock.alarm(until, partial(_call, called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.wake(number, 1)  # it was called and leaves all the same: the next one goes
            raise
        finally:
            over.cancel()
            self._leave(topic, number, called)

    def _leave(self, topic: int, subscription: int, called: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(subscription)
        if waiting is not None:
            waiting.pop(called, None)
        if not waiting:
            self._waiting.pop(subscription, None)
            self._left_to_others.pop(subscription, None)
            self._drop_alarm(subscription)
            subscriptions = self._topics.get(topic, {})
            subscriptions.pop(subscription, None)
            if not subscriptions:
                self._topics.pop(topic, None)

    def close(self) -> None:
        self.closed = True
        self.wake_everybody()

    # ------------------------------------------------------------------ who is called

    def heed(self, facts: Iterable[f.Fact], state: State, now: int) -> None:
        """Facts were decided: call whoever may go on because of them."""
        if not self._waiting:
            return
        for fact in facts:
            if type(fact) is f.Published:
                for number in list(self._topics.get(fact.topic, ())):
                    self.wake(number, fact.total)
            elif isinstance(fact, _CHANGES):
                self.wake_all(fact.subscription)
            elif isinstance(fact, _MOVES) and fact.subscription in self._waiting:
                subscription = state.subscriptions.get(fact.subscription)
                if subscription is not None:
                    self.wake(fact.subscription, _let_go(fact, subscription))
                    self.set_alarm(subscription, now)

    def wake(self, subscription: int, most: int) -> None:
        waiting = self._waiting.get(subscription)
        while waiting and most > 0:
            called, _ = waiting.popitem(last=False)
            most -= _call(called)

    def wake_everybody(self) -> None:
        for subscription in list(self._waiting):
            self.wake_all(subscription)

    def wake_all(self, subscription: int) -> None:
        """Something changed that may let any of its waiters go on."""
        if subscription in self._waiting:
            self.wake(subscription, len(self._waiting[subscription]))

    def pass_on(self, subscription: Subscription, now: int) -> None:
        """Someone has looked: call the next one if more is ready, or when it will be."""
        if subscription.number in self._waiting:
            if subscription.ready or len(subscription.lane_ready) > subscription.lanes_of_others:
                self.wake(subscription.number, 1)
            elif subscription.lanes_of_others:
                self._call_holders(subscription)
            self.set_alarm(subscription, now)

    def _call_holders(self, subscription: Subscription) -> None:
        """What is ready is another's: all look once. Two who may not have it must not call each other for ever."""
        seen = (subscription.stamp, subscription.settled, subscription.in_flight)
        if self._left_to_others.get(subscription.number) != seen:
            self._left_to_others[subscription.number] = seen
            self.wake_all(subscription.number)

    # ------------------------------------------------------------------ alarms

    def set_alarm(self, subscription: Subscription, now: int) -> None:
        """Somebody waits: ring when the subscription next has something due."""
        due, known = subscription.timers.next_due(), self._alarms.get(subscription.number)
        if due >= FOREVER or (known is not None and known.due <= due):
            return
        self._drop_alarm(subscription.number)
        alarm = self._clock.alarm(max(due, now + MOMENT), partial(self._ring, subscription.number))
        self._alarms[subscription.number] = NextDue(due, alarm)

    def _ring(self, subscription: int) -> None:
        del self._alarms[subscription]
        self.wake(subscription, 1)

    def _drop_alarm(self, subscription: int) -> None:
        next_due = self._alarms.pop(subscription, None)
        if next_due is not None:
            next_due.alarm.cancel()


_CHANGES = (f.Detached, f.Sought, f.SubscriptionChanged, f.SubscriptionDeleted)
_MOVES = (f.Acked, f.Adopted, f.Delayed, f.Delivered, f.Extended, f.Removed, f.Returned)


def _call(called: asyncio.Future[None]) -> bool:
    if called.done():
        return False
    called.set_result(None)
    return True


def _let_go(fact: f.Fact, subscription: Subscription) -> int:
    """How many messages a fact may have made available."""
    if isinstance(fact, f.Returned):
        return len(fact.offsets) if not fact.dues or min(fact.dues) <= fact.at else 0
    if isinstance(fact, f.Acked | f.Removed):
        options = subscription.options
        held_up = options.ordering or options.flow_max_messages or options.flow_max_bytes
        return len(fact.offsets) if held_up else 0
    return 0
