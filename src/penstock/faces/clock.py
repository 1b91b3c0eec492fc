"""Clocks: where `now` comes from, and who is woken when a moment has come.

The rule kept here: time never jumps while the process lives. The system clock is read once, at the start; from
then on the monotonic clock carries it, so that a step of the wall clock ends no lease early or late. Whoever waits
for a moment waits on the clock, so that with a clock of its own a test waits for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from penstock.broker.model import SECOND


class Alarm(Protocol):
    def cancel(self) -> None:
        """Do not ring any more."""


class Clock(Protocol):
    def now(self) -> int:
        """Nanoseconds since 1970."""

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        """Call `ring` in the running event loop once `at` has come."""


class SystemClock:
    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return self._offset + time.monotonic_ns()

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        return asyncio.get_running_loop().call_later(max(0, at - self.now()) / SECOND, ring)


class ManualClock:
    """A clock that stands still until it is told to move: time in tests is an argument.

    `advance` rings the alarms that have come due, in their order; where an event loop is involved, call it there.
    """

    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self._now = now
        self._alarms: list[tuple[int, int, _ManualAlarm]] = []
        self._made = 0

    def now(self) -> int:
        return self._now

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        alarm = _ManualAlarm(ring)
        self._made += 1
        heappush(self._alarms, (at, self._made, alarm))
        return alarm

    def advance(self, seconds: float) -> None:
        until = self._now + int(seconds * SECOND)
        while self._alarms and self._alarms[0][0] <= until:
            at, _, alarm = heappop(self._alarms)
            self._now = max(self._now, at)
            if alarm.ring is not None:
                alarm.ring()
        self._now = until

    @property
    def alarms(self) -> int:
        """How many are set."""
        return sum(alarm.ring is not None for _, _, alarm in self._alarms)


class _ManualAlarm:
    def __init__(self, ring: Callable[[], object]) -> None:
        self.ring: Callable[[], object] | None = ring

    def cancel(self) -> None:
        self.ring = None


async def sleep_until(clock: Clock, at: int) -> None:
    """Until the clock says so."""
    come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.alarm(at, lambda: None if come.done() else come.set_result(None))
    try:
        await come
    finally:
        alarm.cancel()
