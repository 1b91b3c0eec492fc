"""The limits of HTTP/2 connections, the prices of frames, and the interface to the server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import Http2ConnectionError
from penstock.wire.budget import Budget
from penstock.wire.serving import Connections

if TYPE_CHECKING:
    from penstock.doors.google.http2.stream import Receiver, Stream


PRICES = {
    frames.DATA: 0,  # an empty frame without END_STREAM costs 1
    frames.HEADERS: 0,  # the number of streams is limited, and resets and refusals have a price
    frames.PRIORITY: 1,
    frames.RST_STREAM: 1,  # `reset_price` for an open stream
    frames.SETTINGS: 1,  # a change of the window costs 1 more for every open stream
    frames.PUSH_PROMISE: 1,
    frames.PING: 1,
    frames.GOAWAY: 1,
    frames.WINDOW_UPDATE: 1,
    frames.CONTINUATION: 1,
}
OTHER_PRICE = 1  # of unknown frame types


@dataclass(frozen=True, slots=True)
class Http2Limits:
    streams_max: int = 1000  # open at a time. Clients use one connection for all subscribers and publishers
    frame_bytes_max: int = 1 << 20
    stream_window: int = 16 << 20  # more than the largest message, so that no request stalls
    connection_window: int = 64 << 20  # for data in transit. Received data is charged to the memory budget
    queued_bytes_max: int = 64 << 20  # of answers that wait for the window of the peer
    header_block_max: int = 64 << 10
    flood_budget: int = 20_000  # sum of the prices of frames without progress
    flood_budget_per_second: int = 5_000
    earned_per_send: int = 8  # for each send of ours, so that pings that follow our data cost nothing
    earned_per_stream: int = 4
    reset_price: int = 50  # of a reset by the peer, and of a stream error
    refusal_price: int = 10  # of a request that is refused because of its headers
    preface_seconds: float = 10  # from the connect to the first SETTINGS. Also for a header block
    body_seconds: float = 30  # from the headers of a request to its end
    silence_seconds: float = 60  # of silence before we ping
    answer_seconds: float = 30  # for the answer to a ping. Also how long a peer may leave our data unread
    linger_seconds: float = 2  # after GOAWAY, discarding input so that the GOAWAY arrives

    def announced(self) -> dict[int, int]:
        """Return the SETTINGS that we announce."""
        return {
            frames.SETTING_STREAMS_MAX: self.streams_max,
            frames.SETTING_INITIAL_WINDOW: self.stream_window,
            frames.SETTING_FRAME_BYTES: self.frame_bytes_max,
            frames.SETTING_HEADERS_BYTES: self.header_block_max,
        }


class FloodBudget:
    """A budget for frames, so that a peer cannot repeat cheap frames without end.

    Every frame type has a price. Progress of a request or an answer earns something, and time restores the rest. The
    windows limit DATA. A frame whose work grows with the number of streams costs 1 more for each stream.
    """

    __slots__ = ("_at", "_clock", "_left", "_most", "_per_second")

    def __init__(self, limits: Http2Limits, clock: Callable[[], float]) -> None:
        self._most = float(limits.flood_budget)
        self._per_second = limits.flood_budget_per_second
        self._left = self._most
        self._clock = clock
        self._at = clock()

    def spend(self, price: int) -> None:
        self._left -= price
        if self._left < 0:
            now = self._clock()
            regained = (now - self._at) * self._per_second
            self._left, self._at = min(self._left + regained, self._most), now
        if self._left < 0:
            raise Http2ConnectionError(frames.ENHANCE_YOUR_CALM, "too many frames without progress", "flood")

    def earn(self, gain: int) -> None:
        self._left = min(self._left + gain, self._most)


class Http2Host(Protocol):
    """The interface between a connection and its server."""

    limits: Http2Limits
    log: logging.Logger
    clock: Callable[[], float]
    budget: Budget
    connections: Connections

    def accept(self, stream: Stream) -> Receiver | None:
        """Return the receiver of a request, or None if the request was answered already."""
