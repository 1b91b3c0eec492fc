"""Limits: slow, idle and greedy clients, and clients that do not read, are disconnected. Others are not."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from penstock.doors.text.options import TextOptions
from penstock.engine import lookups
from tests.doors.text.harness import SECONDS, Harness, ack, consume, play, send

QUICK = TextOptions(frame_seconds=0.15, idle_seconds=0.3, write_seconds=0.3, sweep_seconds=0.02, linger_seconds=0.2)
MIB = 1 << 20


def test_a_message_that_is_not_complete_in_time_is_too_slow() -> None:
    """T-061: from its first byte. Complete messages before it are kept, and single bytes do not extend the time."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"))
        assert (await peer.hear()).type == 5
        started = time.monotonic()
        rest = send(b"q", b"2")
        place = 0
        hearing = asyncio.ensure_future(peer.hear())
        while not hearing.done() and place < len(rest) - 1:
            await peer.say(rest[place : place + 1])
            place += 1
            await asyncio.wait([hearing], timeout=0.02)
        assert (await hearing).code == "too-slow"
        assert 0.1 < time.monotonic() - started < SECONDS
        assert await peer.end() == b""

    play(scenario, options=QUICK)


def test_a_slow_first_message_is_closed_without_an_answer() -> None:
    """T-054, T-061."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(b"H02")
        assert await peer.end() == b""
        assert harness.door.counts["too-slow"] == 1

    play(scenario, options=QUICK)


def test_a_silent_client_that_consumes_nothing_is_closed() -> None:
    """T-062: a consumer is not closed, and neither is a client in line framing whose last line feed is still to
    come.
    """

    async def scenario(harness: Harness) -> None:
        silent, consumer, idle = await harness.peer(), await harness.peer(), await harness.peer(line=True)
        await consumer.say(consume(b"q", 1))
        await idle.say(send(b"other", b"", line=True)[:-1])
        assert (await idle.hear()).type == 5
        assert await silent.end() == b""
        assert await idle.end() == b""
        assert harness.door.counts["too-slow"] == 0
        sender = await harness.peer()
        await sender.say(send(b"q", b"1"))
        assert await consumer.contents(1) == [b"1"]

    play(scenario, options=QUICK)


def test_one_connection_too_many_is_closed_at_once() -> None:
    """T-063: other connections are not disturbed, and a closed connection makes room for a new one."""

    async def scenario(harness: Harness) -> None:
        peers = [await harness.peer() for _ in range(3)]
        for peer in peers:
            await peer.silence()
        crowd = [await harness.peer() for _ in range(5)]
        for peer in crowd:
            assert await peer.end() == b""
        assert harness.door.counts["too_many_connections"] == 5
        for peer in peers:
            await peer.silence()
        await peers[0].close()
        await harness.until(lambda: len(harness.door.connections) == 2)
        await (await harness.peer()).silence()

    play(scenario, options=TextOptions(connections_max=3))


def test_connections_per_address_are_limited() -> None:
    """T-063: 127.0.0.1 is full, 127.0.0.2 is not."""

    async def scenario(harness: Harness) -> None:
        peers = [await harness.peer() for _ in range(2)]
        for peer in peers:
            await peer.silence()
        third = await harness.peer()
        assert await third.end() == b""
        neighbour = await harness.peer(local_addr=("127.0.0.2", 0))
        await neighbour.silence()

    play(scenario, options=TextOptions(connections_per_address_max=2))


def deaf(harness: Harness, buffer_bytes: int = 4096) -> socket.socket:
    """Connect a client with small buffers that reads only on request."""
    host, _, port = harness.door.address.rpartition(":")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    raw.connect((host, int(port)))
    return raw


def test_a_client_that_does_not_read_is_closed_and_its_messages_return() -> None:
    """T-034, T-064: its queued output is bounded, and other clients are served meanwhile."""
    limits = TextOptions(
        write_seconds=0.5, sweep_seconds=0.02, write_buffer_bytes=64 << 10, dispatch_bytes=128 << 10, linger_seconds=0.2
    )

    async def scenario(harness: Harness) -> None:
        sender = await harness.peer()
        for number in range(200):
            await sender.say(send(b"q", b"%d" % number + b"x" * 99_000))
            await sender.hear()
        raw = deaf(harness)
        raw.sendall(consume(b"q", 200))
        await harness.until(lambda: any(not each.reading for each in harness.door.connections))
        (stuck,) = [each for each in harness.door.connections if not each.reading]
        assert stuck._transport is not None
        assert stuck._transport.get_write_buffer_size() < MIB
        assert harness.in_flight("q") < 100
        other = await harness.peer()
        await other.say(consume(b"q", 1))
        heard = await other.hear()
        assert int(heard.content.partition(b"x")[0]) > 0
        await other.say(ack(b"q", heard.id))
        await other.hear()
        await harness.until(lambda: harness.door.counts["not-reading"] == 1)
        await harness.until(lambda: harness.in_flight("q") == 1)
        raw.close()

    play(scenario, options=limits)


def test_a_sender_that_does_not_read_its_confirmations_is_read_no_further() -> None:
    """T-064, T-065."""
    limits = TextOptions(write_seconds=0.5, sweep_seconds=0.02, write_buffer_bytes=16 << 10)

    async def scenario(harness: Harness) -> None:
        raw = deaf(harness)
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        data = send(b"q", b"") * 1000

        async def pour() -> None:
            while True:  # the system buffers megabytes, so a shorter output might fit into its buffers
                await loop.sock_sendall(raw, data)

        sending = asyncio.ensure_future(pour())
        await harness.until(lambda: harness.door.counts["not-reading"] == 1)
        accepted = lookups.topic(harness.queue.engine, harness.names("q")[0]).tail
        assert 0 < accepted < 100_000
        with pytest.raises(OSError):
            await sending
        raw.close()

    play(scenario, options=limits)


def test_a_client_that_reads_slowly_but_reads_is_not_closed() -> None:
    """T-064: the time starts again whenever bytes are sent."""
    limits = TextOptions(write_seconds=0.3, sweep_seconds=0.02, write_buffer_bytes=16 << 10)

    async def scenario(harness: Harness) -> None:
        sender = await harness.peer()
        for _ in range(40):
            await sender.say(send(b"q", b"x" * 100_000))
            await sender.hear()
        raw = deaf(harness, 128 << 10)
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, consume(b"q", 40))
        received, wanted = 0, 40 * (100_000 + 8 + 3 * 36 + 1 + 32)
        while received < wanted:
            received += len(await asyncio.wait_for(loop.sock_recv(raw, 1 << 18), SECONDS))
            await asyncio.sleep(0.01)
        assert received == wanted
        assert harness.door.counts["not-reading"] == 0
        raw.close()

    play(scenario, options=limits)


def test_a_large_window_of_large_messages_is_sent_in_portions() -> None:
    """T-029, T-064: the server pulls only as many messages as fit."""
    limits = TextOptions(dispatch_bytes=300_000, write_buffer_bytes=64 << 10)

    async def scenario(harness: Harness) -> None:
        sender = await harness.peer()
        for _ in range(50):
            await sender.say(send(b"q", b"x" * 100_000))
            await sender.hear()
        raw = deaf(harness)
        raw.sendall(consume(b"q", 50))
        await harness.until(lambda: any(not each.reading for each in harness.door.connections))
        assert harness.in_flight("q") <= 40
        raw.close()

    play(scenario, options=limits)


def test_consumers_have_keep_alive() -> None:
    """T-062: a consumer's socket has keep-alive on."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.silence()
        (connection,) = harness.door.connections
        assert connection._transport is not None
        raw = connection._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60

    play(scenario)
