"""One client's connection: it reads requests, has them carried out, and answers in order.

What one read brings is decided at once, in order, and answered after one commit; reading pauses while the client does
not read or too much waits to become durable; what is held is charged to the budget of all doors; and a connection ends
by its client, a fault, a deadline or the stop of the door, in every case without an exception that reaches the event
loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock.doors.text.codec import Decoder
from penstock.doors.text.errors import CLOSING, FORGIVEN, fault_of, not_held
from penstock.doors.text.memory import PENDING, READING, UNSENT, Memory
from penstock.doors.text.queues import Ack, Turn, encode_answers
from penstock.doors.text.requests import Acknowledge, Consume, Fault, Request, Return, Send
from penstock.doors.text.sockets import keep_alive
from penstock.doors.text.windows import Window
from penstock.engine.port import refusal
from penstock.errors import LostReplyError, ResourceExhaustedError
from penstock.wire.serving import address_of, endpoint_of
from penstock.wire.textframes import ACKNOWLEDGE, CONSUME, RETURN, UNREAD

if TYPE_CHECKING:
    from penstock.doors.text.server import TextDoor

_NEVER = math.inf
BUSY = "The endpoint is busy: send this again later."


class TextConnection(asyncio.Protocol):
    __slots__ = (
        "__weakref__",
        "_closing",
        "_decoder",
        "_encrypted",
        "_ending",
        "_faulty",
        "_host",
        "_memory",
        "_paused",
        "_pending_bytes",
        "_pending_messages",
        "_transport",
        "_turns",
        "_unsent_bytes",
        "_windows",
        "deadline",
        "peer",
        "promised_bytes",
        "reading",
    )

    def __init__(self, host: TextDoor) -> None:
        self._host = host
        self.peer = ""
        self.deadline = _NEVER
        self.reading = True  # whether the client takes what it is sent
        self.promised_bytes = 0
        self._decoder = Decoder(host.maxima)
        self._memory = Memory(host.budget)
        self._transport: asyncio.Transport | None = None
        self._windows: dict[bytes, Window] | None = None  # most idle connections have none
        self._turns: deque[Turn] | None = None  # decided, not yet durable
        self._pending_bytes = self._pending_messages = 0
        self._unsent_bytes = 0
        self._paused = False  # whether we have stopped reading
        self._ending = False  # nothing more is read; we close when all is answered
        self._faulty = False  # because of a fault, of which the client should hear
        self._closing = False  # nothing more is sent either
        self._encrypted = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = address_of(transport) or "unix"
        if self._host.connections.add(self):  # T-063
            self._ending = True
            self._transport.abort()
            return
        self._host.connections.count("opened")
        keep_alive(transport)
        self._transport.set_write_buffer_limits(self._host.limits.write_buffer_bytes)
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        was_between = self._decoder.between
        try:
            events = self._decoder.feed(data)
            fits = self._memory.hold(READING, self._decoder.held_bytes, self._too_busy)
            self._carry_out(events)
        except Exception as error:  # noqa: BLE001 - a bug must end this connection, not the server
            self._host.bug(error)
            self._report(Fault(self._decoder.version, "internal", "The endpoint failed."))
            return
        if was_between or events or self._decoder.between:
            self._set_deadline()
        if not fits:
            self._too_busy()

    def eof_received(self) -> bool:
        """T-040: all that was received is carried out and answered, then we close."""
        if self._closing:
            return False
        if not self._decoder.between:
            self._host.note_fault(self, "malformed", "The client closed within a message.")
        self._end()
        return bool(self._turns) and not self._encrypted  # TLS has no half-closed connections

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending = True
        self._transport = None
        self.reading = False
        self._decoder.forget()
        self._memory.close()
        windows, self._windows = self._windows or {}, None
        for window in windows.values():
            self._return_all(window)
            window.feed.leave(window)
        self._host.connections.remove(self)

    def _return_all(self, window: Window) -> None:
        """T-034."""
        seen, unseen = window.split()
        self._host.queues.give_back(seen)
        self._host.queues.give_back(unseen, unseen=True)
        window.held.clear()

    def pause_writing(self) -> None:
        self.reading = False
        self._unsent_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0
        self.deadline = self._host.connections.now + self._host.limits.write_seconds
        if not self._memory.hold(UNSENT, self._unsent_bytes, self.abort):
            self.abort()
        self._balance()

    def resume_writing(self) -> None:
        self.reading = True
        self._memory.hold(UNSENT, 0, self.abort)
        self._set_deadline()
        self._balance()
        for window in (self._windows or {}).values():
            if window.limit:
                window.feed.offer(window)

    @property
    def endpoint(self) -> str:
        return endpoint_of(self._transport)

    # What the door calls.

    def sweep(self, now: float) -> None:
        """Look at the deadline."""
        if now < self.deadline or self._transport is None:
            return
        if not self.reading:
            unsent = self._transport.get_write_buffer_size()
            if unsent < self._unsent_bytes:  # it reads, if slowly
                self._unsent_bytes, self.deadline = unsent, now + self._host.limits.write_seconds
            else:
                self._host.note_fault(self, "not-reading", "The client does not read what it is sent.")
                self._transport.abort()
        elif self._ending:
            self._transport.abort()
        elif not self._decoder.between:
            sentence = f"A message must be complete within {self._host.limits.frame_seconds:g} seconds."
            self._report(Fault(self._decoder.version, "too-slow", sentence, self._decoder.refused))
        else:
            self._end()

    def wind_down(self) -> None:
        """T-041: the door stops."""
        self._end()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What a feed calls.

    def send(self, data: bytes) -> bool:
        if self._transport is None or self._closing:
            return False
        self._transport.write(data)
        return True

    def feed_failed(self, window: Window, error: Exception) -> None:
        if isinstance(error, LostReplyError):
            return self.abort()
        queue = next((name for name, each in (self._windows or {}).items() if each is window), b"")
        self._report(fault_of(error, self._decoder.version, CONSUME, queue))

    # ------------------------------------------------------------------ requests

    def _carry_out(self, events: list[Request | Fault]) -> None:
        turn = Turn()
        for event in events:
            if self._ending:
                break
            self._carry_out_one(event, turn)
        self._publish(turn)
        self._settle(turn)

    def _publish(self, turn: Turn) -> None:
        """One publish for each queue. T-053: after a refused one of version 01 the others are not made."""
        batches = list(turn.batches.values())
        for place, batch in enumerate(batches):
            fits = self._memory.hold(PENDING, self._pending_bytes + turn.bytes + batch.count())
            error = refusal(batch.send()) if fits else ResourceExhaustedError(BUSY)
            if error is None:
                turn.count(batch)
                continue
            batch.sent = None
            self._memory.hold(PENDING, self._pending_bytes + turn.bytes)
            fault = turn.fail(error, batch)
            if fault is not None and self._note(fault):
                for rest in batches[place + 1 :]:
                    turn.fail(error, rest)
                return

    def _settle(self, turn: Turn) -> None:
        """Answer now, or when all that was decided is durable; and close if this was the end."""
        decisions = turn.decisions()
        if decisions:
            self._await_commit(turn, decisions)
        elif self._turns:
            self._turns[-1].answers += turn.answers
        else:
            self._answer(turn)
        if self._ending:
            self._end()

    def _carry_out_one(self, event: Request | Fault, turn: Turn) -> None:
        if isinstance(event, Send):
            turn.add(event.version, self._host.queues.named(event.queue), event.contents)
        elif isinstance(event, Acknowledge):
            self._acknowledge(event, turn)
        elif isinstance(event, Consume):
            self._consume(event)
        elif isinstance(event, Return):
            self._give_back(event, turn)
        else:
            self._refuse(event, turn)

    def _acknowledge(self, event: Acknowledge, turn: Turn) -> None:
        window = (self._windows or {}).get(event.queue)
        taken, unknown = window.take(event.ids) if window is not None else ({}, event.ids)
        if window is not None and taken:
            done = self._host.acknowledge(window.subscription, list(taken.values()))
            turn.acks.append(Ack(window, taken, done))
            turn.messages += len(taken)
            if window.limit:
                window.feed.offer(window)
        for each in unknown:
            self._refuse(not_held(event.version, ACKNOWLEDGE, event.queue, each), turn)

    def _give_back(self, event: Return, turn: Turn) -> None:
        window = (self._windows or {}).get(event.queue)
        taken = window.take([event.id], unread=event.unread)[0] if window is not None else {}
        if window is None or not taken:
            kind = UNREAD if event.unread else RETURN
            return self._refuse(not_held(event.version, kind, event.queue, event.id), turn)
        self._host.queues.give_back(window.receipts(taken.values()), event.delay_seconds, unseen=event.unread)
        if window.limit:
            window.feed.offer(window)

    def _consume(self, event: Consume) -> None:
        queue = self._host.queues.named(event.queue)
        self._windows = {} if self._windows is None else self._windows
        phrases = queue.phrases(event.version, self._decoder.line)
        window = self._windows.get(event.queue)
        if window is None:
            window = self._windows[event.queue] = Window(queue.feed, self, phrases)
        window.phrases = phrases
        window.ask(event.limit, self._host.limits.window_max, counted=event.version == 1)
        if window.limit:
            window.feed.offer(window)
        else:
            window.feed.leave(window)

    def _refuse(self, fault: Fault, turn: Turn) -> None:
        self._note(fault)
        turn.answers.append(fault)

    def _note(self, fault: Fault) -> bool:
        """Count a fault; whether it ends the connection (T-052, T-053)."""
        self._host.note_fault(self, fault.code, fault.sentence)
        ends = fault.code in CLOSING or (fault.version != 2 and fault.code not in FORGIVEN)
        if ends:
            self._ending = self._faulty = True
        return ends

    def _too_busy(self) -> None:
        """There is no memory for the message that is being read."""
        if not self._ending:
            refused = self._decoder.refused
            self._decoder.forget()
            self._report(Fault(self._decoder.version, "busy", BUSY, refused))

    def _report(self, fault: Fault) -> None:
        """A fault that no request of this moment caused."""
        turn = Turn()
        self._refuse(fault, turn)
        self._settle(turn)

    # ------------------------------------------------------------------ answers

    def _await_commit(self, turn: Turn, decisions: Sequence[asyncio.Future[Any]]) -> None:
        if self._turns is None:
            self._turns = deque()
        self._turns.append(turn)
        self._pending_bytes += turn.bytes
        self._pending_messages += turn.messages
        turn.open = len(decisions)
        for decision in decisions:
            decision.add_done_callback(partial(self._committed, turn))
        self._balance()

    def _committed(self, turn: Turn, _: asyncio.Future[Any]) -> None:
        """A decision is durable, or never will be; turns are answered in order."""
        turn.open -= 1
        while self._turns and not self._turns[0].open:
            self._conclude(self._turns.popleft())

    def _conclude(self, turn: Turn) -> None:
        self._pending_bytes -= turn.bytes
        self._pending_messages -= turn.messages
        self._memory.hold(PENDING, self._pending_bytes)
        if turn.fail_what_is_lost():
            self._host.note_fault(self, "unavailable", "An answer was lost." if turn.reply_lost else "A commit failed.")
            self._ending |= bool(turn.acks) or self._decoder.version != 2
            for ack in turn.acks if self._transport is None else ():
                self._return_all(ack.window)
        if turn.reply_lost:
            return self.abort()
        self._answer(turn)
        self._balance()
        if self._ending:
            self._end()

    def _answer(self, turn: Turn) -> None:
        data = encode_answers(turn.answers, line=self._decoder.line)
        if data:
            self.send(data)

    # ------------------------------------------------------------------ the state of the connection

    def _balance(self) -> None:
        """Read from the client, or do not, as things stand (T-064, T-065)."""
        limits = self._host.limits
        crowded = self._pending_bytes > limits.pending_bytes_max or self._pending_messages > limits.pending_messages_max
        wanted = not self._ending and (crowded or not self.reading)
        if wanted is self._paused or self._transport is None or self._transport.is_closing():
            return
        self._paused = wanted
        if wanted:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
        self._set_deadline()

    def _set_deadline(self) -> None:
        limits, now = self._host.limits, self._host.connections.now
        if not self.reading or self._ending:
            return
        if not self._decoder.between:
            self.deadline = _NEVER if self._paused else now + limits.frame_seconds
        elif self._windows or not limits.idle_seconds:
            self.deadline = _NEVER  # T-062: a consumer may be silent for ever
        else:
            self.deadline = now + limits.idle_seconds

    def _end(self) -> None:
        """Read no more and consume no more; close when all is answered."""
        self._ending = True
        for window in (self._windows or {}).values():
            window.feed.leave(window)
        transport = self._transport
        if self._turns or self._closing or transport is None or transport.is_closing():
            return
        self._closing = True
        limits, now = self._host.limits, self._host.connections.now
        if self._faulty and not self._encrypted and transport.can_write_eof():
            transport.write_eof()  # closing on unread input would lose our last word, so input is thrown away first
            self.deadline = now + limits.linger_seconds
            self._balance()
        else:
            self.deadline = now + limits.write_seconds
            transport.close()
