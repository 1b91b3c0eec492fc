"""Clocks: where `now` comes from.

The rule kept here: time never jumps while the process lives. The system clock is read once, at the start; from
then on the monotonic clock carries it, so that a step of the wall clock ends no lease early or late.
"""

from __future__ import annotations

import time
from typing import Protocol

from penstock.broker.model import SECOND


class Clock(Protocol):
    def now(self) -> int:
        """Nanoseconds since 1970."""


class SystemClock:
    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return self._offset + time.monotonic_ns()


class ManualClock:
    """A clock that stands still until it is told to move: time in tests is an argument."""

    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += int(seconds * SECOND)
