"""The stop of a door, as in the server: the door tells its clients first, then the queue releases waiting calls."""

from __future__ import annotations

import asyncio

from penstock.doors.port import Door
from penstock.engine.async_queue import AsyncMessageQueue


async def stop(door: Door, queue: AsyncMessageQueue, grace_seconds: float) -> None:
    stopping = asyncio.ensure_future(door.stop(grace_seconds))
    await asyncio.sleep(0)
    queue.stop_waiting()
    await stopping
