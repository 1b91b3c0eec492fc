"""One HTTP/2 connection of a server: frames in, streams opened and fed, answers out.

The rule kept here: a peer can only ever harm its own connection. Every window, list and buffer has a limit, frames
that move nothing forward are counted, and a peer that breaks the protocol gets one GOAWAY with the reason's code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import ACK, END_HEADERS, END_STREAM, FrameReader, Http2Error
from penstock.doors.google.http2.hpack import Decoder, HeaderError
from penstock.doors.google.http2.stream import Receiver, Stream
from penstock.wire.failure import where


@dataclass(frozen=True, slots=True)
class Limits:
    streams_max: int = 1000  # open at a time; clients put every subscriber and publisher on one connection
    frame_bytes_max: int = 1 << 20
    stream_window: int = 16 << 20  # beyond the largest message, so that no request stalls half way
    connection_window: int = 64 << 20  # of requests not yet taken by whoever answers them
    queued_bytes_max: int = 64 << 20  # of answers the peer gives no window for
    header_block_max: int = 64 << 10
    patience: int = 20_000  # frames without progress at once, and
    patience_per_second: int = 5_000
    patience_per_turn: int = 8  # regained when we send something, so that pings that follow our data cost nothing
    patience_per_stream: int = 4
    reset_cost: int = 50  # a cancelled stream costs as many of them
    preface_seconds: float = 10
    silence_seconds: float = 60  # then we ping
    answer_seconds: float = 30  # to a ping, and how long a peer may leave what we send unread


class Host(Protocol):
    """What a connection needs of its server."""

    limits: Limits
    log: logging.Logger
    clock: Callable[[], float]

    def accept(self, stream: Stream) -> Receiver: ...

    def opened(self, connection: Connection) -> bool:
        """Count a connection in; False turns it away."""

    def closed(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, host: Host, data: bytes = b"") -> None:
        self.peer = ""
        self.streams: dict[int, Stream] = {}
        self.room = frames.DEFAULT_WINDOW
        self.frame_bytes = frames.DEFAULT_FRAME_BYTES
        self.writable: asyncio.Future[None] | None = None
        self._host = host
        self._limits = host.limits
        self._unread_preface = data
        self._preface_done = False
        self._reader = FrameReader(host.limits.frame_bytes_max)
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._last_stream = 0
        self._last_ignored = 0
        self._stream_room = frames.DEFAULT_WINDOW  # what a new stream may send before it is told more
        self._window = host.limits.connection_window  # what we still take
        self._owed = 0  # taken and not yet given back
        self._queued = 0
        self._block: tuple[int, int, list[bytes]] | None = None  # a header block in pieces: stream, flags, parts
        self._patience = float(host.limits.patience)
        self._patience_at = host.clock()
        self._heard_at = host.clock()
        self._pinged_at = 0.0
        self._paused_at = 0.0
        self._ending = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) else ""
        if not self._host.opened(self):
            self._transport.abort()
            return
        limits = self._limits
        values = {0x3: limits.streams_max, 0x4: limits.stream_window, 0x5: limits.frame_bytes_max}
        values[0x6] = limits.header_block_max
        self.write(frames.settings(values))
        self.write(frames.window_update(0, limits.connection_window - frames.DEFAULT_WINDOW))

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._host.clock()
        try:
            self._take(data)
        except Http2Error as error:
            self._host.log.info("closing a connection of %s: %s", self.peer, error)
            self._give_up(error.code)
        except Exception as error:  # noqa: BLE001 - a bug here must end this connection, not the server
            self._host.log.error("an HTTP/2 connection failed: %s", where(error))
            self._give_up(frames.INTERNAL_ERROR)

    def eof_received(self) -> bool:
        return False  # closes; a peer that sends no more reads no answer either

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending = True
        self._transport = None
        for stream in list(self.streams.values()):
            stream.drop()
        self.streams.clear()
        self.resume_writing()
        self._host.closed(self)

    def pause_writing(self) -> None:
        self._paused_at = self._host.clock()
        self.writable = asyncio.get_running_loop().create_future()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()  # who does not read may not ask for more

    def resume_writing(self) -> None:
        writable, self.writable = self.writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if writable is not None and self._transport is not None and not self._transport.is_closing():
            self._heard_at = self._host.clock()
            self._transport.resume_reading()

    # What the server calls.

    def sweep(self, now: float) -> None:
        """Look at the deadlines."""
        limits, silent = self._limits, now - self._heard_at
        if self.writable is not None:
            if now - self._paused_at > limits.answer_seconds:
                self.abort()
        elif (
            not self._preface_done and silent > limits.preface_seconds
        ) or silent > limits.silence_seconds + limits.answer_seconds:
            self.abort()
        elif silent > limits.silence_seconds and self._pinged_at < self._heard_at:
            self._pinged_at = now
            self.write(frames.frame(frames.PING, 0, 0, b"penstock"))

    def wind_down(self) -> None:
        """The server stops: what was begun may finish, nothing new begins."""
        self.write(frames.goaway(self._last_stream, frames.NO_ERROR))
        self._ending = True
        self._close_if_done()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What a stream calls.

    def write(self, data: bytes) -> None:
        """Send, together with everything else that is written in this turn of the loop: a send costs much."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent.append(data)

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._earn(self._limits.patience_per_turn)
        if unsent and self._transport is not None:
            self._transport.write(b"".join(unsent) if len(unsent) > 1 else unsent[0])

    def _close(self) -> None:
        self._send()
        if self._transport is not None:
            self._transport.close()

    def queued(self, size: int) -> None:
        self._queued += size
        if self._queued > self._limits.queued_bytes_max:
            self._host.log.warning("closing a connection of %s: it does not take its answers", self.peer)
            self.abort()

    def credit(self, size: int) -> None:
        self._owed += size
        if self._owed >= self._limits.connection_window // 4:
            self._window += self._owed
            self.write(frames.window_update(0, self._owed))
            self._owed = 0

    def release(self, stream: Stream) -> None:
        if self.streams.pop(stream.number, None) is not None:
            stream.credit(stream.held)
            self._close_if_done()

    # Frames.

    def _take(self, data: bytes) -> None:
        if not self._preface_done:
            data = self._take_preface(data)
        for kind, flags, number, payload in self._reader.feed(data):
            if self._block is not None and kind != frames.CONTINUATION:
                raise Http2Error(frames.PROTOCOL_ERROR, "a header block was interrupted")
            self._dispatch(kind, flags, number, payload)
            if self._transport is None or self._transport.is_closing():
                return

    def _take_preface(self, data: bytes) -> bytes:
        data = self._unread_preface + data
        size = len(frames.PREFACE)
        if data[:size] != frames.PREFACE[: len(data)]:
            raise Http2Error(frames.PROTOCOL_ERROR, "this is not HTTP/2")
        self._preface_done = len(data) >= size
        self._unread_preface = b"" if self._preface_done else data
        return data[size:]

    def _dispatch(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self._on_data(flags, number, payload)
        elif kind == frames.HEADERS:
            self._on_headers(flags, number, frames.without_padding(flags, payload))
        elif kind == frames.CONTINUATION:
            self._on_continuation(flags, number, payload)
        elif kind == frames.WINDOW_UPDATE:
            self._on_window_update(number, frames.read_number(payload))
        elif kind == frames.RST_STREAM:
            self._on_reset(number)
        elif kind == frames.PING:
            self._on_ping(flags, payload)
        elif kind == frames.SETTINGS:
            self._on_settings(flags, payload)
        elif kind == frames.PUSH_PROMISE:
            raise Http2Error(frames.PROTOCOL_ERROR, "a client does not push")
        else:
            self._spend(1)  # PRIORITY, GOAWAY (open streams go on) and what RFC 9113 does not know

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._window -= size
        if self._window < 0 or not number:
            raise Http2Error(frames.FLOW_CONTROL_ERROR, "more data than the window")
        stream = self.streams.get(number)
        if stream is None or stream.remote_ended or stream.receiver is None:
            self._check_known(number)
            self.credit(size)
            return
        stream.window -= size
        if stream.window < 0:
            raise Http2Error(frames.FLOW_CONTROL_ERROR, "more data than the window of a stream")
        if not size and not flags & END_STREAM:
            self._spend(1)
        stream.held += size
        stream.remote_ended = bool(flags & END_STREAM)
        stream.receiver.receive(payload if not flags & frames.PADDED else frames.without_padding(flags & 8, payload))
        if flags & END_STREAM:
            stream.receiver.finish()

    def _on_headers(self, flags: int, number: int, block: bytes) -> None:
        if flags & END_HEADERS:
            self._open(number, flags, block)
        else:
            self._block = (number, flags, [block])

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise Http2Error(frames.PROTOCOL_ERROR, "a continuation of nothing")
        _, first_flags, parts = self._block
        parts.append(payload)
        if sum(map(len, parts)) > self._limits.header_block_max or len(parts) > 64:
            raise Http2Error(frames.ENHANCE_YOUR_CALM, "the headers are too large")
        if flags & END_HEADERS:
            self._block = None
            self._open(number, first_flags, b"".join(parts))

    def _open(self, number: int, flags: int, block: bytes) -> None:
        if len(block) > self._limits.header_block_max:
            raise Http2Error(frames.ENHANCE_YOUR_CALM, "the headers are too large")
        try:
            headers = self._decoder.decode(block)  # always: the table must stay in step
        except HeaderError as error:
            raise Http2Error(frames.COMPRESSION_ERROR, str(error)) from None
        if number in self.streams:
            self._on_trailers(self.streams[number], flags)
        elif self._ending:
            self._last_ignored = max(number, self._last_ignored)  # after our GOAWAY: the peer sends it again elsewhere
        elif number <= self._last_stream or not number & 1:
            raise Http2Error(frames.PROTOCOL_ERROR, "a stream out of order")
        else:
            self._last_stream = number
            stream = Stream(self, number, headers, self._stream_room, self._limits.stream_window)
            self._begin(stream, ended=bool(flags & END_STREAM))

    def _begin(self, stream: Stream, *, ended: bool) -> None:
        if len(self.streams) >= self._limits.streams_max:
            self._spend(self._limits.reset_cost)
            self.write(frames.rst_stream(stream.number, frames.REFUSED_STREAM))
            return
        self._earn(self._limits.patience_per_stream)
        self.streams[stream.number] = stream
        stream.remote_ended = ended
        receiver = self._host.accept(stream)
        stream.receiver = receiver
        if ended and not stream.local_ended:
            receiver.finish()

    def _on_trailers(self, stream: Stream, flags: int) -> None:
        if not flags & END_STREAM:
            raise Http2Error(frames.PROTOCOL_ERROR, "headers in the middle of a stream")
        stream.remote_ended = True
        if stream.receiver is not None:
            stream.receiver.finish()

    def _on_window_update(self, number: int, increment: int) -> None:
        stream = self.streams.get(number)
        if not increment or (stream.room if stream else self.room) + increment > frames.WINDOW_MAX:
            raise Http2Error(frames.FLOW_CONTROL_ERROR, "a window that cannot be")
        if stream is not None:
            stream.room += increment
            stream.flush()
        elif number:
            self._check_known(number)
        else:
            self.room += increment
            for waiting in list(self.streams.values()):
                waiting.flush()

    def _on_reset(self, number: int) -> None:
        self._check_known(number)
        self._spend(self._limits.reset_cost if number in self.streams else 1)
        stream = self.streams.pop(number, None)
        if stream is not None:
            stream.drop()
            self._close_if_done()

    def _on_ping(self, flags: int, payload: bytes) -> None:
        if len(payload) != 8:
            raise Http2Error(frames.FRAME_SIZE_ERROR, "a ping of the wrong length")
        self._spend(1)
        if not flags & ACK:
            self.write(frames.frame(frames.PING, ACK, 0, payload))

    def _on_settings(self, flags: int, payload: bytes) -> None:
        self._spend(1)
        if flags & ACK:
            return
        values = frames.read_settings(payload)
        self.frame_bytes = values.get(frames.SETTING_FRAME_BYTES, self.frame_bytes)
        room = values.get(frames.SETTING_INITIAL_WINDOW, self._stream_room)
        grown, self._stream_room = room - self._stream_room, room
        self.write(frames.frame(frames.SETTINGS, ACK, 0))
        for stream in list(self.streams.values()) if grown else ():
            stream.room += grown
            stream.flush()

    def _check_known(self, number: int) -> None:
        if number > max(self._last_stream, self._last_ignored) or not number:
            raise Http2Error(frames.PROTOCOL_ERROR, "a frame for a stream that never was")

    def _spend(self, cost: int) -> None:
        """Frames that move nothing forward use up our patience, which time restores."""
        self._patience -= cost
        if self._patience < 0:
            now = self._host.clock()
            regained = (now - self._patience_at) * self._limits.patience_per_second
            self._patience, self._patience_at = min(self._patience + regained, float(self._limits.patience)), now
        if self._patience < 0:
            raise Http2Error(frames.ENHANCE_YOUR_CALM, "too many frames that lead nowhere")

    def _earn(self, gain: int) -> None:
        self._patience = min(self._patience + gain, float(self._limits.patience))

    def _give_up(self, code: int) -> None:
        self._ending = True
        self.write(frames.goaway(self._last_stream, code))
        self._close()

    def _close_if_done(self) -> None:
        if self._ending and not self.streams:
            self._close()
