"""The records of the model: messages, a subscription's copies of them, topics and snapshots.

Nothing is counted or indexed. Every question is answered by a look at all records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.broker.model import SubscriptionOptions

SECOND = 1_000_000_000
FOREVER = 2**63 - 1

FILTERS: dict[str, Callable[[dict[str, str]], bool]] = {
    "": lambda attributes: True,
    "attributes:a": lambda attributes: "a" in attributes,
    'attributes.a = "1"': lambda attributes: attributes.get("a") == "1",
    "NOT attributes:a": lambda attributes: "a" not in attributes,
}


class RefusedError(Exception):
    """The command is refused with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Message:
    offset: int
    data: bytes
    attributes: dict[str, str]
    key: str
    at: int
    visible_at: int
    expires_at: int  # FOREVER means never
    id: str = ""

    @property
    def size(self) -> int:
        texts = [*self.attributes.keys(), *self.attributes.values(), self.key]
        return len(self.data) + sum(len(text.encode()) for text in texts)


@dataclass
class Copy:
    """A message in one subscription."""

    message: Message
    data: bytes
    due: int  # leased: the end of the lease; otherwise: the earliest time of delivery
    attempts: int = 0
    leased: bool = False
    receipt: str = ""
    # it was leased out of turn: after a return it waits among the messages that were delivered before
    chosen: bool = False


@dataclass
class Topic:
    name: str
    log: list[Message] = field(default_factory=list)
    retained: bool = False  # acked messages as well, for longer than a run lasts
    purged: int = 0  # nothing below this offset had to be kept


@dataclass
class Subscription:
    name: str
    topic: Topic | None  # None: detached
    options: SubscriptionOptions
    queue: dict[int, Copy] = field(default_factory=dict)  # by offset: every message that is not settled
    start: int = 0  # the first offset that was published after its creation

    def leased(self) -> list[Copy]:
        return [copy for copy in self.queue.values() if copy.leased]

    def matches(self, message: Message) -> bool:
        return FILTERS[self.options.filter](message.attributes)

    def is_dead(self, copy: Copy, now: int) -> bool:
        return copy.message.expires_at <= now or not self.matches(copy.message)

    def alive(self, now: int) -> list[Copy]:
        copies = [self.queue[offset] for offset in sorted(self.queue)]
        return [copy for copy in copies if not self.is_dead(copy, now)]

    def in_turn(self, now: int, cursor: int) -> list[Copy]:
        """Return the messages in the order of a pull: waiting ones first, then the log."""
        alive = self.alive(now)
        known = [copy for copy in alive if copy.chosen or copy.message.offset < cursor]
        return known + [copy for copy in alive if not (copy.chosen or copy.message.offset < cursor)]

    def older_than(self, at: int) -> list[int]:
        return [offset for offset, copy in self.queue.items() if copy.message.at < at]

    def lane(self, copy: Copy) -> list[Copy]:
        """Return the copies that must keep their order with this one, and this one, in that order."""
        if not self.options.ordering or not copy.message.key:
            return [copy]
        return [other for _, other in sorted(self.queue.items()) if other.message.key == copy.message.key]


@dataclass
class Snapshot:
    topic: Topic
    unacked: list[int]
    tail: int  # all messages published later count as unacked, too
