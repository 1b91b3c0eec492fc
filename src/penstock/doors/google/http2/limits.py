"""What a peer of an HTTP/2 connection may use, what its frames cost, and what a connection needs of its server."""

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
    frames.DATA: 0,  # an empty one that ends nothing costs 1
    frames.HEADERS: 0,  # streams are limited by their number, and what becomes of them has its price
    frames.PRIORITY: 1,
    frames.RST_STREAM: 1,  # of an open stream: `reset_price`
    frames.SETTINGS: 1,  # a change of the window: 1 more for every open stream
    frames.PUSH_PROMISE: 1,
    frames.PING: 1,
    frames.GOAWAY: 1,
    frames.WINDOW_UPDATE: 1,
    frames.CONTINUATION: 1,
}
OTHER_PRICE = 1  # of frames RFC 9113 does not know


@dataclass(frozen=True, slots=True)
class Http2Limits:
    streams_max: int = 1000  # open at a time; clients put every subscriber and publisher on one connection
    frame_bytes_max: int = 1 << 20
    stream_window: int = 16 << 20  # beyond the largest message, so that no request stalls half way
    connection_window: int = 64 << 20  # on its way to us; what has arrived is charged to the memory budget
    queued_bytes_max: int = 64 << 20  # of answers the peer gives no window for
    header_block_max: int = 64 << 10
    flood_budget: int = 20_000  # the price of frames without progress at once, and
    flood_budget_per_second: int = 5_000
    earned_per_send: int = 8  # when we send something, so that pings that follow our data cost nothing
    earned_per_stream: int = 4
    reset_price: int = 50  # of a cancelled stream, and of a stream error
    refusal_price: int = 10  # of a request that is answered by its headers alone
    preface_seconds: float = 10  # absolute, from the connect to the first SETTINGS; also for a header block
    body_seconds: float = 30  # absolute, from the headers of a request to its end
    silence_seconds: float = 60  # then we ping
    answer_seconds: float = 30  # to a ping, and how long a peer may leave what we send unread
    linger_seconds: float = 2  # after GOAWAY: how long input is thrown away, so that the GOAWAY arrives

    def announced(self) -> dict[int, int]:
        """The SETTINGS we begin with."""
        return {
            frames.SETTING_STREAMS_MAX: self.streams_max,
            frames.SETTING_INITIAL_WINDOW: self.stream_window,
            frames.SETTING_FRAME_BYTES: self.frame_bytes_max,
            frames.SETTING_HEADERS_BYTES: self.header_block_max,
        }


class FloodBudget:
    """What each type of frame costs, so that cheap frames are not repeated without end.

    Frames that move a request or an answer forward earn something, time restores the rest. DATA is paid for by its
    bytes, which the windows count. A frame whose work grows with the streams it touches is charged for each of them.
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
            raise Http2ConnectionError(frames.ENHANCE_YOUR_CALM, "too many frames that lead nowhere", "flood")

    def earn(self, gain: int) -> None:
        self._left = min(self._left + gain, self._most)


class Http2Host(Protocol):
    """What a connection needs of its server."""

    limits: Http2Limits
    log: logging.Logger
    clock: Callable[[], float]
    budget: Budget
    connections: Connections

    def accept(self, stream: Stream) -> Receiver | None:
        """Who takes the request; None if it was answered already."""
