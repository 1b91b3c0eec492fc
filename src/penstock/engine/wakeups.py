"""Waiting for messages: the waiters of each subscription, and the facts that wake them.

A fact that makes N messages available wakes N waiters, first come first served. A fact that delays messages moves the
one alarm of its subscription. The alarm wakes one waiter, whose pull then wakes others if more messages are due.
Waiters belong to one event loop. Facts may be decided in any thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

from penstock.broker import facts as f
from penstock.broker.model import FOREVER, SECOND, SubscriptionOptions
from penstock.broker.state import State
from penstock.broker.subscription import Subscription
from penstock.engine.clock import Alarm
from penstock.engine.engine import Engine, in_loop

MOMENT = SECOND // 1000  # delay of an alarm for the past, so that two overdue messages do not wake each other for ever

_CHANGES = (f.Detached, f.Sought, f.SubscriptionChanged, f.SubscriptionDeleted)
_MOVES = (f.Acked, f.Adopted, f.Delayed, f.Delivered, f.Extended, f.Removed, f.Returned)


class Revision(NamedTuple):
    """A value that changes whenever a pull might find other messages.

    A consumer whose pull found no message waits only if the value is still the same. There is a commit between the
    pull and the wait, and a message published during that commit would wake no waiter.
    """

    tail: int  # a publish moves it
    settled: int  # an ack moves it
    in_flight: int  # a nack or the end of a lease moves it
    cursor: int  # a seek moves it
    detached: bool
    options: SubscriptionOptions


def revision(state: State, name: str) -> Revision:
    subscription = state.subscription(name)
    topic = state.read_topic(subscription)
    return Revision(
        topic.tail if topic is not None else 0,
        subscription.settled,
        subscription.in_flight,
        subscription.cursor,
        subscription.detached,
        subscription.options,
    )


class NextDue(NamedTuple):
    due: int
    alarm: Alarm


class Wakeups:
    def __init__(self, engine: Engine) -> None:
        """Attach to the running event loop."""
        self._engine = engine
        self._waiting: dict[int, OrderedDict[asyncio.Future[None], None]] = {}  # by subscription, first come first
        self._topics: dict[int, dict[int, None]] = {}  # topic -> its subscriptions with waiters
        self._alarms: dict[int, NextDue] = {}  # by subscription
        self._left_to_others: dict[int, tuple[int, int, int]] = {}  # subscription -> its revision when all were woken
        self.stopped = False
        self._listeners = [
            engine.on([f.Published], in_loop(self._on_published)),
            engine.on([*_CHANGES, *_MOVES], in_loop(self._on_fact)),
            engine.on_reset(in_loop(self.wake_all_waiters)),  # lost leases may be free again
        ]

    def close(self) -> None:
        for listener in self._listeners:
            self._engine.off(listener)

    def stop(self) -> None:
        """Wake all waiters and refuse new ones."""
        self.stopped = True
        self.wake_all_waiters()

    async def wait(
        self, name: str, until: int, since: Revision | None, called: asyncio.Future[None] | None = None
    ) -> bool:
        """Wait until there may be a message to pull. Return False when the time is over or waiting was stopped.

        `called`: a future of the caller, with which it can end the wait.
        """
        engine = self._engine
        with engine.lock:  # later decisions wake this waiter
            now, subscription = engine.now(), engine.broker.state.subscription(name)
            if until <= now or subscription.detached or self._is_over():
                return False
            if since is not None and since != revision(engine.broker.state, name):
                return True
            called = called if called is not None else asyncio.get_running_loop().create_future()
            topic, number = subscription.topic, subscription.number
            self._waiting.setdefault(number, OrderedDict())[called] = None
            self._topics.setdefault(topic, {})[number] = None
            self._set_alarm(subscription)
        over = engine.clock.alarm(until, partial(_call, called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.wake(number, 1)  # it was woken but leaves, so the next waiter is woken
            raise
        finally:
            over.cancel()
            self._leave(topic, number, called)
        return not self._is_over()

    def _is_over(self) -> bool:
        return self.stopped or self._engine.closed

    def _leave(self, topic: int, subscription: int, called: asyncio.Future[None]) -> None:
        with self._engine.lock:
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

    # ------------------------------------------------------------------ waking waiters

    def _on_published(self, fact: f.Published) -> None:
        for number in list(self._topics.get(fact.topic, ())):
            self.wake(number, fact.total)

    def _on_fact(self, fact: Any) -> None:
        if fact.subscription not in self._waiting:
            return
        if isinstance(fact, _CHANGES):
            self.wake_all(fact.subscription)
            return
        with self._engine.lock:
            subscription = self._engine.broker.state.subscriptions.get(fact.subscription)
            if subscription is not None:
                self.wake(fact.subscription, _available(fact, subscription))
                self._set_alarm(subscription)

    def wake(self, subscription: int, most: int) -> None:
        waiting = self._waiting.get(subscription)
        while waiting and most > 0:
            called, _ = waiting.popitem(last=False)
            most -= _call(called)

    def wake_next(self, name: str) -> None:
        subscription = self._engine.broker.state.subscription_names.get(name)
        if subscription is not None:
            self.wake(subscription.number, 1)

    def wake_all(self, subscription: int) -> None:
        """Wake all waiters of a subscription, because a change may let any of them continue."""
        if subscription in self._waiting:
            self.wake(subscription, len(self._waiting[subscription]))

    def waited_for(self) -> list[int]:
        """Return the subscriptions with waiters."""
        return list(self._waiting)

    def wake_all_waiters(self) -> None:
        for subscription in list(self._waiting):
            self.wake_all(subscription)

    def pass_on(self, subscription: Subscription) -> None:
        """Wake the next waiter after a pull if more messages are ready, or set the alarm for it."""
        if subscription.number in self._waiting:
            if subscription.ready or len(subscription.lane_ready) > subscription.lanes_of_others:
                self.wake(subscription.number, 1)
            elif subscription.lanes_of_others:
                self._wake_holders(subscription)
            self._set_alarm(subscription)

    def _wake_holders(self, subscription: Subscription) -> None:
        """Let all waiters pull once when the ready messages may belong to another holder.

        Two waiters that cannot have the messages must not wake each other forever.
        """
        seen = (subscription.stamp, subscription.settled, subscription.in_flight)
        if self._left_to_others.get(subscription.number) != seen:
            self._left_to_others[subscription.number] = seen
            self.wake_all(subscription.number)

    # ------------------------------------------------------------------ alarms

    def _set_alarm(self, subscription: Subscription) -> None:
        """Set the alarm for the next time at which a message of the subscription is due."""
        due, known = subscription.timers.next_due(), self._alarms.get(subscription.number)
        if due >= FOREVER or (known is not None and known.due <= due):
            return
        self._drop_alarm(subscription.number)
        clock = self._engine.clocks.of_topic(subscription.topic_name)
        if due <= clock.now():
            clock = self._engine.clock  # the clock of a namespace may stand still
            at = clock.now() + MOMENT
        else:
            at = due
        self._alarms[subscription.number] = NextDue(due, clock.alarm(at, partial(self._ring, subscription.number)))

    def _ring(self, subscription: int) -> None:
        del self._alarms[subscription]
        self.wake(subscription, 1)

    def _drop_alarm(self, subscription: int) -> None:
        next_due = self._alarms.pop(subscription, None)
        if next_due is not None:
            next_due.alarm.cancel()


def _call(called: asyncio.Future[None]) -> bool:
    if called.done():
        return False
    called.set_result(None)
    return True


def _available(fact: f.Fact, subscription: Subscription) -> int:
    """Return how many messages a fact may have made available."""
    if isinstance(fact, f.Returned):
        return len(fact.offsets) if not fact.dues or min(fact.dues) <= fact.at else 0
    if isinstance(fact, f.Acked | f.Removed):
        options = subscription.options
        held_up = options.ordering or options.flow_max_messages or options.flow_max_bytes
        return len(fact.offsets) if held_up else 0
    return 0
