"""One stream of a connection: a request and its answer, within the peer's windows.

Data beyond the windows waits here and is charged to the memory budget. The sender of several messages awaits `drained`
between them. A stream that is over drops its receiver, so that no request outlives the work on it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Protocol

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.fields import Head
from penstock.doors.google.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, Http2StreamError
from penstock.doors.google.http2.sending import Sender
from penstock.wire.budget import Account, Budget


class Receiver(Protocol):
    """The receiver of the data of a stream."""

    def receive(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Handle the end of the request."""

    def expire(self) -> None:
        """Handle a request that is overdue and incomplete."""

    def abandon(self) -> None:
        """Handle a stream that ended before its answer: the peer cancelled or disconnected."""


class Wire(Protocol):
    """The interface between a stream and its connection."""

    sender: Sender
    budget: Budget

    @property
    def endpoint(self) -> str:
        """The address and the port of the peer."""

    def deadline(self, seconds: float) -> float:
        """Return when a request with this many seconds left is overdue, within the limit of all requests."""

    def queued(self, size: int) -> None:
        """Count bytes that wait for the peer's windows. A negative size: they no longer wait."""

    def abort(self) -> None:
        """Close the connection at once."""

    def release(self, stream: Stream, reset: bool) -> None:
        """Forget a stream that is over. `reset`: we ended it before the peer did."""


