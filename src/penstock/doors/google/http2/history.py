"""The closed streams of a connection and how they ended, to judge late frames."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import Enum

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import Http2ConnectionError, Http2StreamError

_SKIPPED_MAX = 64  # ranges of skipped stream numbers


class State(Enum):
    IDLE = "idle"
    SKIPPED = "skipped: a higher stream was opened first"
    RESET_BY_PEER = "reset by the peer"
    RESET_BY_US = "reset by us: late frames are possible"
    DONE = "ended by both sides"


class History:
    """The ends of streams. Most streams end as DONE, so only the latest others are recorded.

    A peer that respects our limit of streams has seen the reset of a stream before it opens its successor. So twice as
    many resets as streams are enough.
    """

    def __init__(self, streams_max: int) -> None:
        self.last = 0  # the highest opened stream
        self.last_ignored = 0  # the highest stream that was opened after our GOAWAY
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
        """Return the state of a stream that is not open."""
        if number > self.last or not number & 1:
            return State.RESET_BY_US if number & 1 and number <= self.last_ignored else State.IDLE
        reset = self._resets.get(number)
        if reset is not None:
            return reset
        return State.SKIPPED if any(number in numbers for numbers in self._skipped) else State.DONE

    def check_known(self, number: int) -> None:
        """Refuse a frame for an idle stream."""
        if self.state(number) is State.IDLE:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "a frame for a stream that was never opened")

    def check_late(self, number: int, code_if_skipped: int) -> None:
        """Refuse DATA or HEADERS for a closed stream, unless it may have been sent before our reset (RFC 9113, 5.1)."""
        self.check_known(number)
        state = self.state(number)
        if state is State.RESET_BY_PEER:
            raise Http2StreamError(frames.STREAM_CLOSED, "a frame after the reset")
        if state is not State.RESET_BY_US:
            code = frames.STREAM_CLOSED if state is State.DONE else code_if_skipped
            raise Http2ConnectionError(code, "a frame for a closed stream")
