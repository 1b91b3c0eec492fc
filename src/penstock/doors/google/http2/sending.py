"""The sending side of a connection: one write per turn of the event loop, and DATA within the peer's windows.

Streams with data to send wait in a queue. When the window grows, they send one frame each in turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import Http2ConnectionError
from penstock.doors.google.http2.limits import FloodBudget, Http2Limits

_UNSENT_BYTES_MAX = 256 << 10  # beyond this, data is sent before the turn ends, so that the socket can apply pressure
_BYTES_PER_EARNED = 4096  # of DATA sent, in return for the window updates and pings that the peer answers with


class Sending(Protocol):
    """A stream with data to send."""

    number: int
    room: int  # the peer's window for the stream

    def send_part(self) -> bool:
        """Send one frame. Return True if there is more data, and room in the window of the stream."""


class Sender:
    def __init__(self, limits: Http2Limits, flood: FloodBudget) -> None:
        self.room = frames.DEFAULT_WINDOW  # the peer's window for the whole connection
        self.frame_bytes = frames.DEFAULT_FRAME_BYTES  # the longest frame that the peer accepts
        self.writable: asyncio.Future[None] | None = None  # pending while the socket is full
        self._limits = limits
        self._flood = flood
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self.table_update = b""  # bytes that the next header block must begin with
        self._waiting: OrderedDict[int, Sending] = OrderedDict()

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Drop everything, because the connection is closed."""
        self._transport = None
        self._unsent, self._unsent_bytes = [], 0
        self._waiting.clear()
        self._release()

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn of the event loop, in one call of the socket, which is expensive."""
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
        """Return whether the connection has room for one DATA frame of this size now."""
        return size <= self.room and size <= self.frame_bytes and self.writable is None

    def took(self, size: int) -> None:
        """Count DATA that was written."""
        self.room -= size
        if size >= _BYTES_PER_EARNED:
            self._flood.earn(size // _BYTES_PER_EARNED)

    def block(self, block: bytes) -> bytes:
        """Return a header block, after an owed change of the table size."""
        if self.table_update:
            block, self.table_update = self.table_update + block, b""
        return block

    def shrink_table(self) -> None:
        """Announce a table of size 0, because the peer allows only a smaller table (RFC 7541, 4.2)."""
        self.table_update = b"\x20"

    # Streams that wait for the window.

    def widen(self, increment: int) -> None:
        """Grow the window of the connection."""
        self.room += increment
        if not increment or self.room > frames.WINDOW_MAX:
            code = frames.FLOW_CONTROL_ERROR if increment else frames.PROTOCOL_ERROR
            raise Http2ConnectionError(code, "an invalid window")

    def wait(self, stream: Sending) -> None:
        if stream.room > 0:
            self._waiting[stream.number] = stream

    def leave(self, stream: Sending) -> None:
        self._waiting.pop(stream.number, None)

    def serve(self) -> None:
        """Send one frame of each waiting stream in turn, as far as the windows and the socket allow."""
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
