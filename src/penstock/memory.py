"""Memory of the process: a quiet server returns freed memory to the system, and the cycle collector runs rarely.

The C library keeps freed memory for later use. After a run with many clients that was a third of the process. Memory is
not returned while there is work, because returning it and getting it again takes time.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

TICK_SECONDS = 2.0
QUIET_SHARE = 0.05  # of a processor; a server that uses less is quiet
WORK_SECONDS = 1.0  # of processor time since memory was last given back; after it there may be something to give
GROWN_BYTES = 16 << 20  # of freed memory since then; large requests leave it in next to no processor time
COLLECT_AFTER = (50_000, 20, 100)  # new objects before the cyclic collector looks; Python's own first number is 700


def calm_collector() -> None:
    """Run the cyclic collector rarely: messages and requests have no cycles, and reference counts free them."""
    gc.set_threshold(*COLLECT_AFTER)


class Trimming:
    """The rule that decides when to return memory."""

    def __init__(self, cpu_seconds: float, free_bytes: int = 0) -> None:
        self._before = cpu_seconds
        self._worked = 0.0
        self._floor = free_bytes

    def due(self, cpu_seconds: float, free_bytes: Callable[[], int]) -> bool:
        """Return whether to give memory back now. Called once a tick.

        `cpu_seconds` is the processor time since the process began. `free_bytes` counts the freed memory that the C
        library has, returned or not, which takes 20 ms for a million blocks, so a busy server does not count it.
        `gave` must be called after memory was given back.
        """
        used, self._before = cpu_seconds - self._before, cpu_seconds
        self._worked += used
        if used > TICK_SECONDS * QUIET_SHARE:
            return False
        free = free_bytes()
        self._floor = min(self._floor, free)
        return self._worked >= WORK_SECONDS or free - self._floor >= GROWN_BYTES

    def gave(self, free_bytes: int = 0) -> None:
        """Start again from the freed memory after memory was returned."""
        self._worked, self._floor = 0.0, free_bytes


async def trim_when_quiet(cpu_seconds: Callable[[], float] = time.process_time) -> None:
    """Give memory back whenever it is due, until cancelled."""
    trim = _trim()
    if trim is None:
        return
    free_bytes = _free_bytes()
    trimming = Trimming(cpu_seconds(), free_bytes())
    while True:
        await asyncio.sleep(TICK_SECONDS)
        if trimming.due(cpu_seconds(), free_bytes):
            await asyncio.to_thread(trim, 0)
            trimming.gave(free_bytes())


class _Mallinfo(ctypes.Structure):
    """Numbers of the C library about its memory (mallinfo2)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _free_bytes() -> Callable[[], int]:
    """Return a function that counts freed memory. The resident memory stands for it before glibc 2.33."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return resident_bytes
    mallinfo.restype = _Mallinfo
    return lambda: int(mallinfo().fordblks)


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):  # not Linux
        return 0


def _trim() -> Callable[[int], int] | None:
    """Return malloc_trim, which only glibc has. ctypes calls it without Python's lock."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    function: Callable[[int], int] = trim
    return function
