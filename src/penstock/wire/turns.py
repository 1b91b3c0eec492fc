"""Long work in an event loop that lets others run now and then."""

from __future__ import annotations

import asyncio

TURN_SECONDS = 0.005


class Turns:
    """`await turns.give()` in the loop of the work: others run when its time is over."""

    def __init__(self, seconds: float = TURN_SECONDS) -> None:
        self._clock = asyncio.get_running_loop().time
        self._seconds = seconds
        self._end = self._clock() + seconds

    async def give(self) -> None:
        if self._clock() > self._end:
            await asyncio.sleep(0)
            self._end = self._clock() + self._seconds
