"""The crew: tasks that hand messages to the listeners, as many as have something to wait for.

The rule kept here: a listener runs in a task of the crew, so that it may wait without holding up anybody. A worker
whose listener returns at once takes the next message itself; only when it waits does another worker start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from penstock.broker.model import SECOND
from penstock.pubsub.message import Message
from penstock.pubsub.session import Session
from penstock.pubsub.stream import PULL_MESSAGES, Stream

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

SHIFT_MESSAGES = 100  # after so many in a row a worker lets others run
SHIFT = SECOND // 200  # and after so long, so that answers are stored and leases kept beside slow functions


class Crew:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self.stream = Stream(
            subscription,
            session,
            appetite=lambda: PULL_MESSAGES if subscription.listeners("message") else 0,
            arrived=self._staff,
            failed=subscription.report,
        )
        self._workers: dict[asyncio.Task[None], list[Message]] = {}  # with the message each has in hand
        self._starting = 0  # workers that begin in this turn of the loop

    # ------------------------------------------------------------------ working

    def _staff(self) -> None:
        """There is something to do: start one, and if it has to wait, more and more."""
        if not self._starting:
            self._start(1)

    def _start(self, workers: int) -> None:
        self._starting = workers
        for _ in range(workers):
            in_hand: list[Message] = []
            task = self._session.spawn(self._work(in_hand))
            self._workers[task] = in_hand
            task.add_done_callback(self._leave)
        asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        """The workers just started have had their turn: they are done, or they all wait."""
        started, self._starting = self._starting, 0
        if self.stream.ready:
            self._start(min(2 * started, len(self.stream.ready)))

    def _leave(self, task: asyncio.Task[None]) -> None:
        del self._workers[task]
        self.stream.wake()
        if self.stream.ready:
            self._staff()  # it was cancelled by its listener, and the others wait

    async def _work(self, in_hand: list[Message]) -> None:
        ready, calls = self.stream.ready, self._subscription.calls
        clock, settlement, taken = self._session.clock, self._subscription.settlement, 0
        until = clock.now() + SHIFT
        while ready:
            message = ready.popleft()
            if message._shelf is None:
                continue  # its lease has ended, it comes again
            in_hand[:] = (message,)
            handlers = calls("message")
            if not handlers:
                self._nobody_listens(message)
                return
            await self._hand_over(message, handlers)
            taken += 1
            if message._shelf is not None:  # no answer, and so no look at the clock
                message._left, settlement.seen_at = True, clock.now()
            if not taken % SHIFT_MESSAGES or settlement.seen_at >= until:
                self.stream.inventory.catch_up()
                settlement.flush()
                await asyncio.sleep(0)
                until = clock.now() + SHIFT
        in_hand.clear()

    async def _hand_over(self, message: Message, handlers: list[Callable[[Message], Any]]) -> None:
        try:
            for handler in handlers:
                result = handler(message)
                if result is not None and isawaitable(result):
                    await result
        except asyncio.CancelledError:
            message.nack()
            raise
        except Exception as error:  # noqa: BLE001 - whatever a listener raises is the listener's, and is reported
            self._subscription.settlement.failed(message)
            self._subscription.report(error)

    def _nobody_listens(self, message: Message) -> None:
        self._subscription.settlement.put_back(message)
        self.stream.give_back()

    # ------------------------------------------------------------------ the end

    def at_work(self) -> set[asyncio.Task[None]]:
        return set(self._workers)

    def in_hand(self, task: asyncio.Task[Any]) -> list[Message]:
        """What a task is working on, if it is one of the crew."""
        return [message for message in self._workers.get(task, ()) if message._shelf is not None]
