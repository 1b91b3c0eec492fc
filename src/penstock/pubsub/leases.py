"""The leases of a reader: the messages it holds, their size, and the end of each lease.

A message is held from its delivery until it is answered or its lease ends. Flow control counts the held messages.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from penstock.broker.model import SECOND
from penstock.engine.clock import Alarm, Clock
from penstock.pubsub.message import Received
from penstock.pubsub.session import Signal

if TYPE_CHECKING:
    from penstock.pubsub.acks import Acks

EXTEND_AT = 0.8  # part of a lease after which it is extended


class Batch:
    """Messages whose leases end together."""

    __slots__ = ("due", "held", "look_at", "messages")

    def __init__(self, messages: list[Received], due: int, look_at: int) -> None:
        self.messages = messages
        self.due = due
        self.look_at = look_at  # when to extend the leases, or `due` if they are not extended
        self.held = len(messages)

    def __lt__(self, other: Batch) -> bool:
        return self.look_at < other.look_at


class Leases:
    def __init__(self, clock: Clock, acks: Acks, released: Signal) -> None:
        self._clock = clock
        self._acks = acks  # sends the extensions to the queue
        self._released = released
        self.held: dict[Received, Batch] = {}
        self.bytes = 0
        self.max_extension_seconds = 0.0  # 0: leases are not extended
        self._lease = 0
        self._batches: list[Batch] = []  # a heap
        self._alarm: Alarm | None = None
        self._alarm_at = 0

    # ------------------------------------------------------------------ adding and releasing

    def add(self, messages: list[Received], lease_seconds: float) -> None:
        self.bytes += sum([message.size for message in messages])
        self._lease = int(lease_seconds * SECOND)
        self._lease_until(self._clock.now() + self._lease, messages)

    def release(self, message: Received, now: int = 0) -> bool:
        """Release an answered message. Return whether it was still held."""
        batch = self.held.get(message)
        if batch is not None and batch.due <= now:
            self.catch_up()
            batch = self.held.get(message)
        if batch is None:
            return False
        del self.held[message]
        batch.held -= 1
        self.bytes -= message.size
        self._released.wake()
        return True

    def clear(self) -> list[Received]:
        """Release all messages and return them."""
        held = list(self.held)
        self.held.clear()
        self._batches.clear()
        self.bytes = 0
        self._set_alarm()
        self._released.wake()
        return held

    def move(self, message: Received, seconds: float) -> None:
        """Set the lease of one message to end in `seconds`."""
        batch = self.held.get(message)
        if batch is not None:
            batch.held -= 1
            self._lease_until(self._clock.now() + int(seconds * SECOND), [message])

    # ------------------------------------------------------------------ time

    def catch_up(self) -> None:
        """Handle an alarm that is due, if the event loop was too busy to handle it."""
        if self._alarm is not None and self._alarm_at <= self._clock.now():
            self._alarm.cancel()
            self._ring()

    def _lease_until(self, due: int, messages: list[Received]) -> None:
        left = min(self._lease, due - self._clock.now())
        margin = int(left * (1 - EXTEND_AT)) if self.max_extension_seconds else 0
        self._push(Batch(messages, due, due - margin))
        self._set_alarm()

    def _push(self, batch: Batch) -> None:
        self.held.update(dict.fromkeys(batch.messages, batch))
        heappush(self._batches, batch)

    def _set_alarm(self) -> None:
        """Set one alarm, for the earliest batch with a held message."""
        while self._batches and not self._batches[0].held:
            heappop(self._batches)
        at = self._batches[0].look_at if self._batches else 0
        if self._alarm is not None and (not at or at < self._alarm_at):
            self._alarm.cancel()
            self._alarm = None
        if at and self._alarm is None:
            self._alarm, self._alarm_at = self._clock.alarm(at, self._ring), at

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock.now()
        while self._batches and self._batches[0].look_at <= now:
            batch = heappop(self._batches)
            if batch.held:
                self._extend_or_end(batch, now)
        self._set_alarm()

    def _extend_or_end(self, batch: Batch, now: int) -> None:
        """Extend the leases of messages whose listeners run, up to the maximum. Let the other leases end."""
        held = [message for message in batch.messages if self.held.get(message) is batch]
        running = [message for message in held if not message.left]
        earliest = min([message.received_at for message in running], default=0)
        due = min(now + self._lease, earliest + int(self.max_extension_seconds * SECOND))
        if running and due > max(batch.due, now):
            self._acks.hold(running, (due - now) / SECOND)
            self._lease_until(due, running)
            held = [message for message in held if message.left]
        if held and batch.due > now:
            self._push(Batch(held, batch.due, batch.due))
        elif held:
            for message in held:
                del self.held[message]
                self.bytes -= message.size
            self._released.wake()
