"""Clocks: the source of `now`, and alarms.

There are two times. Dates of others (a signature, a token) are compared with the wall clock. Durations and stored times
use `now`, which runs at the pace of real seconds and never goes back, even if the wall clock is set back. If the wall
clock is ahead, after a sleep or a correction, `now` catches up. Waiting goes through the clock, so that a test with a
manual clock does not wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Protocol
from weakref import WeakSet

from penstock.broker.model import FOREVER, SECOND
from penstock.errors import InvalidArgumentError

LOOK_EVERY = SECOND // 10  # how soon `now` follows a wall clock that was set forward
TURNS = 20  # turns of an event loop, more than from a wake-up to a message at a listener
STRETCH_SECONDS = 10.0  # an alarm looks at the clock this often, as a loop's timers do not count a sleep of the machine
EARLY_SECONDS = 0.001  # least wait of an alarm whose timer was early

log = logging.getLogger("penstock")

# Linux has a clock that goes on while the machine sleeps.
_elapsed: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)


class Alarm(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> int:
        """Return nanoseconds since 1970, for durations and stored times. The value never goes back."""

    def wall(self) -> int:
        """Return nanoseconds since 1970 by the wall clock, to compare with dates of others."""

    def not_before(self, at: int) -> None:
        """Move `now` to `at` if it is earlier, because a store has decisions of that time.

        Otherwise leases, delays and retention would last longer by the difference.
        """

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        """Call `ring` in the running event loop once `now` has reached `at`."""


class SystemClock:
    def __init__(self, wall: Callable[[], int] = time.time_ns, elapsed: Callable[[], int] = _elapsed) -> None:
        self.wall = wall
        self._elapsed = elapsed
        self._offset = wall() - elapsed()
        self._look_at = 0

    def now(self) -> int:
        elapsed = self._elapsed()
        if elapsed < self._look_at:
            return self._offset + elapsed
        self._look_at = elapsed + LOOK_EVERY
        self._follow()
        return self._offset + elapsed

    def _follow(self) -> None:
        offset = self.wall() - self._elapsed()  # in this order: a pause in between must not look like a step
        if offset - self._offset > SECOND:
            log.warning("the clock was set forward by %.1f s, and leases follow it", (offset - self._offset) / SECOND)
        self._offset = max(self._offset, offset)

    def not_before(self, at: int) -> None:
        self._offset = max(self._offset, at - self._elapsed())

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        return _SystemAlarm(self, at, ring)


class _SystemAlarm:
    def __init__(self, clock: SystemClock, at: int, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._at = at
        self._ring = ring
        self._wait(max(0, at - clock.now()) / SECOND)

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(min(seconds, STRETCH_SECONDS), self._look)

    def _look(self) -> None:
        """Ring if the instant has come. Timers of an event loop may be a little early, as they use another clock."""
        left = self._at - self._clock.now()
        if left <= 0:
            self._ring()
        else:
            self._wait(max(left / SECOND, EARLY_SECONDS))

    def cancel(self) -> None:
        self._timer.cancel()


class Alarms:
    """The alarms of a manual clock, in the order of their times."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _SetAlarm]] = []
        self._made = 0

    def add(self, at: int, ring: Callable[[], object]) -> Alarm:
        alarm = _SetAlarm(ring)
        self._made += 1
        heappush(self._heap, (at, self._made, alarm))
        return alarm

    def next_at(self) -> int:
        """Return the time of the next alarm. FOREVER: no alarm is set."""
        while self._heap and self._heap[0][2].ring is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else FOREVER

    def ring_next(self) -> None:
        ring = heappop(self._heap)[2].ring
        if ring is not None:
            ring()

    def __len__(self) -> int:
        """Return the number of alarms that are set."""
        return sum(alarm.ring is not None for _, _, alarm in self._heap)


class _SetAlarm:
    def __init__(self, ring: Callable[[], object]) -> None:
        self.ring: Callable[[], object] | None = ring

    def cancel(self) -> None:
        self.ring = None


class Follower(Protocol):
    def look_again(self) -> None:
        """Take note that the clock was moved by hand."""


class ManualClock:
    """A clock that stands still until a test moves it.

    `advance` rings the alarms that have become due, in their order. If an event loop is involved, call it there.
    """

    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self._now = now
        self._behind = 0  # how far the wall clock was set back
        self._alarms = Alarms()
        self.followers = WeakSet[Follower]()

    def now(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._now - self._behind

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back if negative. `now` reacts like that of a SystemClock."""
        self._behind -= int(seconds * SECOND)
        if self._behind < 0:
            ahead, self._behind = -self._behind, 0
            self.advance(ahead / SECOND)

    def not_before(self, at: int) -> None:
        ahead = max(0, at - self._now)
        self._now += ahead
        self._behind += ahead

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        return self._alarms.add(at, ring)

    def advance(self, seconds: float) -> None:
        self._move(self._after(seconds))

    def _after(self, seconds: float) -> int:
        if not 0 <= seconds < math.inf:
            raise InvalidArgumentError(f"Time is moved forward, not by {seconds} seconds")
        return self._now + int(seconds * SECOND)

    def _move(self, until: int) -> None:
        while (at := self._alarms.next_at()) <= until:
            self._now = max(self._now, at)
            self._alarms.ring_next()
        self._now = until
        for follower in list(self.followers):
            follower.look_again()

    async def pass_by(self, seconds: float) -> None:
        """Advance the clock for programs in the running loop.

        The loop runs at each alarm before time moves on, so that a listener acts at the time of its alarm, not at the
        end.
        """
        until = self._after(seconds)
        await turns()
        while (at := self._alarms.next_at()) <= until:
            self._move(max(at, self._now))
            await turns()
        self._move(until)
        await turns()

    @property
    def alarms(self) -> int:
        """The number of alarms that are set."""
        return len(self._alarms)


async def turns(count: int = TURNS) -> None:
    """Let the loop run everything that is ready, and everything that becomes ready by it."""
    for _ in range(count):
        await asyncio.sleep(0)


async def sleep_until(clock: Clock, at: int) -> None:
    reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.alarm(at, lambda: None if reached.done() else reached.set_result(None))
    try:
        await reached
    finally:
        alarm.cancel()
