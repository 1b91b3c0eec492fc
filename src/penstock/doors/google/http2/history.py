"""Which streams of a connection were, and how they ended, as far as a late frame has to be judged by it."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import Enum

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import Http2ConnectionError, Http2StreamError

_SKIPPED_MAX = 64  # ranges of streams that were left out


class State(Enum):
    IDLE = "idle"
    SKIPPED = "left out: a higher one was opened first"
    RESET_BY_PEER = "reset by the peer"
    RESET_BY_US = "reset by us, so that frames may be on their way"
    DONE = "ended by both sides"


class History:
    """Most streams end as DONE, so only the others are remembered, and of those the last.

    A peer that keeps to the number of streams we allow has seen the reset of a stream before it opens the one that
    takes its place: twice as many resets as streams are more than can matter.
    """

    def __init__(self, streams_max: int) -> None:
        self.last = 0  # the highest stream that was opened
        self.last_ignored = 0  # the highest stream that came after our GOAWAY
        self._resets_max = 2 * streams_max
        self._resets: OrderedDict[int, State] = OrderedDict()
        self._skipped: deque[range] = deque(maxlen=_SKIPPED_MAX)

    def open(self, number: int) -> None:
        first = self.last + 2 if self.last else 1
        if number > first:
            self._skipped.append(range(first, number, 2))
        self.last = number

    def reset(self, number: int, state: State) -> None:
        self._resets[number] = state
        if len(self._resets) > self._resets_max:
            self._resets.popitem(last=False)

    def state(self, number: int) -> State:
        """Of a stream that is not open."""
        if number > self.last or not number & 1:
            return State.RESET_BY_US if number & 1 and number <= self.last_ignored else State.IDLE
        known = self._resets.get(number)
        if known is not None:
            return known
        return State.SKIPPED if any(number in each for each in self._skipped) else State.DONE

    def check_known(self, number: int) -> None:
        """Refuse a frame for a stream that is idle."""
        if self.state(number) is State.IDLE:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "a frame for a stream that never was")

    def check_late(self, number: int, code_if_skipped: int) -> None:
        """DATA or HEADERS for a stream that is not open (RFC 9113, 5.1): pass only what may have been on its way."""
        self.check_known(number)
        state = self.state(number)
        if state is State.RESET_BY_PEER:
            raise Http2StreamError(frames.STREAM_CLOSED, "a frame after the reset")
        if state is not State.RESET_BY_US:
            code = frames.STREAM_CLOSED if state is State.DONE else code_if_skipped
            raise Http2ConnectionError(code, "a frame for a stream that is closed")
