"""Watch: the facts of some topics while their clock is moved, and their deliveries without an answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.broker import facts as f
from penstock.engine.engine import Engine, in_loop

GIVEN_MAX = 10  # deliveries of one message at one stop, because a message that is always returned would have no end

_SETTLED = (f.Acked, f.Removed, f.Returned)
_ENDED = (f.Detached, f.Sought, f.SubscriptionDeleted)


class Watch:
    def __init__(self, engine: Engine, includes: Callable[[str], bool]) -> None:
        """Watch in the running event loop until `close`. `includes`: whether to watch a topic, by its name."""
        self._engine = engine
        self._includes = includes
        self.fact_count = 0
        self.given: dict[tuple[int, int], int] = {}  # subscription and offset -> stamp
        self._times: Counter[tuple[int, int]] = Counter()  # number of deliveries at this stop
        self._changed = asyncio.Event()
        self._listeners = [
            engine.on([f.Published], in_loop(self._on_published)),
            engine.on([f.Delivered, *_SETTLED, *_ENDED], in_loop(self._on_fact)),
        ]

    def close(self) -> None:
        for listener in self._listeners:
            self._engine.off(listener)

    def begin_stop(self) -> None:
        """Start counting the deliveries of a new stop."""
        self._times.clear()

    async def makes_progress(self, seconds: float) -> bool:
        """Return whether any watched delivery changes within this many real seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _on_published(self, fact: f.Published) -> None:
        topic = self._engine.broker.state.topics.get(fact.topic)
        self.fact_count += topic is not None and self._includes(topic.name)

    def _on_fact(self, fact: Any) -> None:
        number = fact.subscription
        subscription = self._engine.broker.state.subscriptions.get(number)
        if subscription is not None and not self._includes(subscription.topic_name):
            return
        self.fact_count += 1
        if type(fact) is f.Delivered:
            messages = [(number, offset) for offset in fact.offsets]
            self._times.update(messages)
            self.given.update({message: fact.stamp for message in messages if self._times[message] <= GIVEN_MAX})
        elif isinstance(fact, _SETTLED):
            for offset in fact.offsets:
                self.given.pop((number, offset), None)
        else:
            self.given = {message: stamp for message, stamp in self.given.items() if message[0] != number}
        self._changed.set()
