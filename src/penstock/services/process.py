"""Resources that this process uses, as reported by the operating system."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc/self")


class Process(NamedTuple):
    """CPU time and memory of this process."""

    cpu_seconds: float
    memory_bytes: int  # 0 if unknown


class ProcessStatistics(NamedTuple):
    """Statistics of this process. None: unknown on this system."""

    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    open_files: int | None = None
    start_time_seconds: float | None = None


def process() -> Process:
    try:
        pages = int((_PROC / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux
        pages = 0
    return Process(time.process_time(), pages * os.sysconf("SC_PAGE_SIZE"))


def process_statistics() -> ProcessStatistics:
    used = process()
    try:
        # Fields are counted after the closing parenthesis, because the name of a process may contain spaces.
        started = int((_PROC / "stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        open_files = sum(1 for _ in (_PROC / "fd").iterdir())
        return ProcessStatistics(*used, open_files, int(boot.split()[1]) + started)
    except (OSError, ValueError, IndexError):  # not Linux
        return ProcessStatistics(used.cpu_seconds)
