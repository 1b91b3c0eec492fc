"""The HTTP/1.1 server over real sockets: start, stop, and the effects of the kernel."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trustme

from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
SECONDS = 10  # only a failing test waits this long

Story = Callable[[], Coroutine[Any, Any, None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Run on both event loops, which end connections differently."""
    factory = pytest.importorskip("uvloop").new_event_loop if request.param == "uvloop" else None

    def play(story: Story) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(story())

    return play


async def hello(request: Request) -> Response:
    return Response(200, [("Content-Type", "text/plain")], b"hello")


class Harness:
    def __init__(self, server: HttpServer, host: str, port: int) -> None:
        self.server, self.host, self.port = server, host, port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> Streams:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await self.server.stop(grace_seconds=0)


@asynccontextmanager
async def harness(
    answer: Callable[[Request], Awaitable[Response]] = hello, limits: HttpLimits | None = None
) -> AsyncIterator[Harness]:
    server = HttpServer(answer, log=logging.getLogger("test.http1"), limits=limits)
    opened = Harness(server, *await server.start("127.0.0.1", 0))
    try:
        async with asyncio.timeout(SECONDS):
            yield opened
    finally:
        await opened.close()


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


def test_requests_follow_one_another_on_one_connection(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with harness() as server:
            reader, writer = await server.connect()
            for _ in range(3):
                writer.write(GET)
                assert await response(reader) == (200, b"hello")

    run(story)


def test_a_body_over_the_cap_is_refused_and_the_refusal_is_readable_while_the_peer_still_sends(
    run: Callable[[Story], None],
) -> None:
    async def story() -> None:
        async with harness(limits=HttpLimits(body_bytes_max=1000)) as server:
            reader, writer = await server.connect()
            writer.write(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n")
            writer.write(b"x" * 4_000_000)
            assert (await response(reader))[0] == 413
            assert await reader.read() == b""

    run(story)


def test_stopping_finishes_the_request_in_progress_and_closes_idle_connections(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def answer(request: Request) -> Response:
            begun.set()
            await gate.wait()
            return Response(200, [], b"done")

        async with harness(answer) as server:
            idle, _ = await server.connect()
            reader, writer = await server.connect()
            writer.write(GET)
            await begun.wait()
            stop = asyncio.create_task(server.server.stop(grace_seconds=SECONDS))
            assert await idle.read() == b""
            gate.set()
            assert await response(reader) == (200, b"done")
            assert await reader.read() == b""
            await stop

    run(story)


def test_stopping_does_not_wait_longer_than_the_grace(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        begun = asyncio.Event()

        async def answer(request: Request) -> Response:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with harness(answer) as server:
            reader, writer = await server.connect()
            writer.write(GET)
            await begun.wait()
            await server.server.stop(grace_seconds=0)
            with suppress(ConnectionResetError):  # equivalent, because the peer sees the end either way
                assert await reader.read() == b""
            assert len(server.server.connections) == 0

    run(story)


def test_no_connection_is_accepted_after_the_stop(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with harness() as server:
            await server.server.stop(grace_seconds=0)
            with pytest.raises(ConnectionRefusedError):
                await server.connect()

    run(story)


def test_a_large_answer_reaches_a_peer_that_reads_late(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async def answer(request: Request) -> Response:
            return Response(200, [], b"x" * 20_000_000)

        async with harness(answer) as server:
            reader, writer = await server.connect()
            writer.write(GET + GET)
            for _ in range(2):
                status, body = await response(reader)
                assert (status, len(body)) == (200, 20_000_000)

    run(story)


def test_an_idle_client_over_tls_does_not_hold_up_the_stop(run: Callable[[Story], None]) -> None:
    """TLS ends with a message and its answer, and an inactive client does not answer."""
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(ours)
    authority.configure_trust(theirs)

    def ask(port: int) -> ssl.SSLSocket:
        client = theirs.wrap_socket(socket.create_connection(("127.0.0.1", port), SECONDS), server_hostname="localhost")
        client.sendall(GET)
        assert client.recv(12) == b"HTTP/1.1 200"
        return client

    async def story() -> None:
        server = HttpServer(hello, log=logging.getLogger("test.http1"), limits=HttpLimits(linger_seconds=0.1))
        _, port = await server.start("127.0.0.1", 0, ours)
        client = await asyncio.to_thread(ask, port)  # a blocking socket, which does not read by itself
        try:
            async with asyncio.timeout(SECONDS):
                await server.stop(grace_seconds=2 * SECONDS)
        finally:
            client.close()

    run(story)
