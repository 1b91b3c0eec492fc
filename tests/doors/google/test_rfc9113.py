"""HTTP/2 by the book: every row of the tables, over a socket.

Each connection ends with a PING. The server's reaction is all that arrives before its answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby

import pytest

from penstock.doors.google.http2 import frames as h2
from tests.doors.google.harness import Harness
from tests.doors.google.rfc9113 import FRAMES, Answers, Closes, Resets, Row, Until
from tests.doors.google.rfc9113_streams import COMPRESSION, REQUESTS, STREAMS
from tests.doors.google.test_http2 import Peer, connected

LAST = b"the last"
ROWS = [*FRAMES, *STREAMS, *REQUESTS, *COMPRESSION]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.case}")
def test_a_row(harness: Harness, row: Row) -> None:
    with connected(harness) as peer:
        if row.section != "3.4":
            peer.greet()
        frames = list(reaction(peer, row))
    assert judged(row, frames)


def reaction(peer: Peer, row: Row) -> Iterator[tuple[int, int, int, bytes]]:
    """Return every frame of the server until it closes the connection or has answered everything."""
    for waits, parts in groupby(row.sent, lambda part: isinstance(part, Until)):
        if waits:
            yield from until_over(peer, 1)
        else:
            peer.send(*parts)  # in one write, so that the server answers nothing in between
    if isinstance(row.expected, Answers):
        yield from until_over(peer, 1)
    peer.send(h2.frame(h2.PING, 0, 0, LAST))
    while (frame := peer.next()) is not None:
        yield frame
        if frame[0] == h2.PING and frame[3] == LAST:
            return


def until_over(peer: Peer, number: int) -> Iterator[tuple[int, int, int, bytes]]:
    while (frame := peer.next()) is not None:
        yield frame
        kind, flags, stream, _ = frame
        if kind == h2.GOAWAY or (stream == number and (kind == h2.RST_STREAM or flags & h2.END_STREAM)):
            return


def judged(row: Row, frames: list[tuple[int, int, int, bytes]]) -> bool:
    goes_on = any(kind == h2.PING and payload == LAST for kind, _, _, payload in frames)
    closed = [struct.unpack(">LL", payload[:8])[1] for kind, _, _, payload in frames if kind == h2.GOAWAY]
    resets = [(h2.read_number(payload), stream) for kind, _, stream, payload in frames if kind == h2.RST_STREAM]
    errors = [each for each in resets if each[0] != h2.NO_ERROR]
    match row.expected:
        case Closes(code):
            assert (closed, goes_on) == ([code], False), frames
        case Resets(code, stream):
            assert (errors, closed, goes_on) == ([(code, stream)], [], True), frames
        case Answers(status):
            wanted = f"grpc-status{chr(len(status))}{status}".encode()
            assert any(wanted in payload for kind, _, stream, payload in frames if kind == h2.HEADERS), frames
            assert (errors, closed, goes_on) == ([], [], True), frames
        case _:
            assert (errors, closed, goes_on) == ([], [], True), frames
    return True
