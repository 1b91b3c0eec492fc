"""An HTTP/2 connection without a socket, a server without methods, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.doors.google.http2.connection import Http2Connection
from penstock.doors.google.http2.limits import Http2Limits
from penstock.doors.google.http2.stream import Stream
from penstock.wire.budget import Budget
from penstock.wire.serving import Connections

HEADERS = hpack.encode([(":method", "POST"), (":scheme", "http"), (":path", "/x")])


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Taker:
    """A receiver that answers when the test tells it to."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.received = 0
        self.ended = ""

    def receive(self, data: bytes) -> None:
        self.received += len(data)

    def finish(self) -> None:
        self.ended = "finished"

    def expire(self) -> None:
        self.stream.reset(h2.NO_ERROR)
        self.ended = "expired"

    def abandon(self) -> None:
        self.ended = "abandoned"


class Server:
    def __init__(self, limits: Http2Limits | None = None, budget: Budget | None = None) -> None:
        self.limits = limits or Http2Limits()
        self.log = logging.getLogger("tests.http2")
        self.now = 1000.0
        self.budget = budget or Budget()
        self.takers: dict[int, Taker] = {}
        self.refused: Counter[str] = Counter()
        self.connections = Connections(log=self.log, counts=self.refused, clock=self.clock)

    def clock(self) -> float:
        return self.now

    def accept(self, stream: Stream) -> Taker:
        self.takers[stream.number] = Taker(stream)
        return self.takers[stream.number]


class Line:
    """A connection and its peer, inside a running event loop."""

    def __init__(self, limits: Http2Limits | None = None, budget: Budget | None = None, *, greets: bool = True) -> None:
        self.server = Server(limits, budget)
        self.transport = Transport()
        self.connection = Http2Connection(self.server)
        self.connection.connection_made(self.transport)
        if greets:
            self.feed(h2.PREFACE, h2.settings({}))

    def feed(self, *data: bytes) -> None:
        """Feed frames in one piece, as a socket would."""
        self.connection.data_received(b"".join(data))

    def open(self, number: int, *, end: bool = False) -> Taker:
        flags = h2.END_HEADERS | (h2.END_STREAM if end else 0)
        self.feed(h2.frame(h2.HEADERS, flags, number, HEADERS))
        return self.server.takers[number]

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        """Return the frames since the last call."""
        self.connection.sender.flush()
        data, self.transport.written = b"".join(self.transport.written), []
        return list(h2.FrameReader(1 << 24).feed(data))
