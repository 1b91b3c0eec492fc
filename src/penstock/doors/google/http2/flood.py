"""The flood budget of a connection: what each type of frame costs, so that cheap frames are not repeated without end.

Frames that move a request or an answer forward earn something, time restores the rest. DATA is paid for by its bytes,
which the windows count. A frame whose work grows with the streams it touches is charged for each of them on top.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import Http2ConnectionError
from penstock.doors.google.http2.limits import Http2Limits

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


class FloodBudget:
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
