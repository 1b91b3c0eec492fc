"""The records of the model: messages, a subscription's copies of them, topics and snapshots.

Nothing is counted or indexed; whoever wants to know something looks at everything.
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
    expires_at: int  # FOREVER: never
    id: str = ""

    @property
    def size(self) -> int:
        texts = [*self.attributes.keys(), *self.attributes.values(), self.key]
        return len(self.data) + sum(len(text.encode()) for text in texts)


@dataclass
class Copy:
    """A message as one subscription has it."""

    message: Message
    data: bytes
    due: int  # leased: when the lease ends; else: not to be delivered before
    attempts: int = 0
    leased: bool = False
    receipt: str = ""
    chosen: bool = False  # it was leased before its turn: given back, it waits among those delivered before


@dataclass
class Topic:
    name: str
    log: list[Message] = field(default_factory=list)
    retained: bool = False  # acked messages as well, for longer than a history lasts
    purged: int = 0  # of what is below nothing was to be kept


@dataclass
class Subscription:
    name: str
    topic: Topic | None  # None: detached
    options: SubscriptionOptions
    queue: dict[int, Copy] = field(default_factory=dict)  # by offset: everything not finished with
    start: int = 0  # the first offset published after it was made

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
        """What a pull looks at, in that order: what waits to be delivered again, then the log."""
        alive = self.alive(now)
        known = [copy for copy in alive if copy.chosen or copy.message.offset < cursor]
        return known + [copy for copy in alive if not (copy.chosen or copy.message.offset < cursor)]

    def older_than(self, at: int) -> list[int]:
        return [offset for offset, copy in self.queue.items() if copy.message.at < at]

    def lane(self, copy: Copy) -> list[Copy]:
        """The copies that have to keep their order with this one, itself included, in that order."""
        if not self.options.ordering or not copy.message.key:
            return [copy]
        return [other for _, other in sorted(self.queue.items()) if other.message.key == copy.message.key]


@dataclass
class Snapshot:
    topic: Topic
    unacked: list[int]
    tail: int  # everything published later counts as unacked, too
