"""One stream of a connection: a request that comes in and an answer that goes out, within the peer's windows.

What does not fit into the windows waits here, charged to the memory budget; a writer of more than one answer awaits
`drained` first. When the stream is over it drops its receiver, so that nothing of a request outlives the work on it.
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
    """Takes what arrives on a stream."""

    def receive(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """The peer has sent everything."""

    def expire(self) -> None:
        """The time for the request is over, and it is not whole."""

    def abandon(self) -> None:
        """The stream is over before its answer was: the peer cancelled, or is gone."""


class Wire(Protocol):
    """What a stream needs of its connection."""

    sender: Sender
    budget: Budget

    @property
    def endpoint(self) -> str:
        """Address and port of the peer."""

    def deadline(self, seconds: float) -> float:
        """When a request is overdue that has so many seconds left, or as many as any has."""

    def queued(self, size: int) -> None:
        """So many bytes more (or fewer) wait for the peer's windows."""

    def abort(self) -> None:
        """Close the connection at once."""

    def release(self, stream: Stream, reset: bool) -> None:
        """The stream is over; `reset`: we ended it before the peer did."""


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
        self.room = room  # what the peer takes of this stream
        self.window = window  # what we still take
        self.held = 0  # bytes received and not yet credited
        self.missing = head.content_length  # of the body; below zero: not announced
        self.deadline = math.inf  # for the rest of the request
        self.receiver: Receiver | None = None
        self.remote_ended = False
        self.local_ended = False
        self._full = window
        self._wire = wire
        self._sender = wire.sender
        self._account: Account | None = None  # of what waits here
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._sent = 0  # of the first of the queue
        self._trailers: bytes | None = None  # sent once the queue is empty; empty ones end it with a bare frame
        self._drained: asyncio.Future[None] | None = None

    # What the one who answers calls.

    def send_headers(self, block: bytes, *, end: bool = False) -> None:
        if not self.local_ended:
            flags, sender = END_HEADERS | (END_STREAM if end else 0), self._sender
            if sender.table_update:
                block = sender.block(block)
            sender.write(frames.frame(HEADERS, flags, self.number, block))
            if end:
                self._finish()

    def send(self, data: bytes) -> bool:
        """False: it does not fit into the window, and there is no memory for it to wait in."""
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
        """Finish without trailers, after what waits has gone out."""
        self.send_trailers(b"")

    def answer(self, head: bytes, data: bytes, trailers: bytes) -> bool:
        """Everything at once, the common case in one write. False: nothing was sent, there is no memory for it."""
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
        """End it with an error, whatever still waited."""
        if not self.local_ended:
            self._sender.write(frames.rst_stream(self.number, code))
            self.drop(reset=True)

    def cut_off(self) -> None:
        """Break the connection, as a network does: nothing is said about any stream of it."""
        self._wire.abort()

    async def drained(self) -> None:
        """Until nothing of ours waits on this stream and the socket takes more."""
        while self._queue and not self.local_ended:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        writable = self._sender.writable
        if writable is not None:
            await asyncio.wait([writable])

    def credit(self, size: int) -> None:
        """The receiver is done with bytes it was given."""
        self.held = max(0, self.held - size)

    @property
    def endpoint(self) -> str:
        return self._wire.endpoint

    def set_deadline(self, seconds: float | None) -> None:
        """How long the rest of the request may take, within what any may; None: it may wait for ever."""
        self.deadline = math.inf if seconds is None else self._wire.deadline(seconds)

    def refill(self, least: int) -> None:
        """Give the peer its window back, for a stream that goes on for long."""
        increment = self._full - self.window - self.held
        if increment >= least and not self.remote_ended:
            self.window += increment
            self._sender.write(frames.window_update(self.number, increment))

    # What the connection calls.

    def take(self, size: int, content: int) -> None:
        """A DATA frame of `size` bytes came, padding and all, with so much content."""
        self.window -= size
        if self.window < 0:
            raise Http2StreamError(frames.FLOW_CONTROL_ERROR, "more data than the window of a stream")
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
        """The peer takes more, or less, than before; False if the window becomes larger than windows may be."""
        self.room += increment
        if self._queue:
            self._sender.wait(self)
        return self.room <= frames.WINDOW_MAX

    def send_part(self) -> bool:
        """Send one frame of what waits; True if there is more, and window of the stream for it."""
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
        """The stream is over, whatever still waited."""
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
        if not self.local_ended:  # the connection may have ended over it
            self._sender.wait(self)
            self._sender.serve()
        return True

    def _charge(self, size: int) -> bool:
        if self._account is None:
            self._account = self._wire.budget.account(self._give_up)
        return self._account.charge(size)

    def _give_up(self) -> None:
        """Others need the memory; to gRPC this code is RESOURCE_EXHAUSTED."""
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
        if reset:  # answered before the request was whole: the rest need not be sent
            self._sender.write(frames.rst_stream(self.number, frames.NO_ERROR))
        self._over(reset=reset)

    def _over(self, *, reset: bool) -> None:
        self.local_ended = self.remote_ended = True
        self.receiver = None
        if self._account is not None:  # something waited here
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
