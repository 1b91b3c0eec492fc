"""How a consumer ends: at once, or after those who work on messages are done.

The rule kept here: when closing is over, nothing of the consumer is left. Every message it held is answered, and the
answer is in the queue, or its lease has ended; no task of it runs. Only a listener that itself waits for the end is
excused, with the message it has in hand.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from penstock.broker.model import SECOND
from penstock.engine.clock import Alarm
from penstock.pubsub.message import Message
from penstock.pubsub.options import WAIT, ConsumerOptions
from penstock.pubsub.session import Session
from penstock.pubsub.stream import Stream


class Consumer(Protocol):
    @property
    def stream(self) -> Stream: ...

    def at_work(self) -> set[asyncio.Task[None]]:
        """Tasks that are busy with messages."""

    def in_hand(self, task: asyncio.Task[Any]) -> list[Message]:
        """Messages that this task is busy with."""


class Closing:
    def __init__(self, consumer: Consumer, session: Session, options: ConsumerOptions) -> None:
        self._consumer = consumer
        self._session = session
        self._options = options
        self._excused: set[asyncio.Task[Any]] = set()
        self._time_is_over = False

    def excuse(self, task: asyncio.Task[Any] | None) -> None:
        """Somebody waits for the end, and so cannot be waited for."""
        if task is not None:
            self._excused.add(task)
            self._consumer.stream.wake()

    async def run(self) -> None:
        await self._consumer.stream.stop()
        if self._options.close_behavior == WAIT:
            await self._wait()
        excused = {message for task in self._excused for message in self._consumer.in_hand(task)}
        for message in self._consumer.stream.inventory.clear():
            if message not in excused:
                message.nack()
        await self._dismiss(self._consumer.at_work() - self._excused)

    async def _wait(self) -> None:
        alarm = self._set_alarm()
        while not self._time_is_over and self._is_busy():
            await self._consumer.stream.pause()
        if alarm is not None:
            alarm.cancel()

    def _is_busy(self) -> bool:
        excused = sum(len(self._consumer.in_hand(task)) for task in self._excused)
        held = self._consumer.stream.inventory.messages
        return held > excused or bool(self._consumer.at_work() - self._excused)

    def _set_alarm(self) -> Alarm | None:
        seconds, clock = self._options.close_timeout_seconds, self._session.clock
        if seconds is None:
            return None
        return clock.alarm(clock.now() + int(seconds * SECOND), self._end)

    def _end(self) -> None:
        self._time_is_over = True
        self._consumer.stream.wake()

    async def _dismiss(self, workers: set[asyncio.Task[None]]) -> None:
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
