"""Memory of the process: what is free goes back to the system when the server is quiet; cycles are looked for rarely.

What is freed stays with the C library, for the next time: after a run of many clients that was a third of the process.
Nothing is given back while there is work, because that costs time and so does getting it again.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable

TICK_SECONDS = 5.0
QUIET_SHARE = 0.05  # of a processor; a server that uses less is quiet
WORK_SECONDS = 1.0  # of processor time since memory was last given back, else there is nothing to give
COLLECT_AFTER = (50_000, 20, 100)  # new objects before the cyclic collector looks; Python's own first number is 700


def calm_collector() -> None:
    """Let the cyclic collector look rarely: what passes through a broker holds no cycles, its counts free it."""
    gc.set_threshold(*COLLECT_AFTER)


class Trimming:
    """Says when to give memory back."""

    def __init__(self, cpu_seconds: float) -> None:
        self._before = cpu_seconds
        self._worked = 0.0

    def due(self, cpu_seconds: float) -> bool:
        """Asked once a tick, with the processor time used since the process began."""
        used, self._before = cpu_seconds - self._before, cpu_seconds
        self._worked += used
        if used > TICK_SECONDS * QUIET_SHARE or self._worked < WORK_SECONDS:
            return False
        self._worked = 0.0
        return True


async def trim_when_quiet(cpu_seconds: Callable[[], float] = time.process_time) -> None:
    """Until cancelled."""
    trim = _trim()
    if trim is None:
        return
    trimming = Trimming(cpu_seconds())
    while True:
        await asyncio.sleep(TICK_SECONDS)
        if trimming.due(cpu_seconds()):
            await asyncio.to_thread(trim, 0)


def _trim() -> Callable[[int], int] | None:
    """Only glibc has it; it is called without Python's lock."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    found: Callable[[int], int] = trim
    return found
