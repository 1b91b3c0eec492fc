"""An event loop with virtual time: when nothing is ready, its clock jumps to the next timer.

A test of waiting takes no real time, even for an hour. A test that would hang forever (no timer, and no event to wake
it) fails at once instead.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.broker.model import SECOND

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            ready = super().select(5)  # a thread may still call back
            assert ready, "all tasks wait and no event will come"
            return ready
        self._loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


class LoopClock:
    """The clock of a queue in a VirtualLoop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> int:
        return 1_700_000_000 * SECOND + round(self._loop.time() * SECOND)

    def not_before(self, at: int) -> None:
        """Do nothing, because a queue in this loop is always new."""

    def wall(self) -> int:
        return self.now()

    def alarm(self, at: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later((at - self.now()) / SECOND, ring)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
