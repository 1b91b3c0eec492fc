"""The services of a server that has an admin API: samples, stories, time travel and moves."""

from __future__ import annotations

from penstock.engine.async_queue import AsyncMessageQueue
from penstock.services.moves.registry import Moves
from penstock.services.samples import Samples
from penstock.services.stories import Stories
from penstock.services.time_travel.time_travel import TimeTravel
from penstock.services.traffic import Traffic


class Services:
    def __init__(self, queue: AsyncMessageQueue, moves: Moves) -> None:
        self.samples = Samples(Traffic(queue.engine), queue.clock)
        self.stories = Stories(queue.engine)
        self.time = TimeTravel(queue)
        self.moves = moves

    def start(self) -> None:
        self.samples.start()

    async def stop(self) -> None:
        self.samples.stop()
        self.time.close()
        await self.moves.stop()
