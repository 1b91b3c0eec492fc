"""One stream of a connection: a request that comes in and an answer that goes out, within the peer's windows.

The rule kept here: nothing is sent that the peer gave no room for. What does not fit waits here, and whoever writes
more than one answer waits for `drained` first, so at most one answer per stream waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS
from penstock.doors.google.http2.hpack import Header


class Receiver(Protocol):
    """Who takes what arrives on a stream."""

    def receive(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """The peer has sent everything."""

    def abandon(self) -> None:
        """The stream is over before its answer was: the peer cancelled, or is gone."""


class Wire(Protocol):
    """What a stream needs of its connection."""

    room: int  # the peer's window for the whole connection
    frame_bytes: int  # the longest frame the peer takes

    def write(self, data: bytes) -> None: ...

    def queued(self, size: int) -> None:
        """So many bytes more (or fewer) wait for the peer's windows."""

    def credit(self, size: int) -> None:
        """So many bytes of requests are no longer held."""

    def release(self, stream: Stream) -> None: ...

    @property
    def writable(self) -> asyncio.Future[None] | None:
        """Pending while the socket takes no more."""


class Stream:
    __slots__ = (
        "_drained",
        "_queue",
        "_trailers",
        "_wire",
        "headers",
        "held",
        "local_ended",
        "number",
        "receiver",
        "remote_ended",
        "room",
        "window",
    )

    def __init__(self, wire: Wire, number: int, headers: list[Header], room: int, window: int) -> None:
        self.number = number
        self.headers = headers
        self.room = room  # what the peer takes of this stream
        self.window = window  # what we still take
        self.held = 0  # bytes received and not yet credited
        self.receiver: Receiver | None = None
        self.remote_ended = False
        self.local_ended = False
        self._wire = wire
        self._queue: deque[bytes] = deque()
        self._trailers: bytes | None = None  # sent once the queue is empty; empty ones end it with a bare frame
        self._drained: asyncio.Future[None] | None = None

    # What the one who answers calls.

    def send_headers(self, block: bytes, *, end: bool = False) -> None:
        if not self.local_ended:
            self._wire.write(frames.frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), self.number, block))
            if end:
                self._finish()

    def send(self, data: bytes) -> None:
        if self.local_ended:
            return
        if self._queue or not self._fits(len(data)):
            self._queue.append(data)
            self._wire.queued(len(data))
            self.flush()
        else:
            self._take_room(len(data))
            self._wire.write(frames.frame(DATA, 0, self.number, data))

    def send_trailers(self, block: bytes) -> None:
        if self.local_ended or self._trailers is not None:
            return
        self._trailers = block
        self.flush()

    def end(self) -> None:
        """Finish without trailers, after what waits has gone out."""
        if not self.local_ended and self._trailers is None:
            self._trailers = b""
            self.flush()

    def answer(self, head: bytes, data: bytes, trailers: bytes) -> None:
        """Everything at once, the common case in one write."""
        if self.local_ended:
            return
        if self._queue or not self._fits(len(data)):
            self.send_headers(head)
            self.send(data)
            self.send_trailers(trailers)
            return
        self._take_room(len(data))
        number, frame = self.number, frames.frame
        self._wire.write(
            frame(HEADERS, END_HEADERS, number, head)
            + frame(DATA, 0, number, data)
            + frame(HEADERS, END_HEADERS | END_STREAM, number, trailers)
        )
        self._finish()

    def reset(self, code: int) -> None:
        if not self.local_ended:
            self.local_ended = self.remote_ended = True
            self._wire.write(frames.rst_stream(self.number, code))
            self._wire.release(self)

    async def drained(self) -> None:
        """Until nothing of ours waits on this stream and the socket takes more."""
        while self._queue and not self.local_ended:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        writable = self._wire.writable
        if writable is not None:
            await asyncio.wait([writable])

    def credit(self, size: int) -> None:
        """The receiver is done with bytes it was given."""
        size = min(size, self.held)
        self.held -= size
        self._wire.credit(size)

    def refill(self, least: int, full: int) -> None:
        """Give the peer its window back, for a stream that goes on for long."""
        if not self.remote_ended and full - self.window - self.held >= least:
            increment = full - self.window - self.held
            self.window += increment
            self._wire.write(frames.window_update(self.number, increment))

    # What the connection calls.

    def flush(self) -> None:
        """Send what the windows allow."""
        queue, wire = self._queue, self._wire
        while queue:
            size = min(len(queue[0]), self.room, wire.room, wire.frame_bytes)
            if size <= 0 and queue[0]:
                return
            part = queue[0][:size]
            if size < len(queue[0]):
                queue[0] = queue[0][size:]
            else:
                queue.popleft()
            self._take_room(size)
            wire.queued(-size)
            wire.write(frames.frame(DATA, 0, self.number, part))
        self._release_writer()
        if self._trailers is not None and not self.local_ended:
            wire.write(self._ending(self._trailers))
            self._finish()

    def drop(self) -> None:
        """The stream is over, whatever still waited."""
        self.local_ended = self.remote_ended = True
        self._wire.queued(-sum(len(part) for part in self._queue))
        self._queue.clear()
        self._release_writer()
        self.credit(self.held)
        if self.receiver is not None:
            self.receiver.abandon()

    def _ending(self, trailers: bytes) -> bytes:
        if trailers:
            return frames.frame(HEADERS, END_HEADERS | END_STREAM, self.number, trailers)
        return frames.frame(DATA, END_STREAM, self.number)

    def _fits(self, size: int) -> bool:
        return size <= self.room and size <= self._wire.room and size <= self._wire.frame_bytes

    def _take_room(self, size: int) -> None:
        self.room -= size
        self._wire.room -= size

    def _finish(self) -> None:
        self.local_ended = True
        if not self.remote_ended:  # answered before the request was whole: the rest need not be sent
            self._wire.write(frames.rst_stream(self.number, frames.NO_ERROR))
            self.remote_ended = True
        self._wire.release(self)

    def _release_writer(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
