"""Messages for listeners: each call runs in a task, as many tasks as listeners wait for something.

A task whose listener returns at once takes the next message itself; only when it waits does another one start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from penstock.broker.model import SECOND
from penstock.pubsub.message import Received
from penstock.pubsub.reader import PULL_MESSAGES, Reader
from penstock.pubsub.session import Session

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

RETRY_FIRST_SECONDS = 0.1
RETRY_LAST_SECONDS = 5.0
TURN_MESSAGES = 100  # after so many in a row a worker lets others run
TURN = SECOND // 200  # and after so long, so that answers are stored and leases kept beside slow functions


class Listeners:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self.reader = Reader(subscription, session)
        self._starting = 0  # workers that begin in this turn of the loop
        self._spawn(self._pull())

    async def _pull(self) -> None:
        """Go on whatever happens: an error is reported once, and tried again until the reader closes."""
        reader, last_error, pause = self.reader, "", RETRY_FIRST_SECONDS
        while not reader.closing:
            try:
                await reader.pull(PULL_MESSAGES if self._subscription.listeners("message") else 0)
            except Exception as error:  # noqa: BLE001 - if it ended silently, that would look like an empty queue
                if str(error) != last_error:
                    last_error = str(error)
                    self._subscription.report(error)
                self._subscription.remark(f"trying again in {pause:g} s: {error}")
                if not reader.closing:
                    await reader.changed.wait(pause)
                pause = min(2 * pause, RETRY_LAST_SECONDS)
            else:
                last_error, pause = "", RETRY_FIRST_SECONDS
                if reader.ready:
                    self._look()
                    await asyncio.sleep(0)  # those who work on them come first

    # ------------------------------------------------------------------ workers

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._session.spawn(work)
        self.reader.workers.add(task)
        task.add_done_callback(self._leave)

    def _look(self) -> None:
        """Start a worker, and if it has to wait, more and more."""
        if self.reader.ready and not self._starting:
            self._start(1)

    def _start(self, workers: int) -> None:
        self._starting = workers
        for _ in range(workers):
            self._spawn(self._work())
        asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        """The workers just started have had their turn: they are done, or they all wait."""
        started, self._starting = self._starting, 0
        if self.reader.ready:
            self._start(min(2 * started, len(self.reader.ready)))

    def _leave(self, task: asyncio.Task[None]) -> None:
        self.reader.workers.discard(task)
        self.reader.in_hand.pop(task, None)
        self.reader.released.wake()
        self._look()  # it may have been cancelled by its listener while the others wait

    async def _work(self) -> None:
        reader, acks, clock = self.reader, self._subscription.acks, self._session.clock
        ready, held = reader.ready, reader.leases.held
        task, taken, until = asyncio.current_task(), 0, clock.now() + TURN
        assert task is not None
        while ready:
            message = ready.popleft()
            if message not in held:
                continue  # its lease has ended, it comes again
            reader.in_hand[task] = message
            calls = self._subscription.calls("message")
            if not calls:
                acks.put_back(message)
                reader.give_back()
                return
            await self._call(message, calls)
            taken += 1
            if message in held:  # no answer, and so no look at the clock
                message.left, acks.seen_at = True, clock.now()
            if not taken % TURN_MESSAGES or acks.seen_at >= until:
                reader.leases.catch_up()
                acks.outbox.flush()
                await asyncio.sleep(0)
                until = clock.now() + TURN

    async def _call(self, message: Received, calls: list[Callable[[Received], Any]]) -> None:
        try:
            for call in calls:
                result = call(message)
                if result is not None and isawaitable(result):
                    await result
        except asyncio.CancelledError:
            message.nack()
            raise
        except Exception as error:  # noqa: BLE001 - whatever a listener raises is the listener's, and is reported
            self._subscription.acks.failed(message)
            self._subscription.report(error)
