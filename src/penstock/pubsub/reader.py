"""The reader: messages for `async for`, one after the other.

The rule kept here: it pulls only when it is asked for more than it has, and no more than its caller gets through well
within a lease; what was pulled and not asked for goes back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.broker.model import SECOND
from penstock.pubsub.message import Message
from penstock.pubsub.session import Session
from penstock.pubsub.stream import PULL_MESSAGES, Stream

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

SOON = SECOND  # who gets through a pull within this time may have twice as much


class Reader:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._clock = session.clock
        self._task = asyncio.current_task()
        self._asked: asyncio.Future[None] | None = None  # somebody waits for a message
        self._error: Exception | None = None
        self._portion = 1
        self._pulled_at = self._clock.now()
        self._last: Message | None = None
        self.stream = Stream(
            subscription,
            session,
            appetite=lambda: self._portion if self._asked is not None else 0,
            arrived=self._answer,
            failed=self._fail,
        )

    async def next(self) -> Message | None:
        """The next message; None when the subscription was closed."""
        self.leave_last()
        while True:
            while self.stream.ready:
                self._last = self.stream.ready.popleft()
                if self._last._shelf is not None:
                    return self._last
            if self._error is not None:
                raise self._error
            if self.stream.closing:
                return None
            await self._ask()

    def leave_last(self) -> None:
        """Nobody works any more on what was handed out last."""
        if self._last is not None:
            self._last._left = True

    async def _ask(self) -> None:
        now = self._clock.now()
        quick = now - self._pulled_at < SOON
        self._portion = min(2 * self._portion, PULL_MESSAGES) if quick else max(1, self._portion // 2)
        self._asked = asyncio.get_running_loop().create_future()
        self.stream.wake()
        try:
            await self._asked
        finally:
            self._asked, self._pulled_at = None, self._clock.now()

    def _answer(self) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._answer()

    # ------------------------------------------------------------------ the end

    def at_work(self) -> set[asyncio.Task[None]]:
        self._answer()  # a loop that waits for more ends by itself
        return set()

    def in_hand(self, task: asyncio.Task[Any]) -> list[Message]:
        mine = task is self._task and self._last is not None and self._last._shelf is not None
        return [self._last] if mine and self._last is not None else []
