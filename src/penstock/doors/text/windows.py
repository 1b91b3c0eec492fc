"""A window, which limits and holds the messages of one queue on one connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from penstock.broker.names import receipt
from penstock.doors.text.codec import Phrases, id_texts
from penstock.engine.port import Delivery

if TYPE_CHECKING:
    from penstock.doors.text.feeds import Feed

UNLIMITED = 1 << 62  # messages wanted by a client of version 02

Held: TypeAlias = tuple[int, int, int]  # one outstanding message: offset, stamp, and number in its window


class Client(Protocol):
    """A connection, as its windows and their feeds see it."""

    promised_bytes: int  # assigned to its windows and not sent yet

    @property
    def reading(self) -> bool:
        """Whether the client reads what is sent to it."""

    @property
    def endpoint(self) -> str:
        """Address and port of the client."""

    def send(self, data: bytes) -> bool:
        """Send bytes. Return False if the connection is closing."""

    def feed_failed(self, window: Window, error: Exception) -> None:
        """Tell the client that its queue cannot be consumed. The window is closed."""


class Share(NamedTuple):
    """The messages of one pull that one window gets."""

    window: Window
    ids: Sequence[bytes]
    contents: Sequence[bytes]
    size: int  # bytes of the messages
    last: int  # number of the last message in its window


class Window:
    """The messages of one queue on one connection.

    Messages are numbered in the order in which the window gets them, from 1 on.
    """

    __slots__ = (
        "client",
        "counted",
        "feed",
        "held",
        "in_line",
        "last",
        "limit",
        "phrases",
        "reports_unread",
        "seen",
        "sent",
        "since",
        "subscription",
        "wanted",
    )

    def __init__(self, feed: Feed, client: Client, phrases: Phrases) -> None:
        self.feed = feed
        self.client = client
        self.phrases = phrases
        self.limit = 0  # messages that may be outstanding at most. 0: the window is closed
        self.wanted = 0  # more messages that the client has asked for
        self.counted = False  # T-025: whether the client asked for a number of messages
        self.last = 0  # number of the last message of the window
        self.sent = 0  # number of the last message that was sent
        self.seen = 0  # number of the last message that is known to have reached the client's program
        self.reports_unread = False  # whether the client itself returns messages that its program has not seen
        self.subscription = 0  # number of the subscription. 0 before the first message
        self.held: dict[bytes, Held] = {}  # outstanding, by message id
        self.in_line = False  # whether the window is in the line of its feed
        self.since = 0  # when the window was opened

    @property
    def room(self) -> int:
        """T-064: the number of messages the window can take. 0 while the client does not read or has enough coming."""
        client = self.client
        if not client.reading or client.promised_bytes >= self.feed.portion_bytes:
            return 0
        return min(self.limit - len(self.held), self.wanted)

    def open(self, count: int, limit_max: int, *, counted: bool) -> None:
        """T-025, T-027: ask for `count` more messages in version 01, or for a window of `count` in version 02."""
        if counted:
            before = self.wanted if self.counted and count else 0
            self.wanted, self.limit = min(before + count, limit_max), limit_max if count else 0
        else:
            self.wanted, self.limit = UNLIMITED, min(count, limit_max)
        self.counted, self.reports_unread = counted, self.reports_unread and not count

    def release(self, ids: Sequence[bytes], *, unread: bool = False) -> tuple[dict[bytes, Held], list[bytes]]:
        """Remove messages. Return them, and the ids that are not held or were named before."""
        pop, released, unknown = self.held.pop, {}, []
        for message_id in ids:
            held = pop(message_id, None)
            if held is None:
                unknown.append(message_id)
            else:
                released[message_id] = held
        if released:
            self.reports_unread |= unread
            self.seen = max(self.seen, max([number for _, _, number in released.values()]) - unread)
        return released, unknown

    def split_receipts(self) -> tuple[list[str], list[str]]:
        """T-044: return the receipts of messages that have reached the program, as far as is known, and of the rest."""
        messages = sorted(self.held.values(), key=itemgetter(2))
        edge = self.sent if self.counted else self.seen
        if not self.counted and not self.reports_unread:  # the program may have been working on the next one
            edge = max(edge, next((number for _, _, number in messages if self.seen < number <= self.sent), 0))
        seen = [message for message in messages if message[2] <= edge]
        return self.receipts(seen), self.receipts(messages[len(seen) :])

    def receipts(self, messages: Iterable[Held]) -> list[str]:
        return [receipt(self.subscription, offset, stamp) for offset, stamp, _ in messages]

    def assign(self, deliveries: Sequence[Delivery]) -> Share:
        """Count messages as outstanding, and return them ready to be sent."""
        self.subscription = deliveries[0].subscription
        first = deliveries[0].first_id
        messages = [delivery.message for delivery in deliveries]
        ids = id_texts([first + message.offset for message in messages])
        numbers = count(self.last + 1)
        held = [(delivery.message.offset, delivery.stamp, next(numbers)) for delivery in deliveries]
        self.held.update(zip(ids, held, strict=True))
        self.last += len(held)
        self.wanted -= len(held)
        size = sum(message.size for message in messages)
        return Share(self, ids, [message.data for message in messages], size, self.last)

    def unassign(self, share: Share) -> None:
        """Forget messages whose leases never became durable: they are in the queue again."""
        self.wanted += len(share.ids)
        for message_id in share.ids:
            self.held.pop(message_id, None)

    def send(self, share: Share) -> None:
        if self.client.send(self.phrases.dispatch(share.ids, share.contents)):
            self.sent = share.last
