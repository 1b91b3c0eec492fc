"""Long work in an event loop that lets other tasks run: by one task (`Turns`), or by many tasks together (`Share`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from heapq import merge
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

TURN_SECONDS = 0.005
SLICE_SECONDS = 0.001  # of work in a Share before other tasks run
RESTS = 4  # seconds of rest for one second of work, while other work is under way: a share of one fifth
REST_SECONDS_MIN, REST_SECONDS_MAX = 0.001, 0.25
RUN = 1000  # names that are sorted at once
TESTED = 50  # items that are tested between two looks at the clock
QUIET_SECONDS = 1.0  # without other work for this long, a Share takes no rests


class Turns:
    """A time slice for long work, which calls `await turns.give()` regularly to let other tasks run."""

    def __init__(self, seconds: float = TURN_SECONDS) -> None:
        self._clock = asyncio.get_running_loop().time
        self._seconds = seconds
        self._end = self._clock() + seconds

    async def give(self) -> None:
        if self._clock() > self._end:
            await asyncio.sleep(0)
            self._end = self._clock() + self._seconds


class Share:
    """A bounded share of the event loop for work that may wait, such as exports. All its tasks together have one share.

        async with share:
            ...  # one slice of work

    One task works at a time, in the order in which they ask. Every slice begins with a turn of the event loop for
    other tasks. While other work is under way, every slice is followed by a rest of RESTS times its length.
    """

    def __init__(self, count_others: Callable[[], int] | None = None, seconds: float = SLICE_SECONDS) -> None:
        """`count_others` returns a number that changes with other work. Without it, other work is always expected."""
        self._count_others = count_others
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._clock = time.monotonic  # replaced by the clock of the event loop
        self._others = count_others() if count_others is not None else 0
        self._busy_until = 0.0
        self._rests_until = 0.0
        self._began = 0.0

    async def __aenter__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        await self._lock.acquire()
        try:
            rest = self._rests_until - self._clock()
            await asyncio.sleep(rest if rest >= REST_SECONDS_MIN else 0)  # a shorter rest is taken later
        except BaseException:
            self._lock.release()
            raise
        self._began = self._clock()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = self._clock()
        if self._is_busy(now):
            rest = max(0.0, self._rests_until - now) + RESTS * (now - self._began)
            self._rests_until = now + min(rest, REST_SECONDS_MAX)
        self._lock.release()

    def _is_busy(self, now: float) -> bool:
        if self._count_others is None:
            return True
        others = self._count_others()
        if others != self._others:
            self._others, self._busy_until = others, now + QUIET_SECONDS
        return now < self._busy_until

    @property
    def is_over(self) -> bool:
        """Return whether the current slice has lasted long enough."""
        return self._clock() - self._began >= self._seconds

    async def map(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return the results of `work` for all items, computed in slices."""
        results: list[R] = []
        remaining = iter(items)
        is_done = False
        while not is_done:
            async with self:
                is_done = True
                for item in remaining:
                    results.append(work(item))
                    if self.is_over:
                        is_done = False
                        break
        return results

    async def map_chunks(
        self, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]], items: Sequence[T], size: int
    ) -> list[R]:
        """Return the results of `work` for chunks of `size` items, one after another. A slice ends after a chunk."""
        results: list[R] = []
        first = 0
        while first < len(items):
            async with self:
                while first < len(items):
                    results += await work(items[first : first + size])
                    first += size
                    if self.is_over:
                        break
        return results

    async def filter(self, test: Callable[[T], object], items: Sequence[T]) -> list[T]:
        """Return the items that pass a test, which is made in slices."""

        async def choose(chunk: Sequence[T]) -> list[T]:
            return list(filter(test, chunk))

        return await self.map_chunks(choose, items, TESTED)

    async def sort(self, names: Sequence[str]) -> list[str]:
        """Return names in order. Short runs are sorted in slices, and then merged in slices."""
        runs = [names[first : first + RUN] for first in range(0, len(names), RUN)]
        return await self.map(lambda name: name, merge(*await self.map(sorted, runs)))
