"""What leaves on a connection: one write per turn of the loop, and DATA within the peer's windows.

Streams with something to send wait in a queue, and new window serves them one frame at a time in turn; no frame looks
at others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import Http2ConnectionError
from penstock.doors.google.http2.limits import FloodBudget, Http2Limits

_UNSENT_BYTES_MAX = 256 << 10  # then it is sent before the turn is over, so that the socket can say it is full
_BYTES_PER_EARNED = 4096  # of DATA we sent, for the updates and pings it will be answered with


class Sending(Protocol):
    """A stream that waits."""

    number: int
    room: int  # the peer's window for the stream

    def send_part(self) -> bool:
        """Send one frame; True if there is more, and window of the stream for it."""


class Sender:
    def __init__(self, limits: Http2Limits, flood: FloodBudget) -> None:
        self.room = frames.DEFAULT_WINDOW  # the peer's window for the whole connection
        self.frame_bytes = frames.DEFAULT_FRAME_BYTES  # the longest frame the peer takes
        self.writable: asyncio.Future[None] | None = None  # pending while the socket takes no more
        self._limits = limits
        self._flood = flood
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self.table_update = b""  # what the next header block has to begin with
        self._waiting: OrderedDict[int, Sending] = OrderedDict()

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """The connection is gone."""
        self._transport = None
        self._unsent, self._unsent_bytes = [], 0
        self._waiting.clear()
        self._release()

    def write(self, data: bytes) -> None:
        """Send, together with everything else that is written in this turn of the loop: a send costs much."""
        if self._transport is None or self._loop is None:
            return
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > _UNSENT_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and self._transport is not None:
            self._flood.earn(self._limits.earned_per_send)
            self._transport.write(b"".join(unsent) if len(unsent) > 1 else unsent[0])

    def fits(self, size: int) -> bool:
        """Whether so much DATA may leave in one frame now, as far as the connection goes."""
        return size <= self.room and size <= self.frame_bytes and self.writable is None

    def took(self, size: int) -> None:
        """So much DATA was written."""
        self.room -= size
        if size >= _BYTES_PER_EARNED:
            self._flood.earn(size // _BYTES_PER_EARNED)

    def block(self, block: bytes) -> bytes:
        """A header block as it goes out now."""
        if self.table_update:
            block, self.table_update = self.table_update + block, b""
        return block

    def shrink_table(self) -> None:
        """The peer allows a smaller table: we use none from now on, and have to say so (RFC 7541, 4.2)."""
        self.table_update = b"\x20"

    # Streams that wait for window.

    def widen(self, increment: int) -> None:
        """The peer takes more on the whole connection."""
        self.room += increment
        if not increment or self.room > frames.WINDOW_MAX:
            code = frames.FLOW_CONTROL_ERROR if increment else frames.PROTOCOL_ERROR
            raise Http2ConnectionError(code, "a window that cannot be")

    def wait(self, stream: Sending) -> None:
        if stream.room > 0:
            self._waiting[stream.number] = stream

    def leave(self, stream: Sending) -> None:
        self._waiting.pop(stream.number, None)

    def serve(self) -> None:
        """Send what the windows and the socket allow, a frame of each stream in turn."""
        waiting = self._waiting
        while waiting and self.room > 0 and self.writable is None:
            number, stream = waiting.popitem(last=False)
            if stream.send_part():
                waiting[number] = stream

    # The socket.

    def pause(self) -> None:
        self.writable = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        self._release()
        self.serve()

    def _release(self) -> None:
        writable, self.writable = self.writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
