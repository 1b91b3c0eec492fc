"""One HTTP/1.1 connection: it reads requests, has them answered one after another, and keeps its deadlines.

Answers are sent in the order of the requests. Reading pauses while the peer does not read or too many requests wait.
Memory is charged to the budget of the server. No exception reaches the event loop, however a connection ends. The next
part of an answer in parts is produced when the peer has read the last one. If the peer disconnects or the server stops,
the answer ends without its last chunk, so that it is recognised as incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeAlias, cast

from penstock.errors import LostReplyError, where
from penstock.wire.budget import SMALL_BYTES, Budget
from penstock.wire.http1_message import CONTINUE, LAST_CHUNK, Request, Response, chunk, encode
from penstock.wire.http1_reader import Arrival, HttpLimits, Refusal, RequestReader, Stage, Turn, restrict
from penstock.wire.serving import RESERVED, STOPPING, Connections, address_of

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]

_SLICE = 16 << 10  # bytes for the parser before the limits are checked again
_NEVER = math.inf


class HttpHost(Protocol):
    """The interface between a connection and its server."""

    limits: HttpLimits
    budget: Budget
    log: logging.Logger
    answer: Answer
    refusal: Callable[[int], Response]
    clock: Callable[[], float]
    date: str
    connections: Connections

    def refused(self, peer: str, status: int) -> None:
        """Count and log input that is not a valid request."""


class HttpConnection(asyncio.Protocol):
    _reader: RequestReader  # made with the connection, because it needs the peer's address

    def __init__(self, host: HttpHost) -> None:
        self._host = host
        self.peer = ""
        self.work: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._turns: deque[Turn] = deque()
        self._waiting_bytes = 0  # bytes of the bodies in _turns
        self._unfed = b""  # received and not parsed, because reading is paused
        self._steps_seen = 0
        self._read_deadline = _NEVER
        self._write_deadline = _NEVER
        self._drained: asyncio.Future[None] | None = None  # pending while the peer does not read
        self._reading = True
        self._peer_done = False  # the peer will send nothing more
        self._current: Request | None = None  # being answered
        self._streaming: asyncio.Task[None] | None = None  # an answer in parts, being sent
        self._ending = False  # nothing more is sent. Further input is discarded
        account = host.budget.account
        self._incoming = account(self._give_up)  # requests being read, or waiting for their turn
        self._at_work = account(None)  # the request being answered
        self._outgoing = account(self.abort)  # answers that the peer has not read

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = address_of(transport)
        self._reader = RequestReader(self._host.limits, self.peer)
        self._read_deadline = self._host.clock() + self._host.limits.head_seconds
        refused = self._host.connections.add(self)
        self._is_reserved = refused == RESERVED
        if refused and not self._is_reserved:
            if refused != STOPPING:
                self._send(self._bare(503))
            self._end(linger=False)  # connections of a flood must not accumulate

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        if self._unfed:
            self._unfed += data
        else:
            self._feed(data)
        # Checked before the call, because most requests are small and the call costs more than the check.
        if self._waiting_bytes > SMALL_BYTES or self._reader.body_bytes or self._unfed or self._incoming.held_bytes:
            self._charge()
        self._go_on()

    def eof_received(self) -> bool:
        self._peer_done = True
        self._notify_left()
        # True keeps the connection open, for the answers that are still to be sent.
        return self.work is not None and not self._ending

    def connection_lost(self, exc: Exception | None) -> None:
        # Work in progress is not cancelled, because a request must not be left half done.
        self._ending = True
        self._notify_left()
        self._forget_input()
        self._reader.close()
        self._transport = None
        self._outgoing.close()
        self._release()
        self._host.connections.remove(self)

    def _notify_left(self) -> None:
        """Cancel answers that wait, because the peer has disconnected."""
        self._stop_streaming()
        if self._current is not None and self._current.on_left is not None:
            self._current.on_left()

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()
        self._write_deadline = self._host.clock() + self._host.limits.write_seconds
        if self._transport is not None and not self._outgoing.hold(self._transport.get_write_buffer_size()):
            self.abort()
        self._balance()

    def resume_writing(self) -> None:
        self._write_deadline = _NEVER
        self._outgoing.close()
        self._release()
        self._balance()

    # Called by the server.

    def sweep(self, now: float) -> None:
        """End the connection or the request if it is overdue."""
        if now >= self._write_deadline:
            self._host.connections.count("not_reading")
            self.abort()
        elif now >= self._read_deadline and self._ending:
            self.abort()
        elif now >= self._read_deadline and self._reader.stage is Stage.WAITING:
            self._host.connections.count("idle")
            self._end(linger=False)
        elif now >= self._read_deadline:
            self._refuse(408)

    def wind_down(self) -> None:
        """Finish the requests that were begun, because the server stops."""
        self._stop_streaming()
        if self.work is None and self._reader.stage in (Stage.WAITING, Stage.CLOSED):
            self._end(linger=False)

    def abort(self) -> None:
        self._ending = True
        if self.work is not None:
            self.work.cancel()
        if self._transport is not None:
            self._transport.abort()

    # Reading.

    def _feed(self, data: bytes) -> None:
        if len(data) <= _SLICE:
            self._take(data)
            return
        view = memoryview(data)
        for at in range(0, len(view), _SLICE):
            if self._is_crowded():
                self._unfed = bytes(view[at:])
                return
            self._take(view[at : at + _SLICE])

    def _take(self, data: bytes | memoryview) -> None:
        reader = self._reader
        reader.feed(data)
        for turn in reader.turns:
            turn = restrict(turn, self._host.limits) if self._is_reserved else turn
            self._waiting_bytes += len(turn.request.body) if isinstance(turn, Arrival) else 0
            self._turns.append(turn)
        reader.turns.clear()

    def _charge(self) -> None:
        """Charge the requests that wait. Small requests in one piece cost nothing."""
        held = self._reader.body_bytes + self._waiting_bytes + len(self._unfed)
        if (held > SMALL_BYTES or self._incoming.held_bytes) and not self._incoming.hold(held):
            self._host.connections.count("busy")
            self._give_up()

    def _give_up(self) -> None:
        """Refuse the requests that wait, because their memory is needed."""
        if not self._ending:
            self._forget_input()
            self._refuse(503)

    def _forget_input(self) -> None:
        self._turns.clear()
        self._waiting_bytes = 0
        self._unfed = b""
        self._reader.forget()
        self._incoming.close()

    def _is_crowded(self) -> bool:
        limits = self._host.limits
        return len(self._turns) >= limits.pipeline_max or self._waiting_bytes > limits.pipeline_bytes_max

    def _balance(self) -> None:
        """Pause or resume reading from the socket."""
        wanted = self._ending or not (self._unfed or self._drained or self._is_crowded())
        if wanted is self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
        self._steps_seen = -1  # the time without reading does not count
        self._set_deadline()

    def _go_on(self) -> None:
        """Start to answer new requests, and set the deadline for the rest of the input."""
        if self._turns and self.work is None:
            self.work = asyncio.get_running_loop().create_task(self._work())
        elif self._reader.continue_owed and self.work is None:
            self._send_continue()
        self._balance()
        if self._reader.steps != self._steps_seen:
            self._set_deadline()

    def _set_deadline(self) -> None:
        self._steps_seen = self._reader.steps
        limits, stage = self._host.limits, self._reader.stage
        if self._ending:
            return
        if not self._reading or stage is Stage.CLOSED or (stage is Stage.WAITING and self.work is not None):
            self._read_deadline = _NEVER
        elif stage is Stage.WAITING:
            self._read_deadline = self._host.clock() + limits.idle_seconds
        else:
            seconds = limits.head_seconds if stage is Stage.HEAD else limits.body_seconds
            self._read_deadline = self._host.clock() + seconds

    def _refuse(self, status: int) -> None:
        self._reader.refuse(status)
        self._take(b"")
        self._go_on()

    # Answering.

    async def _work(self) -> None:
        try:
            while self._turns and self._transport is not None:
                await self._take_turn(self._turns.popleft())
                if not self._turns:  # every parsed request is answered: parse the rest
                    unfed, self._unfed = self._unfed, b""
                    if unfed and not self._ending:
                        self._feed(unfed)
                        self._charge()
                    if self._reader.continue_owed and not self._turns:
                        self._send_continue()
                    self._balance()
        except Exception as error:  # noqa: BLE001 - a bug here must end this connection, not the server
            self._host.log.error("an HTTP connection failed: %s", where(error))
            self._end(linger=False)
        finally:
            self.work = None
        self._rest()

    async def _take_turn(self, turn: Turn) -> None:
        if isinstance(turn, Refusal):
            self._host.refused(self.peer, turn.status)
            self._send(self._bare(turn.status))
            self._end(linger=True)
            return
        size = len(turn.request.body)
        self._waiting_bytes -= size
        if size > SMALL_BYTES:
            self._charge()  # released here before it is charged there
            self._at_work.hold(size)
        self._current = turn.request
        try:
            response = await self._response(turn.request)
        finally:
            self._current = None
            if size > SMALL_BYTES:
                self._at_work.close()
        if response.parts is not None:
            await self._stream(turn, response, response.parts)
        else:
            self._send(self._encode(turn, response))
        if self._drained is not None:
            await self._drained
        if not turn.keep_alive or (self._host.connections.stopping and not self._turns):
            self._end(linger=False)

    async def _response(self, request: Request) -> Response:
        try:
            return await self._host.answer(request)
        except LostReplyError:
            self._end(linger=False)  # nothing is sent after that
            return self._host.refusal(503)
        except Exception as error:  # noqa: BLE001 - a bug in one answer
            self._report(request, error)
            return self._host.refusal(500)

    def _report(self, request: Request, error: Exception) -> None:
        """Log an error without the query, which may have a signature, and without the text of the error."""
        self._host.log.error("failed to answer %s %s: %s", request.method, request.path, where(error))
        self._host.log.debug("failed to answer", exc_info=error)

    async def _stream(self, turn: Arrival, response: Response, parts: AsyncGenerator[bytes, None]) -> None:
        left = self._ending or self._peer_done  # the peer disconnected meanwhile
        if turn.request.method == "HEAD" or left or self._host.connections.stopping:
            await parts.aclose()
            self._send(self._encode(turn, response if turn.request.method == "HEAD" else self._host.refusal(503)))
            return
        self._streaming = asyncio.get_running_loop().create_task(self._send_parts(turn, response, parts))
        try:
            await asyncio.wait([self._streaming])
        finally:
            self._stop_streaming()
            self._streaming = None

    async def _send_parts(self, turn: Arrival, response: Response, parts: AsyncGenerator[bytes, None]) -> None:
        head = self._encode(turn, response)  # sent with the first part, because an error is possible until then
        try:
            async with aclosing(parts):
                async for part in parts:
                    self._send(head + (part if turn.old_version else chunk(part)))
                    head = part = b""  # the transport has a copy, and the peer may not read it for long
                    if self._drained is not None:
                        await self._drained
            self._send(head + (b"" if turn.old_version else LAST_CHUNK))
            if turn.old_version:
                self._end(linger=False)
        except asyncio.CancelledError:
            self._end(linger=False)
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one answer
            self._report(turn.request, error)
            if head:
                self._send(self._encode(turn, self._host.refusal(500)))
            else:
                self._end(linger=False)

    def _stop_streaming(self) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    def _bare(self, status: int) -> bytes:
        return encode(self._host.refusal(status), date=self._host.date, connection="close")

    def _encode(self, turn: Arrival, response: Response) -> bytes:
        last = not turn.keep_alive or (self._host.connections.stopping and not self._turns)
        last = last or (turn.old_version and response.parts is not None)  # HTTP/1.0 has no chunks
        connection = "close" if last else "keep-alive" if turn.old_version else ""
        head_only, chunked = turn.request.method == "HEAD", not turn.old_version
        try:
            return encode(response, date=self._host.date, connection=connection, head_only=head_only, chunked=chunked)
        except ValueError as error:  # also for text beyond Latin-1
            self._host.log.error("invalid answer to %s %s: %s", turn.request.method, turn.request.path, where(error))
            bare = self._host.refusal(500)
            return encode(bare, date=self._host.date, connection=connection, head_only=head_only)

    def _send_continue(self) -> None:
        self._reader.continue_owed = False
        self._send(CONTINUE)

    def _rest(self) -> None:
        """Wait for the next request, or end the connection if there will be none."""
        if self._peer_done or (self._host.connections.stopping and self._reader.stage is Stage.WAITING):
            self._end(linger=False)
        elif not self._ending:
            self._set_deadline()

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._ending:
            self._transport.write(data)

    def _end(self, *, linger: bool) -> None:
        """Send the written data and close. `linger`: discard input first. Unread input would lose the data."""
        if self._ending or self._transport is None:
            return
        self._ending = True
        self._forget_input()
        limits, now = self._host.limits, self._host.clock()
        if linger and self._transport.can_write_eof() and not self._peer_done:
            self._transport.write_eof()
            self._read_deadline = now + limits.linger_seconds
            self._balance()
        else:
            self._read_deadline = now + limits.write_seconds
            self._transport.close()

    def _release(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
