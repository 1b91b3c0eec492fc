"""The work for frames, measured in executed lines of code instead of time.

The rule: the work is bounded for each byte that the peer sent, for each frame of the answer, and for each unit of the
flood budget. It does not depend on the number of open streams or on their state.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2.connection import Http2Connection
from penstock.doors.google.http2.limits import FloodBudget, Http2Limits
from penstock.doors.google.http2.sending import Sender
from tests.unit.doors.google.http2_wires import HEADERS, Line

STREAMS = 900
FRAMES = 600
FLOOD_BUDGET = 300  # small, so that the work allowed for it hides nothing
LINES_PER_BYTE, LINES_PER_FRAME_SENT, LINES_PER_PRICE = 12, 60, 40
LIMITS = Http2Limits(flood_budget=FLOOD_BUDGET, flood_budget_per_second=0, reset_price=5, refusal_price=5)


def blocked_by_connection(line: Line) -> None:
    """Give every stream an answer that waits for the window of the connection."""
    line.feed(h2.settings({4: 1 << 20}))
    for number in range(1, 2 * STREAMS, 2):
        line.open(number, end=True).stream.send(b"x" * 50_000)


def blocked_by_streams(line: Line) -> None:
    """Give every stream an answer that waits for the window of the stream."""
    line.feed(h2.settings({4: 0}), h2.window_update(0, 1 << 30))
    for number in range(1, 2 * STREAMS, 2):
        line.open(number, end=True).stream.send(b"x" * 50_000)


def receiving(line: Line) -> None:
    """Open streams in the middle of their requests."""
    for number in range(1, 2 * STREAMS, 2):
        line.open(number)
        line.feed(h2.frame(h2.DATA, 0, number, b"x" * 100))


STATES = [blocked_by_connection, blocked_by_streams, receiving]
LAST = 2 * STREAMS - 1


def _next(index: int) -> int:
    return LAST + 2 + 2 * index


KINDS: dict[str, Callable[[int], bytes]] = {
    "DATA, empty": lambda index: h2.frame(h2.DATA, 0, LAST),
    "DATA, a byte": lambda index: h2.frame(h2.DATA, 0, LAST, b"x"),
    "DATA, ends": lambda index: h2.frame(h2.DATA, h2.END_STREAM, 1 + 2 * (index % STREAMS), b"x"),
    "HEADERS, streams": lambda index: h2.frame(h2.HEADERS, h2.END_HEADERS, _next(index), HEADERS),
    "HEADERS, malformed": lambda index: h2.frame(h2.HEADERS, h2.END_HEADERS, _next(index), b"\x82"),
    "HEADERS and RST_STREAM": lambda index: (
        h2.frame(h2.HEADERS, h2.END_HEADERS, _next(index), HEADERS) + h2.rst_stream(_next(index), 8)
    ),
    "trailers": lambda index: h2.frame(h2.HEADERS, 5, 1 + 2 * (index % STREAMS)),
    "PRIORITY": lambda index: h2.frame(h2.PRIORITY, 0, 1, b"\0" * 5),
    "RST_STREAM": lambda index: h2.rst_stream(1 + 2 * (index % STREAMS), 8),
    "SETTINGS": lambda index: h2.settings({}),
    "SETTINGS, a window to and fro": lambda index: h2.settings({4: index % 2}),
    "SETTINGS, a growing window": lambda index: h2.settings({4: index}),
    "PING": lambda index: h2.frame(h2.PING, 0, 0, b"12345678"),
    "GOAWAY": lambda index: h2.frame(h2.GOAWAY, 0, 0, b"\0" * 8),
    "WINDOW_UPDATE, connection": lambda index: h2.window_update(0, 1),
    "WINDOW_UPDATE, connection, more": lambda index: h2.window_update(0, 1000),
    "WINDOW_UPDATE, a stream": lambda index: h2.window_update(LAST, 1),
    "WINDOW_UPDATE, streams": lambda index: h2.window_update(1 + 2 * (index % STREAMS), 1),
    "CONTINUATION": lambda index: (
        h2.frame(h2.HEADERS, 0, _next(index), HEADERS) + h2.frame(h2.CONTINUATION, 4, _next(index))
    ),
    "unknown": lambda index: h2.frame(0xEE, 0, 0, b"?"),
}


def lines_of(work: Callable[[], object]) -> int:
    """Return the number of executed lines of the project's code."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if "penstock" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def check(state: Callable[[Line], None], data: bytes) -> None:
    line = Line(LIMITS)
    state(line)
    line.sent()
    lines = lines_of(lambda: line.feed(data))
    leaving = len(line.sent())
    allowed = LINES_PER_BYTE * len(data) + LINES_PER_FRAME_SENT * leaving + LINES_PER_PRICE * FLOOD_BUDGET
    ended = line.transport.closed
    assert lines <= allowed + (STREAMS * LINES_PER_PRICE if ended else 0)  # the end of a connection ends its streams
    assert leaving <= len(data) + FLOOD_BUDGET  # and no more is sent than requested


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_work_for_a_frame_depends_on_its_content_only(kind: str, state: Callable[[Line], None]) -> None:
    async def scenario() -> None:
        check(state, b"".join(KINDS[kind](index) for index in range(FRAMES)))

    asyncio.run(scenario())


@pytest.mark.parametrize("state", STATES)
def test_the_work_for_frames_in_any_order_depends_on_their_content_only(
    state: Callable[[Line], None], rounds: Callable[[int, int], int]
) -> None:
    async def scenario() -> None:
        source = random.Random(20261115)
        for _ in range(rounds(4, 200)):
            chosen = source.sample(sorted(KINDS), 4)
            check(state, b"".join(KINDS[source.choice(chosen)](index) for index in range(FRAMES)))

    asyncio.run(scenario())


def test_an_answer_is_not_copied_for_every_byte_of_window() -> None:
    """An answer of 8 MiB is sent one byte at a time, and the rest is not copied."""

    async def scenario() -> None:
        line = Line(Http2Limits(flood_budget=10**9))
        line.feed(h2.settings({4: 0}))
        stream = line.open(1, end=True).stream
        answer = b"x" * (8 << 20)
        stream.send(answer)
        line.feed(*[h2.window_update(1, 1)] * 20_000)
        assert stream._queue[0] is answer

    asyncio.run(scenario())


# ---------------------------------------------------------------------- proof that the count can fail


def _every_update_looks_at_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Http2Connection._on_window_update

    def planted(self: Http2Connection, number: int, increment: int) -> None:
        original(self, number, increment)
        for stream in self.streams.values():
            stream.widen(0)

    monkeypatch.setattr(Http2Connection, "_on_window_update", planted)


def _settings_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FloodBudget.spend
    monkeypatch.setattr(FloodBudget, "spend", lambda self, price: original(self, min(price, 0)))


def _waiting_streams_are_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: Sender) -> None:
        for stream in list(self._waiting.values()):
            stream.send_part()

    monkeypatch.setattr(Sender, "serve", planted)


@pytest.mark.parametrize(
    ("plant", "kind", "state"),
    [
        (_every_update_looks_at_every_stream, "WINDOW_UPDATE, connection", blocked_by_connection),
        (_every_update_looks_at_every_stream, "WINDOW_UPDATE, a stream", receiving),
        (_settings_are_free, "SETTINGS, a window to and fro", receiving),
        (_waiting_streams_are_tried_again_and_again, "WINDOW_UPDATE, connection", blocked_by_connection),
    ],
)
def test_a_planted_walk_over_all_streams_is_found(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    state: Callable[[Line], None],
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_the_work_for_a_frame_depends_on_its_content_only(kind, state)
