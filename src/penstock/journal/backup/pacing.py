"""Pauses of a backup between slices, which leave the disk and the processors to a server beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

REST = 2  # seconds of rest for each second of work
REST_SECONDS_MAX = 0.2  # after one slice
_WAITS = Path("/proc/self/schedstat")  # Linux: nanoseconds run, nanoseconds waited for a processor, turns


def work_seconds() -> float:
    """Return a clock that runs while this process computes or waits for its disk, and stands still while other
    processes have the processors. Without such a clock, the time that this process has computed."""
    try:
        waited = int(_WAITS.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return time.process_time()
    return time.monotonic() - waited / 1e9


class Pace:
    """The pauses of one backup. It pauses only if the store got commits meanwhile. The length depends on the backup's
    own work, because on a busy machine a slice takes longer without more work."""

    def __init__(
        self,
        last_commit: Callable[[], int],
        work: Callable[[], float] = work_seconds,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._last_commit, self._work, self._sleep = last_commit, work, sleep
        self._commit, self._since = last_commit(), work()

    def rest(self) -> None:
        commit, worked = self._last_commit(), self._work() - self._since
        if commit != self._commit and worked > 0:
            self._sleep(min(worked * REST, REST_SECONDS_MAX))
        self._commit, self._since = self._last_commit(), self._work()
