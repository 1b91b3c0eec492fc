"""What the operating system says of this process: CPU time, memory, open files, its start."""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.doors.http.metrics import ProcessStatistics

_SELF = Path("/proc/self")


def process_statistics() -> ProcessStatistics:
    try:
        return _from_proc()
    except (OSError, ValueError, IndexError):  # not Linux
        return ProcessStatistics(cpu_seconds=time.process_time())


def _from_proc() -> ProcessStatistics:
    # Fields are counted after the closing parenthesis: the name of a process may hold anything, spaces included.
    fields = (_SELF / "stat").read_text().rpartition(")")[2].split()
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return ProcessStatistics(
        cpu_seconds=(int(fields[11]) + int(fields[12])) / ticks_per_second,
        resident_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        open_files=sum(1 for _ in (_SELF / "fd").iterdir()),
        start_time_seconds=int(boot.split()[1]) + int(fields[19]) / ticks_per_second,
    )
