"""A queue with the time travel of its projects, as in a server for tests."""

from __future__ import annotations

from typing import Any

from penstock.engine.async_queue import AsyncMessageQueue
from penstock.services.time_travel.time_travel import TimeTravel


class TimedQueue(AsyncMessageQueue):
    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(*args, **parts)
        self.time = TimeTravel(self)

    async def close(self) -> None:
        self.time.close()
        await super().close()
