"""The waiting room: who waits for messages, and who is called when some come.

The rule kept here: a publish looks only at subscriptions somebody waits on, and wakes no more waiters than there
are messages for them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from penstock.broker.topic import Topic


class WaitingRoom:
    def __init__(self) -> None:
        self._waiting: dict[int, OrderedDict[asyncio.Future[None], None]] = {}  # by subscription, first come first
        self._topics: dict[int, dict[int, None]] = {}  # topic -> subscriptions that somebody waits on
        self._closed = False

    async def wait(self, topic: int, subscription: int, seconds: float) -> None:
        """Until called or `seconds` have passed."""
        if self._closed:
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subscription, OrderedDict())[called] = None
        self._topics.setdefault(topic, {})[subscription] = None
        try:
            async with asyncio.timeout(seconds):
                await called
        except TimeoutError:
            pass  # the time is over: the caller looks for itself
        finally:
            self._leave(topic, subscription, called)

    def _leave(self, topic: int, subscription: int, called: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(subscription)
        if waiting is not None:
            waiting.pop(called, None)
        if not waiting:
            self._waiting.pop(subscription, None)
            subscriptions = self._topics.get(topic, {})
            subscriptions.pop(subscription, None)
            if not subscriptions:
                self._topics.pop(topic, None)

    def wake_readers(self, topic: Topic, messages: int) -> None:
        """Messages were published: call as many waiters of each subscription."""
        for subscription in list(self._topics.get(topic.number, ())):
            self._wake(subscription, messages)

    def wake_all(self, subscription: int) -> None:
        """Something changed that may let any of its waiters go on."""
        if subscription in self._waiting:
            self._wake(subscription, len(self._waiting[subscription]))

    def close(self) -> None:
        self._closed = True
        for subscription in list(self._waiting):
            self.wake_all(subscription)

    def _wake(self, subscription: int, most: int) -> None:
        waiting = self._waiting.get(subscription)
        while waiting and most > 0:
            called, _ = waiting.popitem(last=False)
            if not called.done():
                called.set_result(None)
                most -= 1
