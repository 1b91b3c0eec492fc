"""One HTTP/2 connection of a server: frames in, streams opened and fed, answers out.

Every window, list and buffer has a limit and is charged to the memory budget, every frame has its price, and a peer
that breaks the protocol gets one GOAWAY or RST_STREAM with the code RFC 9113 asks for.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.fields import Block, Blocks, Head, Heads
from penstock.doors.google.http2.frames import (
    ACK,
    END_STREAM,
    PADDED,
    FrameReader,
    Http2ConnectionError,
    Http2StreamError,
)
from penstock.doors.google.http2.history import History, State
from penstock.doors.google.http2.hpack import TABLE_BYTES
from penstock.doors.google.http2.limits import OTHER_PRICE, PRICES, FloodBudget, Http2Host
from penstock.doors.google.http2.sending import Sender
from penstock.doors.google.http2.stream import Stream
from penstock.errors import where
from penstock.wire.serving import address_of, endpoint_of

_STREAM_BYTES = 8 << 10  # memory of an open stream with a small request
_CONNECTION_BYTES = 8 << 10
_CHARGE_STEP = 16 << 10  # the charge is updated after a change of more than this
_REFILL_BYTES = 1 << 20


class Http2Connection(asyncio.Protocol):
    def __init__(self, host: Http2Host) -> None:
        limits = host.limits
        self.peer = ""
        self.streams: dict[int, Stream] = {}
        self.budget = host.budget
        self._host = host
        self._limits = limits
        self._greeted = False  # the preface and the first SETTINGS are here
        self._reader = FrameReader(limits.frame_bytes_max, preface=frames.PREFACE)
        self._heads = Heads()
        self._flood = FloodBudget(limits, host.clock)
        self.sender = Sender(limits, self._flood)
        self._transport: asyncio.Transport | None = None
        self._history = History(limits.streams_max)
        self._stream_room = frames.DEFAULT_WINDOW  # the initial window that the peer gives to our streams
        self._window = limits.connection_window  # bytes that the peer may still send
        self._owed = 0  # bytes received whose window is not given back yet
        self._queued = 0
        self._blocks = Blocks(limits.header_block_max)
        self._account = host.budget.account(lambda: None)  # kept: the budget gives up streams, not connections
        self._heard_at = host.clock()
        self._began = (0, False)  # number of the incomplete frame, and whether a header block is open
        # For the preface, frame or headers that the peer has begun.
        self._deadline = self._heard_at + limits.preface_seconds
        self._pinged_at = 0.0
        self._paused_at = 0.0
        self._ending = False  # no new streams
        self._over = False  # GOAWAY with an error is sent. Further input is discarded

    @property
    def endpoint(self) -> str:
        return endpoint_of(self._transport)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = address_of(transport)
        if self._host.connections.add(self) or not self._account.charge(_CONNECTION_BYTES):
            self._transport.abort()
            return
        self._account.keep()
        self.sender.begin(self._transport)
        self.sender.write(frames.settings(self._limits.announced()))
        self.sender.write(frames.window_update(0, self._limits.connection_window - frames.DEFAULT_WINDOW))

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._heard_at = self._host.clock()
        try:
            self._take(data)
            self._watch()
            self._charge()
        except Http2ConnectionError as error:
            # Without the exception: a kept log record would keep the connection in memory.
            self._host.log.info("closing a connection of %s: %s", self.peer, str(error))
            self._host.connections.count(error.event)
            self._give_up(error.code)
        except Exception as error:  # noqa: BLE001 - a bug here must end this connection, not the server
            self._host.log.error("an HTTP/2 connection failed: %s", where(error))
            self._give_up(frames.INTERNAL_ERROR)

    def eof_received(self) -> bool:
        return False  # closes the connection: a peer that closed its side reads no answers either

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending = self._over = True
        self._transport = None
        self._drop_all()
        self.sender.end()
        self._account.close()
        self._host.connections.remove(self)

    def pause_writing(self) -> None:
        self._paused_at = self._host.clock()
        self.sender.pause()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()  # a peer that does not read may send no more requests

    def resume_writing(self) -> None:
        self._heard_at = self._host.clock()
        self._deadline += self._heard_at - self._paused_at  # the time without reading does not count
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self.sender.resume()

    # Called by the server.

    def sweep(self, now: float) -> None:
        """End overdue requests, and the connection if it is overdue."""
        limits, silent = self._limits, now - self._heard_at
        if self.sender.writable is not None:
            if now - self._paused_at > limits.answer_seconds:
                self._host.connections.count("not_reading")
                self.abort()
            return
        if now >= self._deadline or silent > limits.silence_seconds + limits.answer_seconds:
            self._host.connections.count("lingered" if self._over else "overdue")
            self.abort()
        elif silent > limits.silence_seconds and self._pinged_at < self._heard_at:
            self._pinged_at = now
            self.sender.write(frames.frame(frames.PING, 0, 0, b"penstock"))
        for stream in [
            stream for stream in self.streams.values() if now >= stream.deadline and not stream.remote_ended
        ]:
            if stream.receiver is not None:
                self._host.connections.count("request_overdue")
                stream.receiver.expire()

    def wind_down(self) -> None:
        """Finish open requests and accept no new ones, because the server stops."""
        if self._over:
            self.abort()
        self.sender.write(frames.goaway(self._history.last, frames.NO_ERROR))
        self._ending = True
        self._close_if_done()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Called by streams.

    def deadline(self, seconds: float) -> float:
        return self._host.clock() + min(seconds, self._limits.body_seconds)

    def queued(self, size: int) -> None:
        self._queued += size
        if size > 0 and self._queued > self._limits.queued_bytes_max:
            self._host.log.warning("closing a connection of %s: it does not read its answers", self.peer)
            self._host.connections.count("not_reading")
            self.abort()

    def release(self, stream: Stream, reset: bool) -> None:
        if self.streams.pop(stream.number, None) is not None:
            if reset:
                self._history.reset(stream.number, State.RESET_BY_US)
            if self._ending:
                self._close_if_done()

    # Frames.

    def _take(self, data: bytes) -> None:
        for kind, flags, number, payload in self._reader.feed(data):
            if self._blocks.first is not None and kind != frames.CONTINUATION:
                raise Http2ConnectionError(frames.PROTOCOL_ERROR, "a header block was interrupted")
            try:
                self._dispatch(kind, flags, number, payload)
            except Http2StreamError as error:
                self._reset(number, error.code)
            if self._transport is None or self._transport.is_closing():
                return

    def _dispatch(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self._greeted:
            if kind != frames.SETTINGS or flags & ACK:
                raise Http2ConnectionError(frames.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._greeted = True
        if kind == frames.DATA:
            self._on_data(flags, number, payload)
        elif kind == frames.HEADERS:
            self._on_block(self._blocks.begin(flags, number, payload))
        else:
            frames.check_control(kind, flags, number, payload)
            self._flood.spend(PRICES.get(kind, OTHER_PRICE))
            self._on_control(kind, flags, number, payload)

    def _on_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == frames.WINDOW_UPDATE:
            self._on_window_update(number, frames.read_number(payload))
        elif kind == frames.CONTINUATION:
            self._on_block(self._blocks.append(flags, number, payload))
        elif kind == frames.RST_STREAM:
            self._on_reset(number)
        elif kind == frames.PING:
            if not flags & ACK:
                self.sender.write(frames.frame(frames.PING, ACK, 0, payload))
        elif kind == frames.SETTINGS:
            if not flags & ACK:
                self._on_settings(frames.read_settings(payload))
        elif kind == frames.PRIORITY:
            frames.check_priority(number, payload)
        elif kind == frames.PUSH_PROMISE:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "a client does not push")

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        content = frames.without_padding(PADDED, payload) if flags & PADDED else payload
        ended = flags & END_STREAM
        self._window -= size
        if self._window < 0:
            raise Http2ConnectionError(frames.FLOW_CONTROL_ERROR, "more data than the window allows")
        # Received data is charged to the memory budget or discarded, so its window is given back at once. If the window
        # were held back until requests are answered, many incomplete requests could fill it together.
        self._owed += size
        if self._owed >= self._limits.connection_window // 4:
            self._window += self._owed
            self.sender.write(frames.window_update(0, self._owed))
            self._owed = 0
        if not ended and not content:
            self._flood.spend(1)
        stream = self.streams.get(number)
        if stream is None:
            self._history.check_late(number, frames.STREAM_CLOSED)
            self._flood.spend(1)
            return
        if stream.remote_ended:
            raise Http2StreamError(frames.STREAM_CLOSED, "data after the end")
        stream.take(size, len(content))
        if ended:
            stream.end_of_request()
        receiver = stream.receiver
        assert receiver is not None, "an open stream without a receiver"
        if content:
            receiver.receive(content)
        if flags & PADDED:
            stream.refill(_REFILL_BYTES)
        if ended and not stream.local_ended:
            receiver.finish()

    def _on_block(self, block: Block | None) -> None:
        """Handle a complete header block. It is always decoded, because the table must stay in sync."""
        if block is None:
            return
        stream = self.streams.get(block.number)
        if stream is None and block.number > self._history.last:
            self._open(block, self._heads.request(block.content))
        elif stream is None:
            self._heads.request(block.content)
            self._history.check_late(block.number, frames.PROTOCOL_ERROR)
            self._flood.spend(1)
        elif stream.remote_ended:
            self._heads.request(block.content)
            raise Http2StreamError(frames.STREAM_CLOSED, "headers after the end")
        else:
            self._heads.trailers(block.content)
            if not block.ends:
                raise Http2StreamError(frames.PROTOCOL_ERROR, "headers in the middle of a stream")
            stream.end_of_request()
            if stream.receiver is not None:
                stream.receiver.finish()

    def _open(self, block: Block, head: Head) -> None:
        number, ends = block.number, block.ends
        if self._ending:  # after our GOAWAY: the peer repeats the request on another connection
            self._history.last_ignored = max(number, self._history.last_ignored)
            return
        self._history.open(number)
        if head.fault or block.depends_on_itself:
            raise Http2StreamError(frames.PROTOCOL_ERROR, head.fault or "a stream that depends on itself")
        if len(self.streams) >= self._limits.streams_max:
            raise Http2StreamError(frames.REFUSED_STREAM, "too many streams")
        stream = Stream(self, number, head, self._stream_room, self._limits.stream_window)
        self.streams[number] = stream
        stream.deadline = self._heard_at + self._limits.body_seconds
        if ends:
            stream.end_of_request()
        receiver = self._host.accept(stream)
        if stream.local_ended or receiver is None:
            self._flood.spend(self._limits.refusal_price)
            return
        stream.receiver = receiver
        self._flood.earn(self._limits.earned_per_stream)
        if ends:
            receiver.finish()

    def _on_window_update(self, number: int, increment: int) -> None:
        if not number:
            self.sender.widen(increment)
        elif number not in self.streams:
            self._history.check_known(number)
            return
        elif not increment:
            raise Http2StreamError(frames.PROTOCOL_ERROR, "a window that does not grow")
        elif not self.streams[number].widen(increment):
            raise Http2StreamError(frames.FLOW_CONTROL_ERROR, "an invalid window")
        self.sender.serve()

    def _on_reset(self, number: int) -> None:
        stream = self.streams.get(number)
        if stream is None:
            self._history.check_known(number)
            return
        self._flood.spend(self._limits.reset_price)
        self._history.reset(number, State.RESET_BY_PEER)
        stream.drop()

    def _on_settings(self, values: dict[int, int]) -> None:
        sender = self.sender
        sender.frame_bytes = values.get(frames.SETTING_FRAME_BYTES, sender.frame_bytes)
        room = values.get(frames.SETTING_INITIAL_WINDOW, self._stream_room)
        grown, self._stream_room = room - self._stream_room, room
        sender.write(frames.frame(frames.SETTINGS, ACK, 0))
        if values.get(frames.SETTING_TABLE_BYTES, TABLE_BYTES) < TABLE_BYTES:
            sender.shrink_table()
        if grown:
            self._flood.spend(len(self.streams))
            for stream in self.streams.values():
                if not stream.widen(grown):
                    raise Http2ConnectionError(frames.FLOW_CONTROL_ERROR, "an invalid window")
            sender.serve()

    # Errors, and the end of the connection.

    def _reset(self, number: int, code: int) -> None:
        """Reset a stream after an error. It costs as much as a reset by the peer, because it wastes as much work."""
        self._flood.spend(self._limits.reset_price)
        stream = self.streams.get(number)
        if stream is not None:
            stream.reset(code)
        elif self._history.state(number) is State.IDLE:
            raise Http2ConnectionError(code, "an error of a stream that was never opened")
        else:
            self._history.reset(number, State.RESET_BY_US)
            self.sender.write(frames.rst_stream(number, code))

    def _watch(self) -> None:
        """Set the deadline for a frame or header block that the peer has begun."""
        if not self._greeted:
            return
        reader, block_open = self._reader, self._blocks.first is not None
        if not reader.pending_bytes and not block_open:
            self._deadline = math.inf
        elif self._deadline == math.inf or (reader.begun, block_open) != self._began:
            limits = self._limits
            self._deadline = self._heard_at + (limits.preface_seconds if block_open else limits.body_seconds)
        self._began = (reader.begun, block_open)

    def _charge(self) -> None:
        """Charge the memory of this connection, besides its requests and answers, to the budget."""
        held = len(self.streams) * _STREAM_BYTES + self._heads.held_bytes + self._reader.pending_bytes
        held += self._blocks.pending_bytes + _CONNECTION_BYTES
        if abs(held - self._account.held_bytes) > _CHARGE_STEP and not self._account.hold(held):
            full = "there is no memory left for connections"
            raise Http2ConnectionError(frames.ENHANCE_YOUR_CALM, full, "out_of_memory")

    def _give_up(self, code: int) -> None:
        self._ending = self._over = True
        self._drop_all()
        self.sender.write(frames.goaway(self._history.last, code))
        self.sender.flush()
        if self._transport is not None and self._transport.can_write_eof() and self.sender.writable is None:
            self._transport.write_eof()
            self._deadline = self._host.clock() + self._limits.linger_seconds
        elif self._transport is not None:
            self._transport.close()

    def _drop_all(self) -> None:
        for stream in list(self.streams.values()):
            stream.drop()
        self.streams.clear()
        self._blocks.clear()

    def _close_if_done(self) -> None:
        if self._ending and not self._over and not self.streams:
            self.sender.flush()
            if self._transport is not None:
                self._transport.close()
