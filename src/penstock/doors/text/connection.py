"""One client's connection: it reads requests, carries them out, and answers in order.

All requests of one read are decided at once, in order, and answered after one commit. Reading pauses while the client
does not read its answers, and while too many sends wait for their commit. The memory of a connection is charged to the
budget of all protocols. No exception reaches the event loop.
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
from penstock.doors.text.replies import Ack, Reply
from penstock.doors.text.requests import Acknowledge, Consume, Fault, Request, Return, Send
from penstock.doors.text.sockets import keep_alive
from penstock.doors.text.windows import Window
from penstock.engine.port import refusal
from penstock.errors import LostReplyError, ResourceExhaustedError
from penstock.wire.serving import address_of, endpoint_of
from penstock.wire.text_frames import ACKNOWLEDGE, CONSUME, RETURN, UNREAD

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
        "_replies",
        "_transport",
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
        self.reading = True  # whether the client reads what is sent to it
        self.promised_bytes = 0
        self._decoder = Decoder(host.maxima)
        self._memory = Memory(host.budget)
        self._transport: asyncio.Transport | None = None
        self._windows: dict[bytes, Window] | None = None  # most idle connections have none
        self._replies: deque[Reply] | None = None  # to requests that are decided and not yet durable
        self._pending_bytes = self._pending_messages = 0
        self._unsent_bytes = 0
        self._paused = False  # whether reading is paused
        self._ending = False  # nothing more is read, and the connection closes when all requests are answered
        self._faulty = False  # the connection ends because of a fault, and the client should receive the answer
        self._closing = False  # nothing more is sent either
        self._encrypted = False

    # ------------------------------------------------------------------ called by asyncio

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
        """T-040: carry out and answer all that was received, then close."""
        if self._closing:
            return False
        if not self._decoder.between:
            self._host.note_fault(self, "malformed", "The client closed within a message.")
        self._end()
        return bool(self._replies) and not self._encrypted  # TLS has no half-closed connections

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending = True
        self._transport = None
        self.reading = False
        self._decoder.forget()
        self._memory.close()
        windows, self._windows = self._windows or {}, None
        for window in windows.values():
            self._return_all(window)
            window.feed.close(window)
        self._host.connections.remove(self)

    def _return_all(self, window: Window) -> None:
        """T-034: return all messages of a window to their queue."""
        seen, unseen = window.split_receipts()
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

    # ------------------------------------------------------------------ called by the server

    def sweep(self, now: float) -> None:
        """End the connection if its deadline has passed."""
        if now < self.deadline or self._transport is None:
            return
        if not self.reading:
            unsent = self._transport.get_write_buffer_size()
            if unsent < self._unsent_bytes:  # the client reads, if slowly
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
        """T-041: answer what was received and close, because the server stops."""
        self._end()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ called by feeds

    def send(self, data: bytes) -> bool:
        if self._transport is None or self._closing:
            return False
        self._transport.write(data)
        return True

    def feed_failed(self, window: Window, error: Exception) -> None:
        if isinstance(error, LostReplyError):
            return self.abort()
        queue = next((name for name, other in (self._windows or {}).items() if other is window), b"")
        self._report(fault_of(error, 1 if window.counted else 2, CONSUME, queue))

    # ------------------------------------------------------------------ requests

    def _carry_out(self, events: list[Request | Fault]) -> None:
        reply = Reply()
        for event in events:
            if self._ending:
                break
            self._carry_out_one(event, reply)
        self._publish(reply)
        self._settle(reply)

    def _publish(self, reply: Reply) -> None:
        """Publish once for each queue. T-053: in version 01 nothing is published after a refused batch."""
        batches = list(reply.batches.values())
        for index, batch in enumerate(batches):
            fits = self._memory.hold(PENDING, self._pending_bytes + reply.bytes + batch.count_bytes())
            error = refusal(batch.send()) if fits else ResourceExhaustedError(BUSY)
            if error is None:
                reply.count(batch)
                continue
            batch.sent = None
            self._memory.hold(PENDING, self._pending_bytes + reply.bytes)
            fault = reply.fail(error, batch)
            if fault is not None and self._note(fault):
                for later in batches[index + 1 :]:
                    reply.fail(error, later)
                return

    def _settle(self, reply: Reply) -> None:
        """Send the reply now, or when all its decisions are durable. Close the connection if it is ending."""
        decisions = reply.decisions()
        if decisions:
            self._await_commit(reply, decisions)
        elif self._replies:
            self._replies[-1].answers += reply.answers
        else:
            self._answer(reply)
        if self._ending:
            self._end()

    def _carry_out_one(self, event: Request | Fault, reply: Reply) -> None:
        if isinstance(event, Send):
            reply.add(event.version, self._host.queues.get(event.queue), event.contents)
        elif isinstance(event, Acknowledge):
            self._acknowledge(event, reply)
        elif isinstance(event, Consume):
            self._consume(event)
        elif isinstance(event, Return):
            self._give_back(event, reply)
        else:
            self._refuse(event, reply)

    def _acknowledge(self, event: Acknowledge, reply: Reply) -> None:
        window = (self._windows or {}).get(event.queue)
        released, unknown = window.release(event.ids) if window is not None else ({}, event.ids)
        if window is not None and released:
            done = self._host.acknowledge(window.subscription, list(released.values()))
            reply.acks.append(Ack(window, released, done))
            reply.messages += len(released)
            if window.limit:
                window.feed.offer(window)
        for message_id in unknown:
            self._refuse(not_held(event.version, ACKNOWLEDGE, event.queue, message_id), reply)

    def _give_back(self, event: Return, reply: Reply) -> None:
        window = (self._windows or {}).get(event.queue)
        released = window.release([event.id], unread=event.unread)[0] if window is not None else {}
        if window is None or not released:
            kind = UNREAD if event.unread else RETURN
            return self._refuse(not_held(event.version, kind, event.queue, event.id), reply)
        self._host.queues.give_back(window.receipts(released.values()), event.delay_seconds, unseen=event.unread)
        if window.limit:
            window.feed.offer(window)

    def _consume(self, event: Consume) -> None:
        queue = self._host.queues.get(event.queue)
        self._windows = {} if self._windows is None else self._windows
        phrases = queue.phrases(event.version, self._decoder.line)
        window = self._windows.get(event.queue)
        if window is None:
            window = self._windows[event.queue] = Window(queue.feed, self, phrases)
        window.phrases = phrases
        window.open(event.limit, self._host.limits.window_max, counted=event.version == 1)
        if window.limit:
            window.feed.request(window)
        else:
            window.feed.close(window)

    def _refuse(self, fault: Fault, reply: Reply) -> None:
        self._note(fault)
        reply.answers.append(fault)

    def _note(self, fault: Fault) -> bool:
        """Count and log a fault. Return whether it ends the connection (T-052, T-053)."""
        self._host.note_fault(self, fault.code, fault.sentence)
        ends = fault.code in CLOSING or (fault.version != 2 and fault.code not in FORGIVEN)
        if ends:
            self._ending = self._faulty = True
        return ends

    def _too_busy(self) -> None:
        """Refuse the message that is being read, because there is no memory for it."""
        if not self._ending:
            refused = self._decoder.refused
            self._decoder.forget()
            self._report(Fault(self._decoder.version, "busy", BUSY, refused))

    def _report(self, fault: Fault) -> None:
        """Answer with a fault outside of any request."""
        reply = Reply()
        self._refuse(fault, reply)
        self._settle(reply)

    # ------------------------------------------------------------------ answers

    def _await_commit(self, reply: Reply, decisions: Sequence[asyncio.Future[Any]]) -> None:
        if self._replies is None:
            self._replies = deque()
        self._replies.append(reply)
        self._pending_bytes += reply.bytes
        self._pending_messages += reply.messages
        reply.undecided = len(decisions)
        for decision in decisions:
            decision.add_done_callback(partial(self._on_commit, reply))
        self._balance()

    def _on_commit(self, reply: Reply, _: asyncio.Future[Any]) -> None:
        """Send the replies whose commits have ended, in order."""
        reply.undecided -= 1
        while self._replies and not self._replies[0].undecided:
            self._conclude(self._replies.popleft())

    def _conclude(self, reply: Reply) -> None:
        self._pending_bytes -= reply.bytes
        self._pending_messages -= reply.messages
        self._memory.hold(PENDING, self._pending_bytes)
        lost = reply.fail_lost_decisions()
        if lost is not None:
            self._host.note_fault(self, lost.code, lost.sentence)
            self._ending |= bool(reply.acks) or lost.version != 2
            for ack in reply.acks if self._transport is None else ():
                self._return_all(ack.window)
        if reply.is_lost:
            return self.abort()
        self._answer(reply)
        self._balance()
        if self._ending:
            self._end()

    def _answer(self, reply: Reply) -> None:
        data = reply.encode(line=self._decoder.line)
        if data:
            self.send(data)

    # ------------------------------------------------------------------ the state of the connection

    def _balance(self) -> None:
        """Pause or resume reading (T-064, T-065)."""
        limits = self._host.limits
        crowded = self._pending_bytes > limits.pending_bytes_max or self._pending_messages > limits.pending_messages_max
        pause = not self._ending and (crowded or not self.reading)
        if pause is self._paused or self._transport is None or self._transport.is_closing():
            return
        self._paused = pause
        if pause:
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
            self.deadline = _NEVER  # T-062: a consumer may stay silent
        else:
            self.deadline = now + limits.idle_seconds

    def _end(self) -> None:
        """Stop reading and consuming, and close when all requests are answered."""
        self._ending = True
        for window in (self._windows or {}).values():
            window.feed.close(window)
        transport = self._transport
        if self._replies or self._closing or transport is None or transport.is_closing():
            return
        self._closing = True
        limits, now = self._host.limits, self._host.connections.now
        if self._faulty and not self._encrypted and transport.can_write_eof():
            transport.write_eof()  # closing on unread input would lose the last answer, so input is discarded first
            self.deadline = now + limits.linger_seconds
            self._balance()
        else:
            self.deadline = now + limits.write_seconds
            transport.close()
