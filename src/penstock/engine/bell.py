"""The bell: it calls tasks of one event loop when any thread decided something they wait for.

The rule kept here: threads only note whom a decision concerns; futures are touched in their loop and nowhere else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from penstock.broker import facts as f
from penstock.broker.state import State
from penstock.engine.clock import Clock


class Call(NamedTuple):
    """Somebody who waits."""

    topic: int
    subscription: int
    future: asyncio.Future[None]


class Bell:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._clock = clock
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}  # by subscription
        self._topics: dict[int, set[int]] = {}  # topic -> subscriptions that somebody waits on

    def listen(self, topic: int, subscription: int) -> Call:
        """From now on a decision about this subscription is noticed; `wait` must follow at once."""
        call = Call(topic, subscription, self._loop.create_future())
        self._waiting.setdefault(subscription, set()).add(call.future)
        self._topics.setdefault(topic, set()).add(subscription)
        return call

    async def wait(self, call: Call, until: int) -> None:
        over = self._clock.alarm(until, partial(_call, call.future))
        try:
            await call.future
        finally:
            over.cancel()
            self._leave(*call)

    def _leave(self, topic: int, subscription: int, called: asyncio.Future[None]) -> None:
        waiting = self._waiting[subscription]
        waiting.discard(called)
        if not waiting:
            del self._waiting[subscription]
            self._topics[topic].discard(subscription)
            if not self._topics[topic]:
                del self._topics[topic]

    # ------------------------------------------------------------------ from any thread

    def heed(self, facts: Sequence[f.Fact], state: State, now: int) -> None:
        concerned: set[int] = set()
        for fact in facts:
            if isinstance(fact, f.Published):
                concerned.update(tuple(self._topics.get(fact.topic, ())))
            elif isinstance(fact, _CONCERNS):
                concerned.add(fact.subscription)
        if concerned:
            self._in_loop(partial(self._ring, concerned))

    def close(self) -> None:
        self._in_loop(lambda: self._ring(list(self._waiting)))

    def _in_loop(self, action: Callable[[], object]) -> None:
        if threading.get_ident() == self._thread:
            action()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)

    def _ring(self, subscriptions: Iterable[int]) -> None:
        for subscription in subscriptions:
            for called in tuple(self._waiting.get(subscription, ())):
                _call(called)


# What may let the waiters of a subscription go on, or tell them that there is no point in waiting.
_CONCERNS = (
    f.Acked,
    f.Delayed,
    f.Detached,
    f.Removed,
    f.Returned,
    f.Sought,
    f.SubscriptionChanged,
    f.SubscriptionDeleted,
)


def _call(called: asyncio.Future[None]) -> None:
    if not called.done():
        called.set_result(None)
