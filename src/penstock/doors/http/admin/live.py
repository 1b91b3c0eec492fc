"""What of the admin API goes on while nobody asks: samples, events and moves."""

from __future__ import annotations

from penstock.doors.http.admin.events import Events
from penstock.doors.http.admin.moves import Moves
from penstock.doors.http.admin.moving import Sources
from penstock.doors.http.admin.samples import Samples
from penstock.engine.port import Queue
from penstock.engine.traffic import Traffic


class Live:
    def __init__(self, queue: Queue, traffic: Traffic, sources: Sources) -> None:
        self.samples = Samples(traffic, queue.clock)
        self.events = Events(queue, self.samples)
        self.moves = Moves(queue, sources)

    def start(self) -> None:
        self.samples.start()

    async def stop(self) -> None:
        self.samples.stop()
        await self.moves.stop()
