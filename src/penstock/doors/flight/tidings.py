"""News of published messages, for those who wait for more of them.

The rule kept here: whoever waits is called once, by the decision that may concern it, and looks for itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from penstock.broker.facts import Published, TopicDeleted


class Tidings:
    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], set[int]] = {}  # by the numbers of the topics that matter
        self.closed = False

    async def wait(self, topics: set[int], seconds: float) -> None:
        """Until one of the topics has more, or the time is over."""
        if self.closed:
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[called] = topics
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await called
        finally:
            self._waiting.pop(called, None)

    def on_fact(self, fact: Published | TopicDeleted) -> None:
        if self._waiting:
            self._call([each for each, topics in self._waiting.items() if fact.topic in topics])

    def close(self) -> None:
        self.closed = True
        self._call(list(self._waiting))

    def _call(self, waiting: list[asyncio.Future[None]]) -> None:
        for called in waiting:
            if not called.done():
                called.set_result(None)
