"""One connection with a clock that the test moves: deadlines, windows, memory, the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.doors.google.http2.limits import Http2Limits
from penstock.wire.budget import Budget
from tests.unit.doors.google.http2_wires import HEADERS, Line


def in_a_loop(scenario: Callable[[], Any]) -> Callable[[], None]:
    async def run() -> None:
        done = scenario()
        if isinstance(done, Awaitable):
            await done

    def test() -> None:
        asyncio.run(run())

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


def kinds(line: Line) -> list[tuple[int, int]]:
    return [(kind, number) for kind, _, number, _ in line.sent()]


@in_a_loop
def test_a_body_has_a_deadline_from_its_headers() -> None:
    """Single bytes do not move the deadline, and other streams of the connection continue."""
    line = Line()
    slow, other = line.open(1), line.open(3, end=True)
    for _ in range(29):
        line.server.now += 1
        line.feed(h2.frame(h2.DATA, 0, 1, b"x"))
        line.connection.sweep(line.server.now)
    assert slow.ended == ""
    line.server.now += 2
    line.connection.sweep(line.server.now)
    assert (slow.ended, other.ended) == ("expired", "finished")
    assert line.server.refused["request_overdue"] == 1
    assert not line.transport.closed


@in_a_loop
def test_a_stream_may_shorten_its_deadline_and_never_lengthen_it() -> None:
    line = Line()
    short, long, endless = line.open(1), line.open(3), line.open(5)
    short.stream.set_deadline(0.004)
    long.stream.set_deadline(99999)
    endless.stream.set_deadline(None)
    line.server.now += 1
    line.connection.sweep(line.server.now)
    assert (short.ended, long.ended) == ("expired", "")
    line.server.now += 30
    line.feed(h2.frame(h2.PING, 0, 0, b"12345678"))
    line.connection.sweep(line.server.now)
    assert (long.ended, endless.ended) == ("expired", "")


@pytest.mark.parametrize("sent", [b"", h2.PREFACE[:10], h2.PREFACE])
def test_the_preface_has_a_deadline(sent: bytes) -> None:
    async def scenario() -> None:
        line = Line(greets=False)
        line.feed(sent[:1])
        line.server.now += 9
        line.feed(sent[1:])
        line.connection.sweep(line.server.now)
        assert not line.transport.closed
        line.server.now += 2
        line.connection.sweep(line.server.now)
        assert line.transport.closed

    asyncio.run(scenario())


@in_a_loop
def test_a_header_block_has_a_deadline() -> None:
    line = Line()
    line.feed(h2.frame(h2.HEADERS, 0, 1, HEADERS))
    line.server.now += 9
    line.feed(h2.frame(h2.CONTINUATION, 0, 1))
    line.connection.sweep(line.server.now)
    assert not line.transport.closed
    line.server.now += 2
    line.connection.sweep(line.server.now)
    assert line.transport.closed


@in_a_loop
def test_a_frame_has_a_deadline() -> None:
    """A peer that sends half a frame and then single bytes cannot keep the connection open forever."""
    line = Line()
    line.open(1).stream.set_deadline(None)
    frame = h2.frame(h2.DATA, 0, 1, b"x" * 1000)
    line.feed(frame[:100])
    for at in range(100, 140):
        line.server.now += 1
        line.feed(frame[at : at + 1])
        line.connection.sweep(line.server.now)
    assert line.transport.closed


@in_a_loop
def test_more_data_than_the_window_of_a_stream_is_an_error_of_the_stream() -> None:
    """RFC 9113, 6.9.1."""
    line = Line(Http2Limits(stream_window=1000))
    taker = line.open(1)
    line.feed(h2.frame(h2.DATA, 0, 1, b"x" * 1001))
    assert (h2.RST_STREAM, 0, 1, h2.FLOW_CONTROL_ERROR.to_bytes(4, "big")) in line.sent()
    assert taker.ended == "abandoned"
    assert line.open(3)


@in_a_loop
def test_more_data_than_the_window_of_the_connection_is_an_error_of_the_connection() -> None:
    line = Line(Http2Limits(connection_window=70_000))
    line.open(1)
    line.feed(h2.frame(h2.DATA, 0, 1, b"x" * 70_001))
    assert line.sent()[-1][0] == h2.GOAWAY


@in_a_loop
def test_a_grown_window_serves_waiting_streams_in_turn() -> None:
    """Each stream sends one frame at a time, so a long answer does not delay the others."""
    line = Line()
    line.feed(h2.settings({4: 1 << 20}), h2.window_update(0, 1))
    first = line.open(1, end=True).stream
    first.send(b"x" * 65536)  # the whole window of the connection
    for number in (3, 5, 7):
        line.open(number, end=True).stream.send(b"x" * 40_000)
    line.sent()
    line.feed(h2.window_update(0, 16384 * 6))
    assert kinds(line) == [(h2.DATA, number) for number in (3, 5, 7, 3, 5, 7)]
    line.feed(h2.window_update(0, 1))
    assert kinds(line) == [(h2.DATA, 3)]


@in_a_loop
def test_a_smaller_window_by_settings_holds_for_open_streams() -> None:
    """RFC 9113, 6.9.2: a window may become negative."""
    line = Line()
    stream = line.open(1, end=True).stream
    stream.send(b"x" * 10_000)
    line.feed(h2.settings({4: 0}))
    stream.send(b"y" * 100)
    line.sent()
    line.feed(h2.window_update(1, 10_000))
    assert kinds(line) == []
    line.feed(h2.window_update(1, 60))
    assert [len(payload) for kind, _, _, payload in line.sent() if kind == h2.DATA] == [60]
    line.feed(h2.settings({4: 40}))
    assert [len(payload) for kind, _, _, payload in line.sent() if kind == h2.DATA] == [40]


@in_a_loop
def test_nothing_is_sent_while_the_socket_is_full() -> None:
    line = Line()
    line.feed(h2.settings({4: 1 << 20}), h2.window_update(0, 1 << 20))
    line.connection.pause_writing()
    streams = [line.open(number, end=True).stream for number in (1, 3)]
    line.sent()
    for stream in streams:
        stream.answer(b"\x88", b"x" * 100, b"\x88")
    assert (h2.DATA, 1) not in kinds(line)
    line.connection.resume_writing()
    assert [each for each in kinds(line) if each[0] == h2.DATA] == [(h2.DATA, 1), (h2.DATA, 3)]


@in_a_loop
def test_a_peer_with_a_smaller_table_gets_a_table_size_of_zero() -> None:
    """RFC 7541, 4.2: the next header block begins with the new size."""
    line = Line()
    line.feed(h2.settings({1: 0}))
    for number, begins in ((1, b"\x20\x88"), (3, b"\x88")):
        line.open(number, end=True).stream.answer(hpack.encode([(":status", "200")]), b"x", b"\x88")
        blocks = [payload for kind, _, _, payload in line.sent() if kind == h2.HEADERS]
        assert blocks == [begins, b"\x88"]


@in_a_loop
def test_the_memory_of_a_connection_is_charged_and_released() -> None:
    """Open streams, cached headers and incomplete frames are charged."""
    budget = Budget(64 << 20)
    line = Line(budget=budget)
    empty = budget.in_use_bytes
    for number in range(1, 201, 2):
        line.open(number)
    with_streams = budget.in_use_bytes
    assert with_streams >= empty + 100 * 4096
    line.feed(h2.frame(h2.DATA, 0, 1, b"x" * 900_000)[:800_000])
    assert budget.in_use_bytes >= with_streams + 780_000
    line.connection.connection_lost(None)
    assert budget.in_use_bytes == 0


@in_a_loop
def test_a_connection_that_finds_no_memory_is_closed_with_a_reason() -> None:
    line = Line(budget=Budget(100_000))
    for number in range(1, 101, 2):
        line.feed(h2.frame(h2.HEADERS, h2.END_HEADERS, number, HEADERS))
    last = line.sent()[-1]
    assert (last[0], last[3][4:8]) == (h2.GOAWAY, h2.ENHANCE_YOUR_CALM.to_bytes(4, "big"))
    assert line.server.refused["out_of_memory"] == 1


@in_a_loop
async def test_answers_of_others_are_given_up_before_a_quick_one_is() -> None:
    """The oldest waiting stream is reset. gRPC maps the code to RESOURCE_EXHAUSTED."""
    now = 0.0
    budget = Budget(200_000, clock=lambda: now)
    line = Line(budget=budget)
    line.feed(h2.settings({4: 0}))
    slow, quick = line.open(1, end=True), line.open(3, end=True)
    assert slow.stream.answer(b"\x88", b"x" * 150_000, b"\x88")
    now = 6.0
    assert quick.stream.answer(b"\x88", b"x" * 100_000, b"\x88")
    assert (h2.RST_STREAM, 0, 1, h2.ENHANCE_YOUR_CALM.to_bytes(4, "big")) in line.sent()
    assert slow.ended == "abandoned"


@in_a_loop
def test_input_after_goaway_is_discarded_until_the_peer_has_read_it() -> None:
    """If the connection were closed with unread input, the kernel would drop the GOAWAY."""
    line = Line()
    line.transport.can_write_eof = lambda: True  # type: ignore[method-assign]
    line.transport.write_eof = lambda: None  # type: ignore[method-assign]
    line.feed(h2.frame(h2.PING, 0, 1, b"12345678"))
    assert line.sent()[-1][0] == h2.GOAWAY
    line.feed(h2.frame(h2.PING, 0, 0, b"12345678"))
    assert (line.sent(), line.transport.closed) == ([], False)
    line.server.now += 3
    line.connection.sweep(line.server.now)
    assert line.transport.closed


@in_a_loop
def test_late_frames_for_streams_we_ended_are_ignored_for_long() -> None:
    """A thousand streams are answered before their requests end, and late frames of the first arrive last."""
    line = Line(Http2Limits(flood_budget=10**6))
    for number in range(1, 2001, 2):
        line.open(number).stream.send_headers(b"\x88", end=True)
    line.feed(*[h2.frame(h2.DATA, 0, number, b"x") for number in range(1, 2001, 2)])
    assert h2.GOAWAY not in [kind for kind, _, _, _ in line.sent()]
