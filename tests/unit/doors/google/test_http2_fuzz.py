"""Generated frames in any order: the connection continues or ends with an error of the peer, and leaves no memory.

A bug would end in INTERNAL_ERROR. Memory that stays charged, or a stream that stays open, would accumulate.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.doors.google.http2.limits import Http2Limits
from penstock.doors.google.http2.stream import Stream
from penstock.wire.budget import Budget
from tests.unit.doors.google.http2_wires import HEADERS, Line

NUMBERS = [0, 1, 1, 1, 2, 3, 3, 5, 7, 9, 99, h2.WINDOW_MAX]
SIZES = [0, 0, 1, 4, 5, 6, 8, 100, 5000, 70_000]
BLOCKS = [
    HEADERS,
    HEADERS + b"\x40\x01a\x01b",
    HEADERS + hpack.encode([("content-length", "100")]),
    hpack.encode([(":method", "GET")]),
    hpack.encode([("a", "b")]),
    b"\xbe",
    b"\x20",
    b"\xff\xff",
    b"",
]


def frame(source: random.Random) -> bytes:
    kind, flags = source.choice([*range(10), h2.DATA, h2.HEADERS, 0xEE]), source.choice([0, 1, 4, 5, 5, 8, 0x2D, 255])
    number = source.choice(NUMBERS)
    if kind in (h2.HEADERS, h2.CONTINUATION) and source.random() < 0.8:
        return h2.frame(kind, flags & 0x05, number, source.choice(BLOCKS))
    if kind == h2.SETTINGS and source.random() < 0.8:
        return h2.settings({source.randrange(1, 7): source.choice([0, 1, 4096, 65535, 1 << 20])})
    if kind == h2.WINDOW_UPDATE and source.random() < 0.8:
        return h2.window_update(number, source.choice([0, 1, 1000, 1 << 20, h2.WINDOW_MAX]))
    if kind == h2.RST_STREAM and source.random() < 0.8:
        return h2.rst_stream(number, 8)
    return h2.frame(kind, flags, number, source.randbytes(source.choice(SIZES)))


def act(line: Line, source: random.Random) -> None:
    """Act as a server on its open requests."""
    takers = [taker for taker in line.server.takers.values() if not taker.stream.local_ended]
    if not takers:
        return
    stream = source.choice(takers).stream
    size = source.choice([0, 10, 5000, 100_000])
    match source.randrange(6):
        case 0:
            stream.answer(b"\x88", b"x" * size, b"\x88")
        case 1:
            stream.send_headers(b"\x88")
            stream.send(b"x" * size)
        case 2:
            stream.end()
        case 3:
            stream.reset(h2.NO_ERROR)
        case 4:
            stream.credit(size)
            stream.refill(1)
        case _:
            line.server.now += 20
            line.connection.sweep(line.server.now)


def play(seed: int) -> None:
    source = random.Random(seed)
    budget = Budget(source.choice([0, 200_000]))
    line = Line(Http2Limits(streams_max=3), budget)
    for _ in range(60):
        line.feed(*[frame(source) for _ in range(source.randrange(1, 4))])
        act(line, source)
        if source.random() < 0.1:
            line.connection.pause_writing()
        if source.random() < 0.2 and line.connection.sender.writable is not None:
            line.connection.resume_writing()
        codes = [payload[4:8] for kind, _, _, payload in line.sent() if kind == h2.GOAWAY]
        assert h2.INTERNAL_ERROR.to_bytes(4, "big") not in codes, seed
        if line.transport.closed:
            break
    line.connection.connection_lost(None)
    assert budget.in_use_bytes == 0, seed
    assert not line.connection.streams
    assert all(taker.stream.receiver is None and taker.stream.local_ended for taker in line.server.takers.values())


async def _play(seeds: range) -> None:
    for seed in seeds:
        play(seed)


def test_no_frames_cause_an_internal_error_or_leave_memory(rounds: Callable[[int, int], int]) -> None:
    asyncio.run(_play(range(rounds(300, 20_000))))


def _streams_keep_their_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    over = Stream._over

    def planted(self: Stream, *, reset: bool) -> None:
        receiver = self.receiver
        over(self, reset=reset)
        self.receiver = receiver

    monkeypatch.setattr(Stream, "_over", planted)


def _answers_stay_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    over = Stream._over

    def planted(self: Stream, *, reset: bool) -> None:
        self._account = None
        over(self, reset=reset)

    monkeypatch.setattr(Stream, "_over", planted)


def _a_block_without_headers_is_not_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = hpack.Decoder.decode

    def planted(self: hpack.Decoder, block: bytes) -> list[hpack.Header]:
        headers = decode(self, block)
        return headers if headers[0] else []

    monkeypatch.setattr(hpack.Decoder, "decode", planted)


@pytest.mark.parametrize(
    "plant", [_streams_keep_their_receiver, _answers_stay_charged, _a_block_without_headers_is_not_expected]
)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        asyncio.run(_play(range(300)))
