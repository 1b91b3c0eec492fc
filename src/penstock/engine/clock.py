"""Clocks: where `now` comes from, and who is woken when a moment has come.

There are two times. What others have dated (a signature, a token) is compared with the wall clock, read each
time. What lasts and what is stored goes by `now`: at the pace of real seconds and never back, however the wall clock is
set; only when the wall is ahead, after a sleep or a correction, it catches up. Whoever waits for a moment waits on the
clock, so that with a clock of its own a test waits for nothing.
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
TURNS = 20  # of an event loop, from a wake-up to a message in a listener's hands, with some to spare
STRETCH_SECONDS = 10.0  # the timers of a loop do not count a sleep: an alarm looks at the clock at least so often

log = logging.getLogger("penstock")

# Linux has a clock that goes on while the machine sleeps.
_elapsed: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)


class Alarm(Protocol):
    def cancel(self) -> None:
        """Do not ring any more."""


class Clock(Protocol):
    def now(self) -> int:
        """Nanoseconds since 1970, for what lasts and what is stored: it never goes back."""

    def wall(self) -> int:
        """Nanoseconds since 1970, as everybody else's clock shows them: for what others have dated."""

    def not_before(self, at: int) -> None:
        """`now` goes on from `at`, if it is not that far: a store knows of things that were decided then.

        Otherwise all that was to last until then, leases, delays, what is retained, would last longer by as much.
        """

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        """Call `ring` in the running event loop once `now` has come to `at`."""


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
            log.warning("the clock was set forward by %.1f s: leases go by it", (offset - self._offset) / SECOND)
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
        self._wait()

    def _wait(self) -> None:
        left = max(0, self._at - self._clock.now()) / SECOND
        go_on = self._ring if left <= STRETCH_SECONDS else self._wait
        self._timer = asyncio.get_running_loop().call_later(min(left, STRETCH_SECONDS), go_on)

    def cancel(self) -> None:
        self._timer.cancel()


class Alarms:
    """Alarms of a clock that is moved by hand, in the order of their times."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _SetAlarm]] = []
        self._made = 0

    def add(self, at: int, ring: Callable[[], object]) -> Alarm:
        alarm = _SetAlarm(ring)
        self._made += 1
        heappush(self._heap, (at, self._made, alarm))
        return alarm

    def next_at(self) -> int:
        """When the next one rings; FOREVER if none is set."""
        while self._heap and self._heap[0][2].ring is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else FOREVER

    def ring_next(self) -> None:
        ring = heappop(self._heap)[2].ring
        if ring is not None:
            ring()

    def __len__(self) -> int:
        """How many are set."""
        return sum(alarm.ring is not None for _, _, alarm in self._heap)


class _SetAlarm:
    def __init__(self, ring: Callable[[], object]) -> None:
        self.ring: Callable[[], object] | None = ring

    def cancel(self) -> None:
        self.ring = None


class Follower(Protocol):
    def look_again(self) -> None:
        """The clock was moved by hand."""


class ManualClock:
    """A clock that stands still until it is told to move: time in tests is an argument.

    `advance` rings the alarms that have come due, in their order; where an event loop is involved, call it there.
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
        """The wall clock is set forward, or back if negative; `now` does what that of a SystemClock does."""
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
        for each in list(self.followers):
            each.look_again()

    async def pass_by(self, seconds: float) -> None:
        """The same for programs in the running loop, which see every moment as it comes.

        At each alarm the loop gets its turns before time goes on, so that a listener that is woken at one moment acts
        at that moment, not at the end.
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
        """How many are set."""
        return len(self._alarms)


async def turns(count: int = TURNS) -> None:
    """Let everything that is ready in the loop run, and what that makes ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def sleep_until(clock: Clock, at: int) -> None:
    """Until the clock says so."""
    come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.alarm(at, lambda: None if come.done() else come.set_result(None))
    try:
        await come
    finally:
        alarm.cancel()
