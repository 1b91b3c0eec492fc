"""The inventory: what a consumer holds, how much that is, and when each lease ends.

The rule kept here: a message is held from its delivery until it is answered or its lease ends, and flow control
counts exactly that. Messages that came together lie on one shelf and share one alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from penstock.broker.model import SECOND
from penstock.engine.clock import Alarm, Clock
from penstock.pubsub.message import Message

EXTEND_AT = 0.8  # of a lease, when it is extended automatically


class Shelf:
    """Messages of one inventory whose leases end together."""

    __slots__ = ("due", "held", "inventory", "look_at", "messages")

    def __init__(self, inventory: Inventory, messages: list[Message], *, due: int, look_at: int) -> None:
        self.inventory = inventory
        self.messages = messages
        self.due = due
        self.look_at = look_at  # when to think of extending them; `due` where nothing is extended
        self.held = len(messages)
        for message in messages:
            message._shelf = self

    def __lt__(self, other: Shelf) -> bool:
        return self.look_at < other.look_at

    def still_held(self) -> list[Message]:
        return [message for message in self.messages if message._shelf is self]


class Inventory:
    def __init__(self, clock: Clock, freed: Callable[[], None], hold: Callable[[list[Message], float], None]) -> None:
        self._clock = clock
        self._freed = freed  # called after something was let go
        self._hold = hold  # lets the queue know that leases go on
        self._shelves: list[Shelf] = []  # a heap
        self._alarm: Alarm | None = None
        self._alarm_at = 0
        self._lease = 0
        self.messages = 0
        self.bytes = 0
        self.max_extension_seconds = 0.0  # 0: a lease ends when it ends

    def __iter__(self) -> Iterator[Message]:
        return (message for shelf in self._shelves for message in shelf.still_held())

    # ------------------------------------------------------------------ in and out

    def add(self, messages: list[Message], lease_seconds: float) -> None:
        self.messages += len(messages)
        self.bytes += sum([message._delivery.message.size for message in messages])
        self._lease = int(lease_seconds * SECOND)
        self._shelve(messages, self._clock.now() + self._lease)

    def release(self, message: Message) -> None:
        """It was answered."""
        shelf = message._shelf
        if shelf is not None:
            message._shelf = None
            shelf.held -= 1
            self.messages -= 1
            self.bytes -= message._delivery.message.size
            self._freed()

    def clear(self) -> list[Message]:
        """Let go of everything; what was held."""
        held = list(self)
        for message in held:
            message._shelf = None
        self._shelves.clear()
        self.messages = self.bytes = 0
        self._set_alarm()
        self._freed()
        return held

    def move(self, message: Message, seconds: float) -> None:
        """The lease of one message was given another end."""
        if message._shelf is not None:
            message._shelf.held -= 1
            self._shelve([message], self._clock.now() + int(seconds * SECOND))

    # ------------------------------------------------------------------ time

    def catch_up(self) -> None:
        """Do now what the alarm would have done if the event loop had not been kept busy."""
        if self._alarm is not None and self._alarm_at <= self._clock.now():
            self._alarm.cancel()
            self._ring()

    def _shelve(self, messages: list[Message], due: int) -> None:
        left = min(self._lease, due - self._clock.now())
        margin = int(left * (1 - EXTEND_AT)) if self.max_extension_seconds else 0
        heappush(self._shelves, Shelf(self, messages, due=due, look_at=due - margin))
        self._set_alarm()

    def _set_alarm(self) -> None:
        """One alarm for all, at the earliest shelf that still holds something."""
        while self._shelves and not self._shelves[0].held:
            heappop(self._shelves)
        at = self._shelves[0].look_at if self._shelves else 0
        if self._alarm is not None and (not at or at < self._alarm_at):
            self._alarm.cancel()
            self._alarm = None
        if at and self._alarm is None:
            self._alarm, self._alarm_at = self._clock.alarm(at, self._ring), at

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock.now()
        while self._shelves and self._shelves[0].look_at <= now:
            shelf = heappop(self._shelves)
            if shelf.held:
                self._sort_out(shelf, now)
        self._set_alarm()

    def _sort_out(self, shelf: Shelf, now: int) -> None:
        """Leases of messages that somebody works on are extended, as far as allowed; others end when they end."""
        held, furthest = shelf.still_held(), int(self.max_extension_seconds * SECOND)
        at_work = [message for message in held if not message._left]
        end = min([message._received for message in at_work], default=0) + furthest
        due = min(now + self._lease, end)
        if at_work and due > max(shelf.due, now):
            self._hold(at_work, (due - now) / SECOND)
            self._shelve(at_work, due)
            held = [message for message in held if message._left]
        if held and shelf.due > now:
            heappush(self._shelves, Shelf(self, held, due=shelf.due, look_at=shelf.due))
        elif held:
            self._expire(held)

    def _expire(self, messages: list[Message]) -> None:
        for message in messages:
            message._shelf = None
            self.messages -= 1
            self.bytes -= message._delivery.message.size
        self._freed()
