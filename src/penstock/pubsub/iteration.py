"""Messages for `async for`, one after the other.

It pulls only when it is asked for more than it has, and no more than its caller gets through well within a lease; what
was pulled and not asked for goes back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.model import SECOND
from penstock.pubsub.message import Received
from penstock.pubsub.reader import PULL_MESSAGES, Reader
from penstock.pubsub.session import Session, Signal

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

SOON = SECOND  # who gets through a pull within this time may have twice as much


class Iteration:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._clock = session.clock
        self._task = asyncio.current_task()
        self._arrived = Signal(session.clock)
        self._wanted = 0
        self._portion = 1
        self._pulled_at = self._clock.now()
        self._error: Exception | None = None
        self._last: Received | None = None
        self.reader = Reader(subscription, session, self)

    def wanted(self) -> int:
        return self._wanted

    def look(self) -> None:
        self._arrived.wake()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._arrived.wake()

    async def next(self) -> Received | None:
        """The next message; None when the subscription was closed."""
        self.leave_last()
        reader = self.reader
        while True:
            while reader.ready:
                message = reader.ready.popleft()
                if message in reader.leases.held:
                    self._last = message
                    if self._task is not None:
                        reader.in_hand[self._task] = message
                    return message
            if self._error is not None:
                raise self._error
            if reader.closing:
                return None
            await self._pull()

    def leave_last(self) -> None:
        """What was handed out last is not worked on any more."""
        if self._last is not None:
            self._last.left = True

    async def _pull(self) -> None:
        quick = self._clock.now() - self._pulled_at < SOON
        self._portion = min(2 * self._portion, PULL_MESSAGES) if quick else max(1, self._portion // 2)
        self._wanted = self._portion
        self.reader.changed.wake()
        try:
            await self._arrived.wait()
        finally:
            self._wanted, self._pulled_at = 0, self._clock.now()
