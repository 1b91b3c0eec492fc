"""Answers in parts over real sockets: their chunks, their pace, and how they end before their last part."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.wire.budget import Budget
from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
SECONDS = 10  # only a failing test waits this long

Story = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    factory = pytest.importorskip("uvloop").new_event_loop if request.param == "uvloop" else None

    def play(story: Story) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(story())

    return play


class Source:
    """Parts that a test provides, and the end of their iteration."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.asked = 0
        self.ended = asyncio.Event()

    def give(self, *parts: bytes | Exception | None) -> None:
        for part in parts:
            self.parts.put_nowait(part)

    async def __call__(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                self.asked += 1
                part = await self.parts.get()
                if part is None:
                    return
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.ended.set()


class Harness:
    def __init__(self, limits: HttpLimits | None = None, *, answers_when_left: bool = False) -> None:
        self.source = Source()
        self._answers_when_left = answers_when_left
        self.budget = Budget(1 << 20)
        self.server = HttpServer(self._answer, log=logging.getLogger("test.http1"), limits=limits, budget=self.budget)

    async def _answer(self, request: Request) -> Response:
        if self._answers_when_left:
            left = asyncio.Event()
            request.on_left = left.set
            await left.wait()
        return Response(200, [("Content-Type", "application/x-ndjson")], parts=self.source())

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        address = await self.server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*address)
        try:
            async with asyncio.timeout(SECONDS):
                yield reader, writer
        finally:
            writer.close()
            await self.server.stop(grace_seconds=0)


async def read_chunks(reader: asyncio.StreamReader) -> list[bytes]:
    """Read until the last chunk. Raise IncompleteReadError if the connection ends before it."""
    chunks = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return chunks


def test_parts_leave_as_they_come_and_the_connection_is_kept(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            for _ in range(2):
                writer.write(GET)
                harness.source.give(b"one\n")
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"HTTP/1.1 200 OK\r\n" in head
                assert b"Transfer-Encoding: chunked\r\n" in head
                assert b"Content-Length" not in head
                assert await reader.readexactly(9) == b"4\r\none\n\r\n", "the first part came before there was a second"
                harness.source.give(b"", b"two\n", None)
                assert await read_chunks(reader) == [b"two\n"]

    run(story)


def test_a_peer_that_left_before_the_first_part_gets_none(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness(answers_when_left=True)
        async with harness.connect() as (reader, writer):
            writer.write(GET)
            writer.write_eof()
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 503 Service Unavailable\r\n"
            assert harness.source.asked == 0

    run(story)


def test_an_answer_without_parts_is_an_empty_body(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            harness.source.give(None)
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
            assert await read_chunks(reader) == []

    run(story)


def test_http_1_0_gets_plain_bytes_until_the_end(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            harness.source.give(b"one", b"two", None)
            writer.write(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            assert b"Connection: close" in head
            assert b"chunked" not in head
            assert body == b"onetwo"

    run(story)


def test_the_answer_to_head_reads_no_parts(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            writer.write(GET.replace(b"GET", b"HEAD") + GET.replace(b"GET", b"HEAD"))
            for _ in range(2):
                assert b"Transfer-Encoding: chunked" in await reader.readuntil(b"\r\n\r\n")
            assert harness.source.asked == 0

    run(story)


def test_a_failure_before_the_first_part_is_an_ordinary_error(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            harness.source.give(ValueError("secret"))
            writer.write(GET)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"HTTP/1.1 500" in head
            assert b"secret" not in head
            assert b"secret" not in await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))

    run(story)


def test_a_failure_after_it_leaves_the_answer_visibly_unfinished(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            harness.source.give(b"one", ValueError("secret"))
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
            with pytest.raises(asyncio.IncompleteReadError):
                await read_chunks(reader)

    run(story)


def test_an_answer_in_parts_ends_when_the_peer_disconnects(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            harness.source.give(b"one")
            writer.write(GET)
            await reader.readuntil(b"one\r\n")
            writer.close()
            await harness.source.ended.wait()

    run(story)


def test_an_answer_in_parts_ends_unfinished_when_the_server_stops(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness()
        async with harness.connect() as (reader, writer):
            harness.source.give(b"one")
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
            chunks = asyncio.ensure_future(read_chunks(reader))
            await asyncio.sleep(0)
            assert await harness.server.stop(grace_seconds=SECONDS), "no connection had to be aborted"
            assert harness.source.ended.is_set()
            with pytest.raises(asyncio.IncompleteReadError):
                await chunks

    run(story)


def test_a_peer_that_does_not_read_is_not_sent_more_and_is_charged(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness, count = Harness(), 1000
        part = b"x" * 65536
        harness.source.give(*[part] * count, None)
        async with harness.connect() as (reader, writer):
            writer.write(GET)
            asked = -1
            while harness.source.asked != asked or not harness.budget.in_use_bytes:
                asked = harness.source.asked
                for _ in range(100):
                    await asyncio.sleep(0)
            assert asked < count, "the others wait until the peer reads"
            await reader.readuntil(b"\r\n\r\n")
            assert sum(map(len, await read_chunks(reader))) == count * len(part)
            assert harness.budget.in_use_bytes == 0

    run(story)


def test_a_peer_that_never_reads_is_disconnected_in_time(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        harness = Harness(HttpLimits(write_seconds=0.1, sweep_seconds=0.05))
        harness.source.give(*[b"x" * 65536] * 1000)
        async with harness.connect() as (_, writer):
            writer.write(GET)
            await harness.source.ended.wait()
            assert harness.server.counts["not_reading"] == 1

    run(story)
