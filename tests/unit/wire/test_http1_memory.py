"""The memory of the peers of an HTTP/1.1 server, charged to its budget, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from weakref import ref

from penstock.wire.budget import Budget
from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response
from penstock.wire.http1_reader import RequestReader

SECONDS = 10  # only a failing test waits this long
KIB = 1 << 10

Answer = Callable[[Request], Awaitable[Response]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def length(request: Request) -> Response:
    return Response(200, [], str(len(request.body)).encode())


class Harness:
    def __init__(self, limit_bytes: int, answer: Answer = length, body_bytes_max: int = 1 << 20) -> None:
        self.budget = Budget(limit_bytes)
        self.server = HttpServer(
            answer,
            log=logging.getLogger("test.http1"),
            limits=HttpLimits(body_bytes_max=body_bytes_max, linger_seconds=1, sweep_seconds=0.05),
            budget=self.budget,
        )
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, takes_bytes: int = 1 << 24) -> Streams:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=takes_bytes)
        self._writers.append(writer)
        return reader, writer

    async def begin_body(self, size: int, sent: int) -> Streams:
        """Send the first bytes of a request, and wait until the server has them."""
        reader, writer = await self.connect()
        before = self.budget.in_use_bytes
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + bytes(sent))
        await until(lambda: self.budget.in_use_bytes >= before + sent)
        return reader, writer

    async def play(self, story: Callable[[Harness], Coroutine[Any, Any, None]]) -> None:
        self.host, self.port = await self.server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(SECONDS):
                await story(self)
        finally:
            for writer in self._writers:
                writer.close()
            await self.server.stop(grace_seconds=0)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(size)


def test_a_body_is_charged_while_it_is_read_and_carried_out_and_not_longer() -> None:
    gate = asyncio.Event()

    async def answer(request: Request) -> Response:
        await gate.wait()
        return await length(request)

    async def story(harness: Harness) -> None:
        reader, writer = await harness.begin_body(100 * KIB, 60 * KIB)
        assert harness.budget.in_use_bytes == 60 * KIB
        writer.write(bytes(40 * KIB))
        await until(lambda: harness.budget.in_use_bytes == 100 * KIB)
        gate.set()
        assert await response(reader) == (200, b"102400")
        assert harness.budget.in_use_bytes == 0

    asyncio.run(Harness(1 << 20, answer).play(story))


def test_a_small_request_in_one_piece_passes_a_spent_budget() -> None:
    async def story(harness: Harness) -> None:
        await harness.begin_body(100 * KIB, 99 * KIB)
        reader, writer = await harness.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + bytes(1000))
        assert await response(reader) == (200, b"1000")

    asyncio.run(Harness(100 * KIB).play(story))


def test_when_the_budget_is_spent_the_newest_request_gets_503() -> None:
    async def story(harness: Harness) -> None:
        first, first_writer = await harness.begin_body(90 * KIB, 80 * KIB)
        second, second_writer = await harness.connect()
        second_writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n" + bytes(50000))
        assert (await response(second))[0] == 503
        assert harness.budget.in_use_bytes == 80 * KIB
        assert harness.server.counts["busy"] == 1
        first_writer.write(bytes(10 * KIB))
        assert await response(first) == (200, b"92160")

    asyncio.run(Harness(100 * KIB).play(story))


def test_an_aborted_body_is_released_at_once() -> None:
    async def story(harness: Harness) -> None:
        for _ in range(20):
            _, writer = await harness.begin_body(90 * KIB, 80 * KIB)
            writer.transport.abort()
            await until(lambda: harness.budget.in_use_bytes == 0)
        assert harness.budget.refusals == 0

    asyncio.run(Harness(100 * KIB).play(story))


def test_an_aborted_body_leaves_nothing_behind_for_the_garbage_collector() -> None:
    """The bytes are freed with the connection, without waiting for a garbage collection."""

    class Piece(bytearray):
        """Bytes with weak references."""

    async def story(harness: Harness) -> None:
        _, writer = await harness.begin_body(90 * KIB, 80 * KIB)
        (connection,) = harness.server.connections
        piece = Piece(connection._reader._chunks[0])
        connection._reader._chunks[0] = piece
        seen = ref(piece), ref(connection), ref(connection._reader)
        del piece, connection
        writer.transport.abort()
        await until(lambda: len(harness.server.connections) == 0)
        await asyncio.sleep(0)
        assert [each() for each in seen] == [None] * 3

    gc.disable()
    try:
        asyncio.run(Harness(100 * KIB).play(story))
    finally:
        gc.enable()


def test_peers_in_the_middle_of_bodies_do_not_wait_for_each_other() -> None:
    """Eight incomplete requests that each need a third of the budget: some get 503, and all finish."""

    async def upload(harness: Harness, start: asyncio.Barrier) -> int:
        attempts = 0
        while True:
            attempts += 1
            reader, writer = await harness.connect()
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (100 * KIB))
            for _ in range(10):
                writer.write(bytes(10 * KIB))
                await asyncio.sleep(0)
                if attempts == 1:
                    await start.wait()
            status, _ = await response(reader)
            if status == 200:
                return attempts

    async def story(harness: Harness) -> None:
        start = asyncio.Barrier(8)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(upload(harness, start)) for _ in range(8)]
        assert sum(task.result() for task in tasks) > 8, "the budget was never used up"
        await until(lambda: harness.budget.in_use_bytes == 0)

    asyncio.run(Harness(300 * KIB).play(story))


def test_an_unread_answer_is_charged_until_its_peer_disconnects() -> None:
    async def answer(request: Request) -> Response:
        return Response(200, [], bytes(16 << 20))

    async def story(harness: Harness) -> None:
        _, writer = await harness.connect(takes_bytes=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: harness.budget.in_use_bytes > 4 << 20)
        writer.transport.abort()
        await until(lambda: harness.budget.in_use_bytes == 0)

    asyncio.run(Harness(64 << 20, answer).play(story))


def test_unread_answers_end_their_connections_when_the_budget_is_spent() -> None:
    async def answer(request: Request) -> Response:
        return Response(200, [], bytes(16 << 20))

    async def story(harness: Harness) -> None:
        for _ in range(10):
            _, writer = await harness.connect(takes_bytes=1)
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: harness.budget.refusals >= 7)
        assert harness.budget.in_use_bytes <= 40 << 20

    asyncio.run(Harness(40 << 20, answer).play(story))


def test_a_body_in_single_bytes_is_not_kept_as_a_list_of_them() -> None:
    reader = RequestReader(HttpLimits(), "peer")
    reader.feed(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(20_000):
        reader.feed(b"1\r\nx\r\n")
    assert len(reader._chunks) < 10
    reader.feed(b"0\r\n\r\n")
    assert reader.turns[0].request.body == b"x" * 20_000  # type: ignore[union-attr]
