"""The workers that call listeners, each a task.

If a listener returns without waiting, its worker takes the next message. If the listener waits, another worker starts.
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
TURN_MESSAGES = 100  # messages after which a worker lets other tasks run
TURN = SECOND // 200  # time after which it does, so that answers are stored and leases extended in time


class Listeners:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self.reader = Reader(subscription, session)
        self._starting = 0  # workers that start in this turn of the event loop
        self._spawn(self._pull())

    async def _pull(self) -> None:
        """Pull until the reader closes. After an error, report it once and retry."""
        reader, last_error, pause = self.reader, "", RETRY_FIRST_SECONDS
        while not reader.closing:
            try:
                await reader.pull(PULL_MESSAGES if self._subscription.listeners("message") else 0)
            except Exception as error:  # noqa: BLE001 - ending silently would look like an empty queue
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
                    await asyncio.sleep(0)  # the workers run first

    # ------------------------------------------------------------------ workers

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._session.spawn(work)
        self.reader.workers.add(task)
        task.add_done_callback(self._leave)

    def _look(self) -> None:
        """Start a worker. If it has to wait, more workers start, doubling each turn."""
        if self.reader.ready and not self._starting:
            self._start(1)

    def _start(self, workers: int) -> None:
        self._starting = workers
        for _ in range(workers):
            self._spawn(self._work())
        asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        """Start more workers if messages are left. The workers of the last start are done or all wait."""
        started, self._starting = self._starting, 0
        if self.reader.ready:
            self._start(min(2 * started, len(self.reader.ready)))

    def _leave(self, task: asyncio.Task[None]) -> None:
        self.reader.workers.discard(task)
        self.reader.in_hand.pop(task, None)
        self.reader.released.wake()
        self._look()  # its listener may have cancelled it while the others wait

    async def _work(self) -> None:
        reader, acks, clock = self.reader, self._subscription.acks, self._session.clock
        ready, held = reader.ready, reader.leases.held
        task, taken, until = asyncio.current_task(), 0, clock.now() + TURN
        assert task is not None
        while ready:
            message = ready.popleft()
            if message not in held:
                continue  # its lease has ended, so it is redelivered
            reader.in_hand[task] = message
            calls = self._subscription.calls("message")
            if not calls:
                acks.put_back(message)
                reader.give_back()
                return
            await self._call(message, calls)
            taken += 1
            if message in held:  # an answer would have set `seen_at`
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
        except Exception as error:  # noqa: BLE001 - a listener can raise anything
            self._subscription.acks.fail(message)
            self._subscription.report(error)
