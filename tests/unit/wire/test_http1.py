"""The HTTP/1.1 server, byte by byte over a fake transport, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response
from penstock.wire.http1_connection import HttpConnection

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
HEAD_OF_PUT = b"PUT /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"


class Pipe(asyncio.Transport):
    """A transport that records its calls."""

    def __init__(self, peer: str = "192.0.2.1") -> None:
        super().__init__({"peername": (peer, 1234)})
        self.sent = b""
        self.reading = True
        self.closed = self.aborted = self.half_closed = False
        self.unsent_bytes = 0

    def write(self, data: Any) -> None:
        assert not self.half_closed
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.half_closed = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Peer:
    """One connection to a server, driven by the test."""

    def __init__(self, server: HttpServer, address: str = "192.0.2.1") -> None:
        self.pipe = Pipe(address)
        self.connection = HttpConnection(server)
        self.connection.connection_made(self.pipe)

    async def send(self, data: bytes) -> bytes:
        """Feed bytes, and return the immediate answer."""
        before = len(self.pipe.sent)
        self.connection.data_received(data)
        await settled()
        return self.pipe.sent[before:]


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def echo(request: Request) -> Response:
    return Response(200, [], f"{request.method} {request.path} ".encode() + request.body)


def statuses(data: bytes) -> list[int]:
    return [int(answer[:3]) for answer in data.split(b"HTTP/1.1 ")[1:]]


def serving(
    answer: Callable[[Request], Awaitable[Response]] = echo, limits: HttpLimits | None = None
) -> tuple[HttpServer, Clock]:
    clock = Clock()
    return HttpServer(answer, log=logging.getLogger("test.http1"), limits=limits, clock=clock), clock


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario() -> None:
        gates = {f"/{n}": asyncio.Event() for n in range(3)}

        async def answer(request: Request) -> Response:
            await gates[request.path].wait()
            return Response(200, [], request.path.encode())

        peer = Peer(serving(answer)[0])
        sent = await peer.send(b"".join(GET.replace(b"/a", f"/{n}".encode()) for n in range(3)))
        assert sent == b""
        gates["/2"].set()
        gates["/1"].set()
        await settled()
        assert peer.pipe.sent == b""
        gates["/0"].set()
        await settled()
        assert [block[-2:] for block in peer.pipe.sent.split(b"HTTP/1.1 200 OK")[1:]] == [b"/0", b"/1", b"/2"]
        assert not peer.pipe.closed

    run(scenario)


def test_the_last_request_closes_the_connection() -> None:
    async def scenario() -> None:
        peer = Peer(serving()[0])
        sent = await peer.send(LAST + GET)
        assert statuses(sent) == [200]
        assert b"Connection: close\r\n" in sent
        assert peer.pipe.closed

    run(scenario)


def test_an_answer_to_an_old_client_says_that_its_connection_is_kept() -> None:
    async def scenario() -> None:
        peer = Peer(serving()[0])
        sent = await peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert b"Connection: keep-alive\r\n" in sent
        assert not peer.pipe.closed

    run(scenario)


def test_head_gets_the_length_and_no_body() -> None:
    async def scenario() -> None:
        sent = await Peer(serving()[0]).send(GET.replace(b"GET", b"HEAD"))
        assert b"Content-Length: 8\r\n" in sent
        assert sent.endswith(b"\r\n\r\n")

    run(scenario)


def test_a_peer_that_waits_for_continue_gets_it_in_its_turn() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def answer(request: Request) -> Response:
            await gate.wait()
            return await echo(request)

        peer = Peer(serving(answer)[0])
        assert await peer.send(GET + HEAD_OF_PUT + b"Expect: 100-continue\r\n\r\n") == b""
        gate.set()
        await settled()
        assert statuses(peer.pipe.sent) == [200, 100]
        assert (await peer.send(b"hello")).endswith(b"PUT /p hello")

    run(scenario)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (HEAD_OF_PUT + b"Content-Encoding: gzip\r\n\r\nhello", 415),
        (HEAD_OF_PUT.replace(b"5", b"500000000") + b"\r\n", 413),
        (HEAD_OF_PUT.replace(b"5", b"500000000") + b"Expect: 100-continue\r\n\r\n", 413),
    ],
)
def test_a_refusal_follows_earlier_answers_and_lingers_until_it_is_read(data: bytes, status: int) -> None:
    async def scenario() -> None:
        server, clock = serving()
        peer = Peer(server)
        sent = await peer.send(GET + data)
        assert statuses(sent) == [200, status]
        assert peer.pipe.half_closed
        assert not peer.pipe.closed
        assert await peer.send(GET) == b""  # discarded
        clock.now += server.limits.linger_seconds
        server.connections.sweep()
        assert peer.pipe.aborted

    run(scenario)


def test_an_unexpected_failure_is_a_bare_500_and_one_clean_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(request: Request) -> Response:
        raise RuntimeError("the secret is hunter2")

    async def scenario() -> None:
        peer = Peer(serving(answer)[0])
        sent = await peer.send(GET.replace(b"/a", b"/a?sig=hunter2"))
        assert statuses(sent) == [500]
        assert b"hunter2" not in sent
        assert statuses(await peer.send(GET)) == [500]  # the connection stays open

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert "failed to answer GET /a: RuntimeError at" in caplog.text
    assert "hunter2" not in caplog.text


def test_an_invalid_answer_is_a_500() -> None:
    async def answer(request: Request) -> Response:
        return Response(200, [("X-Echo", "a\r\nSet-Cookie: b")])

    async def scenario() -> None:
        sent = await Peer(serving(answer)[0]).send(GET)
        assert statuses(sent) == [500]
        assert b"Set-Cookie" not in sent

    run(scenario)


@pytest.mark.parametrize(
    ("sent", "allowed_seconds", "answered"),
    [
        (b"", 10, []),
        (b"GET / HT", 10, [408]),
        (HEAD_OF_PUT + b"\r\nhel", 30, [408]),
        (GET, 60, [200]),
    ],
    ids=["nothing", "headers", "body", "idle"],
)
def test_each_stage_has_an_absolute_deadline(sent: bytes, allowed_seconds: float, answered: list[int]) -> None:
    async def scenario() -> None:
        server, clock = serving()
        peer = Peer(server)
        await peer.send(sent) if sent else None
        clock.now += allowed_seconds - 0.1
        server.connections.sweep()
        assert not peer.pipe.closed
        assert not peer.pipe.half_closed
        clock.now += 0.2
        server.connections.sweep()
        await settled()
        assert statuses(peer.pipe.sent) == answered
        assert peer.pipe.closed or peer.pipe.half_closed

    run(scenario)


def test_single_bytes_do_not_move_the_deadline() -> None:
    async def scenario() -> None:
        server, clock = serving()
        peer = Peer(server)
        for byte in GET[:11]:
            await peer.send(bytes([byte]))
            clock.now += 1
            server.connections.sweep()
        await settled()
        assert statuses(peer.pipe.sent) == [408]

    run(scenario)


def test_a_slow_answer_has_no_deadline_of_the_wire() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def answer(request: Request) -> Response:
            await gate.wait()
            return Response(200)

        server, clock = serving(answer)
        peer = Peer(server)
        await peer.send(GET)
        clock.now += 3600
        server.connections.sweep()
        gate.set()
        await settled()
        assert statuses(peer.pipe.sent) == [200]

    run(scenario)


def test_a_peer_that_does_not_read_is_not_read_from_and_then_closed() -> None:
    async def scenario() -> None:
        server, clock = serving()
        peer = Peer(server)
        peer.connection.pause_writing()
        assert not peer.pipe.reading
        await peer.send(GET + GET)
        assert statuses(peer.pipe.sent) == [200]  # the second answer waits until the first has been sent
        peer.connection.resume_writing()
        await settled()
        assert peer.pipe.reading
        assert statuses(peer.pipe.sent) == [200, 200]
        peer.connection.pause_writing()
        clock.now += server.limits.write_seconds
        server.connections.sweep()
        assert peer.pipe.aborted
        assert server.counts["not_reading"] == 1

    run(scenario)


def test_a_flood_of_pipelined_requests_pauses_reading_and_is_answered_in_full() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def answer(request: Request) -> Response:
            await gate.wait()
            return Response(200)

        peer = Peer(serving(answer)[0])
        count = 3000
        await peer.send(GET * count)
        assert not peer.pipe.reading
        assert len(peer.connection._turns) < 16384 / len(GET) + 16
        gate.set()
        while peer.connection.work is not None:
            await settled()
        assert len(statuses(peer.pipe.sent)) == count
        assert peer.pipe.reading

    run(scenario)


def test_connections_over_a_cap_are_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        server, _ = serving(limits=HttpLimits(connections_max=3, connections_per_address_max=2))
        peers = [Peer(server, address) for address in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2")]
        assert [statuses(peer.pipe.sent) for peer in peers] == [[], [], [503], [503]]
        assert [peer.pipe.closed for peer in peers] == [False, False, True, True]
        for peer in peers:
            peer.connection.connection_lost(None)
        assert len(server.connections) == 0
        assert statuses(await Peer(server).send(GET)) == [200]
        server.connections.sweep()
        assert "refused 2 connections" in caplog.text

    run(scenario)


def test_reserved_paths_are_answered_over_a_cap_once_and_nothing_else_is() -> None:
    """Probes must not fail because other connections of their address are idle."""
    limits = HttpLimits(connections_per_address_max=2, reserved_paths=("/health",), reserve=2)
    health = GET.replace(b"/a", b"/health")

    async def scenario() -> None:
        server, _ = serving(limits=limits)
        idle = [Peer(server) for _ in range(2)]
        for _ in range(5):
            probe = Peer(server)
            assert not probe.pipe.closed
            assert statuses(await probe.send(health + health)) == [200]
            assert b"Connection: close" in probe.pipe.sent
            assert probe.pipe.closed
            probe.connection.connection_lost(None)
        other = Peer(server)
        assert statuses(await other.send(GET)) == [503]
        assert not any(each.pipe.closed for each in idle)
        assert server.counts["too_many_connections_of_address"] == 6

    run(scenario)


def test_a_new_reserved_connection_ends_the_oldest(caplog: pytest.LogCaptureFixture) -> None:
    """Silent connections cannot use up the reserve, which is never exceeded."""
    limits = HttpLimits(connections_max=1, reserved_paths=("/health",), reserve=2)

    async def scenario() -> None:
        server, _ = serving(limits=limits)
        peers = [Peer(server) for _ in range(6)]
        assert [peer.pipe.aborted for peer in peers] == [False, True, True, True, False, False]
        for peer in peers:
            if peer.pipe.aborted:
                peer.connection.connection_lost(None)
        assert len(server.connections) == 3
        assert statuses(await peers[5].send(GET.replace(b"/a", b"/health"))) == [200]
        assert statuses(await peers[0].send(GET)) == [200], "the first is within the cap"
        server.connections.sweep()
        assert "refused 3 connections" in caplog.text

    run(scenario)


def test_a_peer_that_only_closed_its_sending_side_still_gets_its_answers() -> None:
    async def scenario() -> None:
        peer = Peer(serving()[0])
        peer.connection.data_received(GET)
        assert peer.connection.eof_received() is True
        await settled()
        assert statuses(peer.pipe.sent) == [200]
        assert peer.pipe.closed

    run(scenario)


def test_work_of_a_lost_connection_is_finished_and_its_answer_dropped() -> None:
    async def scenario() -> None:
        gate, done = asyncio.Event(), asyncio.Event()

        async def answer(request: Request) -> Response:
            await gate.wait()
            done.set()
            return Response(200)

        peer = Peer(serving(answer)[0])
        await peer.send(GET + GET)
        peer.connection.connection_lost(None)
        gate.set()
        await settled()
        assert done.is_set()
        assert peer.pipe.sent == b""

    run(scenario)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([GET, LAST, HEAD_OF_PUT, b"\r\n", b"hello"])), max_size=8
    ),
    st.lists(st.sampled_from(["eof", "lost", "sweep", "pause", "resume", "late"]), max_size=8),
)
def test_no_bytes_and_no_event_make_a_connection_raise(parts: list[bytes], events: list[str]) -> None:
    problems: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        server, clock = serving()
        peer = Peer(server)
        for part, event in zip(parts + [b""] * 8, events + [""] * 8, strict=False):
            if server.connections and part and peer.pipe.reading and not peer.pipe.closed:
                await peer.send(part)
            if server.connections:
                happen(event, peer, server, clock)
        await settled()

    run(scenario)
    assert problems == []


def happen(event: str, peer: Peer, server: HttpServer, clock: Clock) -> None:
    if event == "eof":
        peer.connection.eof_received()
    elif event == "lost":
        peer.connection.connection_lost(None)
    elif event == "pause" and peer.connection._drained is None:
        peer.connection.pause_writing()
    elif event == "resume" and peer.connection._drained is not None:
        peer.connection.resume_writing()
    elif event in ("sweep", "late"):
        clock.now += 1 if event == "sweep" else 100
        server.connections.sweep()
