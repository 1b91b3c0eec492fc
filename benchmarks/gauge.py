"""Measuring tools of the benchmarks: rates, CPU time, resident memory.

A number is printed with its conditions. A ratio comes from one run on one machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Lap(NamedTuple):
    messages: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def cpu_us(self) -> float:
        return self.cpu_seconds / self.messages * 1e6 if self.messages else 0.0


class Stopwatch:
    """A sum of laps of one kind of work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - wall
        self.cpu_seconds += time.process_time() - cpu

    def lap(self, messages: int) -> Lap:
        return Lap(messages, self.seconds, self.cpu_seconds)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def mebibytes(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def row(label: str, lap: Lap, base: Lap | None = None) -> str:
    ratio = f"  {lap.rate / base.rate:6.2f}x" if base is not None and base.rate else ""
    return f"  {label:<34} {lap.rate:>12,.0f} msg/s  {lap.cpu_us:7.2f} us CPU/msg{ratio}"