class Stream:
    __slots__ = (
        "__weakref__",
        "_account",
        "_drained",
        "_full",
        "_queue",
        "_queued",
        "_sender",
        "_sent",
        "_trailers",
        "_wire",
        "deadline",
        "head",
        "held",
        "local_ended",
        "missing",
        "number",
        "receiver",
        "remote_ended",
        "room",
        "window",
    )

    def __init__(self, wire: Wire, number: int, head: Head, room: int, window: int) -> None:
        self.number = number
        self.head = head
        self.room = room  # the peer's window for this stream
        self.window = window  # our window for this stream
        self.held = 0  # bytes received and not yet credited
        self.missing = head.content_length  # bytes of the body still to come. Negative: not announced
        self.deadline = math.inf  # for the rest of the request
        self.receiver: Receiver | None = None
        self.remote_ended = False
        self.local_ended = False
        self._full = window
        self._wire = wire
        self._sender = wire.sender
        self._account: Account | None = None  # for the data that waits here
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._sent = 0  # bytes of the first item of the queue
        self._trailers: bytes | None = None  # sent when the queue is empty. b"": end with an empty DATA frame
        self._drained: asyncio.Future[None] | None = None

    # Called to answer.

    def send_headers(self, block: bytes, *, end: bool = False) -> None:
        if not self.local_ended:
            flags, sender = END_HEADERS | (END_STREAM if end else 0), self._sender
            if sender.table_update:
                block = sender.block(block)
            sender.write(frames.frame(HEADERS, flags, self.number, block))
            if end:
                self._finish()

    def send(self, data: bytes) -> bool:
        """Send data. Return False if it exceeds the window and there is no memory to queue it."""
        if self.local_ended:
            return True
        size = len(data)
        if self._queue or size > self.room or not self._sender.fits(size):
            return self._enqueue(data)
        self._write(data)
        return True

    def send_trailers(self, block: bytes) -> None:
        if self.local_ended or self._trailers is not None:
            return
        self._trailers = block
        self._end_if_sent()

    def end(self) -> None:
        """Finish without trailers, after the queued data."""
        self.send_trailers(b"")

    def answer(self, head: bytes, data: bytes, trailers: bytes) -> bool:
        """Send a whole answer, in one write if it fits. Return False, with nothing sent, if there is no memory."""
        if self.local_ended:
            return True
        number, frame, sender, size = self.number, frames.frame, self._sender, len(data)
        if size > self.room or not sender.fits(size):
            if not self._charge(size):
                return False
            self.send_headers(head)
            self._enqueue(data, charged=True)
            self.send_trailers(trailers)
            return True
        self.room -= size
        sender.took(size)
        if sender.table_update:
            head = sender.block(head)
        sender.write(
            frame(HEADERS, END_HEADERS, number, head)
            + frame(DATA, 0, number, data)
            + frame(HEADERS, END_HEADERS | END_STREAM, number, trailers)
        )
        self._finish()
        return True

    def reset(self, code: int) -> None:
        """End the stream with an error. Queued data is dropped."""
        if not self.local_ended:
            self._sender.write(frames.rst_stream(self.number, code))
            self.drop(reset=True)

    def cut_off(self) -> None:
        """Abort the connection, as a broken network does, without notice to any of its streams."""
        self._wire.abort()

    async def drained(self) -> None:
        """Wait until no data is queued on this stream and the socket accepts more."""
        while self._queue and not self.local_ended:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        writable = self._sender.writable
        if writable is not None:
            await asyncio.wait([writable])

    def credit(self, size: int) -> None:
        """Count bytes that the receiver has processed."""
        self.held = max(0, self.held - size)

    @property
    def endpoint(self) -> str:
        return self._wire.endpoint

    def set_deadline(self, seconds: float | None) -> None:
        """Set the time for the rest of the request, within the limit of all requests. None: no deadline."""
        self.deadline = math.inf if seconds is None else self._wire.deadline(seconds)

    def refill(self, least: int) -> None:
        """Give window back to the peer, on a long-lived stream."""
        increment = self._full - self.window - self.held
        if increment >= least and not self.remote_ended:
            self.window += increment
            self._sender.write(frames.window_update(self.number, increment))

    # Called by the connection.

    def take(self, size: int, content: int) -> None:
        """Count a DATA frame of `size` bytes, including padding, with `content` bytes of content."""
        self.window -= size
        if self.window < 0:
            raise Http2StreamError(frames.FLOW_CONTROL_ERROR, "more data than the window of a stream allows")
        self.held += content
        if self.head.content_length >= 0:
            self.missing -= content
            if self.missing < 0:
                raise Http2StreamError(frames.PROTOCOL_ERROR, "more data than content-length")

    def end_of_request(self) -> None:
        self.remote_ended = True
        if self.missing > 0:
            raise Http2StreamError(frames.PROTOCOL_ERROR, "less data than content-length")

    def widen(self, increment: int) -> bool:
        """Change the peer's window. Return False if it exceeds the maximum."""
        self.room += increment
        if self._queue:
            self._sender.wait(self)
        return self.room <= frames.WINDOW_MAX

    def send_part(self) -> bool:
        """Send one frame of queued data. Return True if there is more, and room in the window of the stream."""
        first, sender = self._queue[0], self._sender
        size = min(len(first) - self._sent, self.room, sender.room, sender.frame_bytes)
        if size <= 0:
            return False
        part = first[self._sent : self._sent + size]
        self._sent += size
        if self._sent == len(first):
            self._queue.popleft()
            self._sent = 0
        self._queued -= size
        self._wire.queued(-size)
        if self._account is not None:
            self._account.release(size)
        self._write(part)
        if self._queue:
            return self.room > 0
        self._release_writer()
        self._end_if_sent()
        return False

    def drop(self, *, reset: bool = False) -> None:
        """End the stream. Queued data is dropped."""
        receiver = self.receiver
        self._over(reset=reset)
        if receiver is not None:
            receiver.abandon()

    def _write(self, data: bytes) -> None:
        self.room -= len(data)
        self._sender.took(len(data))
        self._sender.write(frames.frame(DATA, 0, self.number, data))

    def _enqueue(self, data: bytes, *, charged: bool = False) -> bool:
        if not charged and not self._charge(len(data)):
            return False
        self._queue.append(data)
        self._queued += len(data)
        self._wire.queued(len(data))
        if not self.local_ended:  # the connection may have been aborted
            self._sender.wait(self)
            self._sender.serve()
        return True

    def _charge(self, size: int) -> bool:
        if self._account is None:
            self._account = self._wire.budget.account(self._give_up)
        return self._account.charge(size)

    def _give_up(self) -> None:
        """Reset the stream, because its memory is needed. gRPC maps this code to RESOURCE_EXHAUSTED."""
        self.reset(frames.ENHANCE_YOUR_CALM)

    def _end_if_sent(self) -> None:
        if self._queue or self._trailers is None or self.local_ended:
            return
        if self._trailers:
            self.send_headers(self._trailers, end=True)
        else:
            self._sender.write(frames.frame(DATA, END_STREAM, self.number))
            self._finish()

    def _finish(self) -> None:
        reset = not self.remote_ended
        if reset:  # answered before the end of the request: the peer need not send the rest
            self._sender.write(frames.rst_stream(self.number, frames.NO_ERROR))
        self._over(reset=reset)

    def _over(self, *, reset: bool) -> None:
        self.local_ended = self.remote_ended = True
        self.receiver = None
        if self._account is not None:  # data was queued
            self._account.close()
            self._account = None
            self._wire.queued(-self._queued)
            self._queued = 0
            self._queue.clear()
            self._sender.leave(self)
            self._release_writer()
        self._wire.release(self, reset)

    def _release_writer(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
