"""The process that is killed: the real server with one more door, which generates load inside the process.

As a script it imports everything once, and forks a server for each line of its input, so that a hundred rounds cost
forks and not starts of an interpreter. The load notes every step on a pipe: each ack before it is sent, and each
answer. The pipe outlives the process, so a kill never loses a note that was written.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock import assembly, server
from penstock.broker.model import Draft
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import AlreadyExistsError
from penstock.settings import Settings, load_settings

PUBLISHERS = 3
CONSUMERS = 2
BATCH = 8


class LoadDoor:
    """A door that publishes and consumes as fast as the queue allows."""

    name = "load"
    address = "inside"
    hints: Sequence[str] = ()

    def __init__(self, queue: AsyncMessageQueue, notes: int, label: str) -> None:
        self._queue = queue
        self._notes = notes
        self._label = label
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        try:
            await self._queue.create_topic("t")
            await self._queue.create_subscription("s", "t")
        except AlreadyExistsError:
            pass  # in every round but the first
        self._tasks = [asyncio.create_task(self._publish(number)) for number in range(PUBLISHERS)]
        self._tasks += [asyncio.create_task(self._consume()) for _ in range(CONSUMERS)]

    async def stop(self, grace_seconds: float) -> None:
        for task in self._tasks:
            task.cancel()

    async def _publish(self, number: int) -> None:
        count = 0
        while True:
            bodies = [f"{self._label}-{number}-{count + each}" for each in range(BATCH)]
            count += BATCH
            await self._queue.publish("t", [Draft(body.encode()) for body in bodies])
            self._note("published", bodies)

    async def _consume(self) -> None:
        while True:
            deliveries = await self._queue.pull("s", BATCH, wait_seconds=1)
            bodies = [delivery.message.data.decode() for delivery in deliveries]
            keep = len(deliveries) // 4  # some messages stay leased, so that leases are recovered as well
            self._note("acking", bodies[keep:])
            await self._queue.ack([delivery.receipt for delivery in deliveries[keep:]])
            self._note("acked", bodies[keep:])

    def _note(self, what: str, bodies: Sequence[str]) -> None:
        if bodies:
            os.write(self._notes, f"{what} {' '.join(bodies)}\n".encode())


def serve(data: Path, label: str, notes: int) -> int:
    ports = {"http_port": 0, **{f"{door}_port": "off" for door in ("pubsub", "azure", "text", "flight")}}
    settings = load_settings(flags={"data": str(data), "log_level": "error", **ports}, environment={})

    async def open_parts(given: Settings) -> assembly.Parts:
        parts = await assembly.open_parts(given)
        return parts._replace(doors=[*parts.doors, LoadDoor(parts.queue, notes, label)])

    with Path(os.devnull).open("w") as nowhere:
        return server.run(settings, open_parts, out=nowhere)


def main() -> None:
    """Fork a server for each line of input, which is a data folder and a label, and print its process id."""
    faulthandler.enable()  # an abort prints the stacks
    for line in sys.stdin:
        folder, label = line.split()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(serve(Path(folder), label, sys.stdout.fileno()))
        os.write(sys.stdout.fileno(), f"pid {pid}\n".encode())


if __name__ == "__main__":
    main()
