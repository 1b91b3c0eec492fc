"""The text protocol with a queue in memory, and peers that send and receive bytes.

Frames are written and parsed by hand, from docs/text-protocol.md and not with the code under test. Nothing waits longer
than SECONDS, and nothing sleeps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from penstock.broker.limits import Limits as BrokerLimits
from penstock.doors.text.options import TextOptions
from penstock.doors.text.server import TextDoor
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.wire.budget import Budget

SECONDS = 20.0  # only a failing test waits this long
_SILENCES = count()
UNLIMITED = BrokerLimits(queue_messages_max=0, queue_bytes_max=0, refuse_when_full=True)


def frame(version: int, kind: int, *packages: tuple[int, bytes], line: bool = False) -> bytes:
    parts = [b"H%02d%03d%02d" % (version, kind, len(packages))]
    for number, content in packages:
        parts += [b"P%02d%033d" % (number, len(content)), content]
    return b"".join(part + b"\n" for part in parts) if line else b"".join(parts)


def send(queue: bytes, content: bytes, version: int = 2, line: bool = False) -> bytes:
    return frame(version, 1, (1, queue), (2, content), line=line)


def consume(queue: bytes, count: int, version: int = 2, line: bool = False) -> bytes:
    return frame(version, 2, (1, queue), (4, b"%d" % count), line=line)


def ack(queue: bytes, message_id: bytes, version: int = 2, line: bool = False) -> bytes:
    return frame(version, 4, (1, queue), (3, message_id), line=line)


def give_back(queue: bytes, message_id: bytes, delay: bytes | None = None) -> bytes:
    packages = [(1, queue), (3, message_id)] + ([(5, delay)] if delay is not None else [])
    return frame(2, 6, *packages)


class Heard(NamedTuple):
    version: int
    type: int
    order: list[int]  # package types in the order of arrival
    packages: dict[int, bytes]

    @property
    def id(self) -> bytes:
        return self.packages[3]

    @property
    def content(self) -> bytes:
        return self.packages[2]

    @property
    def code(self) -> str:
        assert self.type == 7, self
        return self.packages[6].decode()


class Peer:
    """A client that handles bytes only."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: bool) -> None:
        self.reader = reader
        self.writer = writer
        self.line = line

    async def say(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))
        await asyncio.wait_for(self.writer.drain(), SECONDS)

    async def exactly(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), SECONDS)

    async def hear(self) -> Heard:
        gap = 1 if self.line else 0
        header = await self.exactly(8 + gap)
        assert header[:1] == b"H", header
        packages, order = {}, []
        for _ in range(int(header[6:8])):
            head = await self.exactly(36 + gap)
            assert head[:1] == b"P", head
            content = await self.exactly(int(head[3:36]) + gap)
            order.append(int(head[1:3]))
            packages[int(head[1:3])] = content[:-1] if gap else content
        return Heard(int(header[1:3]), int(header[3:6]), order, packages)

    async def hear_many(self, count: int) -> list[Heard]:
        return [await self.hear() for _ in range(count)]

    async def contents(self, count: int) -> list[bytes]:
        return [each.content for each in await self.hear_many(count)]

    async def silence(self) -> None:
        """Check that nothing more is on its way: two sends are confirmed, and nothing comes before their
        confirmations.
        """
        for _ in range(2):
            queue = b"silence %d" % next(_SILENCES)
            await self.say(send(queue, b"", line=self.line))
            heard = await self.hear()
            assert (heard.type, heard.packages[1]) == (5, queue), heard

    async def end(self) -> bytes:
        """Return the bytes up to the end of the connection, with or without an error."""
        try:
            return await asyncio.wait_for(self.reader.read(), SECONDS)
        except ConnectionError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):  # the endpoint closed first
            await asyncio.wait_for(self.writer.wait_closed(), SECONDS)

    def vanish(self) -> None:
        self.writer.transport.abort()


class Harness:
    def __init__(self, queue: AsyncMessageQueue, door: TextDoor) -> None:
        self.queue = queue
        self.door = door
        self.peers: list[Peer] = []

    async def peer(self, line: bool = False, **options: Any) -> Peer:
        host, _, port = self.door.address.rpartition(":")
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port), **options), SECONDS)
        self.peers.append(Peer(reader, writer, line))
        return self.peers[-1]

    async def unix_peer(self, path: Path) -> Peer:
        self.peers.append(Peer(*await asyncio.open_unix_connection(str(path)), False))
        return self.peers[-1]

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait for a condition of which no peer is notified."""
        async with asyncio.timeout(SECONDS):
            while not check():
                await asyncio.sleep(0.001)

    def in_flight(self, queue: str) -> int:
        return lookups.backlog(self.queue.engine, self.names(queue)[1]).in_flight_messages

    def names(self, queue: str) -> tuple[str, str]:
        return f"projects/penstock/topics/{queue}", f"projects/penstock/subscriptions/{queue}"

    async def leave(self) -> None:
        for peer in self.peers:
            peer.vanish()
        await self.door.stop(1)
        await self.queue.close()


async def set_up(
    options: TextOptions | None = None,
    *,
    journal: MemoryJournal | None = None,
    broker: BrokerLimits = UNLIMITED,
    port: int = 0,
    budget: Budget | None = None,
) -> Harness:
    queue = AsyncMessageQueue(journal or MemoryJournal(), limits=broker)
    await queue.start()
    door = TextDoor(
        host="127.0.0.1",
        port=port,
        queue=queue,
        project="penstock",
        log=logging.getLogger("test.text"),
        options=options,
        budget=budget,
    )
    await door.start()
    return Harness(queue, door)


def play(scenario: Callable[[Harness], Awaitable[None]], **parts: Any) -> None:
    """Run a scenario in a harness of its own."""

    async def main() -> None:
        harness = await set_up(**parts)
        try:
            await scenario(harness)
        finally:
            await harness.leave()

    asyncio.run(main())
