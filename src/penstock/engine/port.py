"""The port of the doors: a message queue as they see it, here or on another machine.

A verb is one call. It is decided when it is called, in the order of the calls, and its awaitable answers when that is
durable; a refusal is raised where the awaitable is awaited. Lookups answer with what is decided, durable or not yet.
Nothing a verb takes or gives belongs to the broker's state, so every verb can be a message.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.broker.consuming import Delivery, Peeked, Renewed, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.facts import Fact
from penstock.broker.limits import Limits
from penstock.broker.model import Draft, Message, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Appended, Once
from penstock.broker.replay import SeekPreview
from penstock.engine.clock import Alarm, Clock, sleep_until
from penstock.engine.statistics import SubscriptionStatistics, TopicStatistics
from penstock.engine.stories import Happening, Story
from penstock.engine.time_travel import IDLE_SECONDS, PACE, Pace, Time
from penstock.engine.views import (
    Backlog,
    Holding,
    Lease,
    QueueNumbers,
    Store,
    SubscriptionMetadata,
    TopicMetadata,
    Unsettled,
)
from penstock.errors import PenstockError
from penstock.journal.port import BackupProgress, BackupReport

__all__ = [
    "Alarm",
    "Appended",
    "Backlog",
    "BackupProgress",
    "BackupReport",
    "Clock",
    "Delivery",
    "Happening",
    "Holding",
    "Lease",
    "Leased",
    "Listener",
    "Once",
    "Pace",
    "Peeked",
    "Queue",
    "QueueNumbers",
    "Renewed",
    "SeekPreview",
    "Settled",
    "SnapshotDump",
    "Store",
    "Story",
    "SubscriptionMetadata",
    "Time",
    "TimeControl",
    "TopicMetadata",
    "Unsettled",
    "refusal",
    "sleep_until",
]

Listener: TypeAlias = Callable[..., None]


class Leased(NamedTuple):
    """Messages that were leased a moment ago."""

    deliveries: list[Delivery]
    tail: int  # of the topic: as soon as the lease is durable, all messages before it are
    durable: Future[None]  # done when the lease is durable; failed if it never will be


def refusal(decision: Future[Any]) -> PenstockError | None:
    """Why a decision was refused, where that is known at once."""
    error = decision.exception() if decision.done() else None
    assert error is None or isinstance(error, PenstockError)
    return error


class TimeControl(Protocol):
    """The time of a namespace: names that have a time in common, and may have one of their own."""

    def connect(self, subscription: int, holder: str, lease_seconds: float) -> None:
        """A consumer is there that extends its leases by itself, until `disconnect`; 0: it does not."""

    def disconnect(self, subscription: int, holder: str) -> None: ...

    def show(self, namespace: str) -> Awaitable[Time]: ...

    def freeze(self, namespace: str, at: int | None = None, pace: Pace = PACE) -> Awaitable[Time]:
        """Stand still, now or at a later instant; in a namespace without topics, at any."""

    def advance(
        self, namespace: str, seconds: float = 0, until: int | None = None, pace: Pace = PACE
    ) -> Awaitable[Time]:
        """Move by so many seconds, or to an instant; afterwards the clock runs, stands or skips as it did before."""

    def release(self, namespace: str, *, catch_up: bool = False, pace: Pace = PACE) -> Awaitable[Time]:
        """Run on from where it is. `catch_up`: go to the server's time first, and be one with it from then on."""

    def forget(self, namespace: str) -> Awaitable[None]:
        """Nothing is left of a namespace: whoever uses its names next begins with the server's time."""

    def automate(self, namespace: str, idle_seconds: float = IDLE_SECONDS, pace: Pace = PACE) -> Awaitable[Time]:
        """Stand still, and skip to the next moment that somebody waits for whenever nobody is busy."""


class Queue(Protocol):
    @property
    def clock(self) -> Clock:
        """The server's: how long callers wait, and whatever is nobody's in particular."""

    def clock_of(self, name: str) -> Clock:
        """Of a topic, a subscription or a snapshot."""

    @property
    def time(self) -> TimeControl: ...

    @property
    def limits(self) -> Limits: ...

    # ------------------------------------------------------------------ messages

    def publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, *, sizes: Sequence[int] | None = None
    ) -> Future[Appended]:
        """All of them or none. `sizes`: of drafts that the caller has checked against limits no wider than these."""

    def send(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions,
        drafts: Sequence[Draft],
        *,
        sizes: Sequence[int] | None = None,
    ) -> Future[Appended]:
        """Publish to a queue, which is made first where it is missing."""

    def pull(
        self,
        name: str,
        max_messages: int,
        *,
        lease_seconds: float | None = None,
        max_bytes: int = 0,
        wait_seconds: float = 0,
        holder: str = "",
    ) -> Awaitable[list[Delivery]]:
        """Lease up to `max_messages`; with nothing ready, wait up to `wait_seconds` for something.

        `holder`: the consumer. While one has messages of an ordering key, no other gets more of that key. A caller that
        is cancelled gets nothing, and what was leased for it goes back. Waiting ends with an
        UnavailableError when the server stops.
        """

    def lease(
        self,
        name: str,
        max_messages: int,
        *,
        lease_seconds: float | None = None,
        max_bytes: int = 0,
        wait_seconds: float = 0,
        holder: str = "",
    ) -> Awaitable[Leased]:
        """One look, for consumers that choose the next messages while the lease of the last ones is committed.

        With nothing ready it waits until there may be something, and answers without messages: look again.
        """

    def lease_at(self, name: str, offsets: Sequence[int], *, holder: str = "") -> Awaitable[list[Delivery]]:
        """Lease chosen messages, for as long as the process lives: those of them that are unacked and with nobody.

        For subscriptions that do not order; a FailedPreconditionError for others.
        """

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return what was leased and never reached a consumer: the attempt does not count."""

    def ack(self, receipts: Sequence[str], *, lapsed: bool = False) -> Future[Settled]:
        """`lapsed`: also leases that ended after the ack was given, if that was not noticed yet."""

    def ack_delivered(self, subscription: int, places: Sequence[tuple[int, ...]]) -> Future[int]:
        """Ack deliveries of a subscription by offset and stamp; how many of them were still good."""

    def nack(
        self, receipts: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False
    ) -> Future[Settled]:
        """`unseen`: these never reached a consumer, so the attempt does not count."""

    def extend(self, receipts: Sequence[str], seconds: float, *, lapsed: bool = False) -> Future[Settled]:
        """Let leases end `seconds` from now; 0 hands the messages back. `lapsed`: as for `ack`."""

    def renew(self, receipt: str, seconds: float, data: bytes | None = None) -> Future[Renewed]:
        """Exchange a receipt for a new one, with a new deadline and perhaps a new body."""

    def peek(self, name: str, max_messages: int) -> Future[Peeked]:
        """Messages that a pull would give, left as they are."""

    def purge(self, name: str) -> Future[None]:
        """Everything published so far counts as acked."""

    def examine(self, receipts: Sequence[str]) -> Awaitable[Settled]:
        """Which receipts are not good, without acting on the others. For subscriptions whose receipts are strict."""

    def is_unacked(self, name: str, offset: int) -> Awaitable[bool]:
        """Whether a message is still to be settled on a subscription, and its time is not over."""

    def unacked(self, name: str, first: int, most: int) -> Awaitable[list[int]]:
        """The next offsets from `first` on that are not settled on a subscription, ascending; leased ones included."""

    def unsettled(self, name: str, first: int, most: int) -> Awaitable[list[Unsettled]]:
        """The same with the stage of each, and what it waits for."""

    def story(self, topic_name: str, first: int, until: int) -> Awaitable[Story]:
        """What happened to the messages with first <= offset < until, as far as the server still knows."""

    def leases(self, name: str, first: int, most: int) -> Awaitable[list[Lease]]:
        """What consumers have of a subscription, from an offset on, ascending."""

    def holdings(self, name: str, most: int) -> Awaitable[list[Holding]]:
        """The same by consumer; no more than `most` leases are looked at."""

    def sequences(self, topic_name: str, producer: str) -> Awaitable[list[int]]:
        """The publishes of a producer that a topic remembers, so that they count once."""

    def forget_producer(self, topic_name: str, producer: str) -> Future[None]:
        """Forget the publish-once answers of a producer that will not ask again."""

    def publisher_receipt(self, subscription: int, offset: int) -> Awaitable[str]:
        """A receipt for a message that was just published, good on one subscription until it is first delivered."""

    # ------------------------------------------------------------------ topics

    def create_topic(self, name: str, options: TopicOptions | None = None) -> Future[TopicMetadata]: ...

    def change_topic(self, name: str, options: TopicOptions) -> Future[TopicMetadata]: ...

    def delete_topic(self, name: str) -> Future[None]: ...

    def purge_topic(self, name: str) -> Future[int]:
        """The same on every subscription of a topic, and nothing is kept of it; how many messages the topic had."""

    def find_topic(self, key: str | int) -> Awaitable[TopicMetadata | None]:
        """By name or by number."""

    def topics(self) -> Awaitable[list[TopicMetadata]]: ...

    def topic_statistics(self, names: Sequence[str]) -> Awaitable[list[TopicStatistics]]:
        """What is counted of these; those that are not there are left out."""

    def read(self, topic_name: str, first: int, until: int, max_bytes: int = 0) -> Awaitable[list[Message]]:
        """The messages of a topic with first <= offset < until that are still kept; all of them are durable.

        With `max_bytes` there may be fewer, the first ones: not many more bytes than that come into memory.
        """

    def first_offset_at(self, topic_name: str, at: int) -> Future[int]:
        """The first kept offset published at or after an instant, or the tail."""

    # ------------------------------------------------------------------ subscriptions

    def create_subscription(
        self, name: str, topic_name: str, options: SubscriptionOptions | None = None
    ) -> Future[SubscriptionMetadata]: ...

    def create_subscription_at(
        self, name: str, topic_name: str, offset: int, options: SubscriptionOptions | None = None
    ) -> Future[SubscriptionMetadata]:
        """A new subscription that sees what is kept from an offset on; never there without being at its place."""

    def change_subscription(self, name: str, options: SubscriptionOptions) -> Future[SubscriptionMetadata]: ...

    def delete_subscription(self, name: str) -> Future[None]: ...

    def detach_subscription(self, name: str) -> Future[None]: ...

    def touch_subscription(self, name: str) -> Future[None]:
        """It was used just now."""

    def find_subscription(self, key: str | int) -> Awaitable[SubscriptionMetadata | None]:
        """By name or by number."""

    def subscriptions(self, topic_name: str | None = None) -> Awaitable[list[SubscriptionMetadata]]:
        """Those of a topic, or all of them."""

    def subscription_statistics(self, names: Sequence[str]) -> Awaitable[list[SubscriptionStatistics]]:
        """What is counted of these; those that are not there are left out."""

    def backlog(self, name: str) -> Awaitable[Backlog]: ...

    def preview_seek(self, name: str, *, offset: int = 0, snapshot: str = "") -> Awaitable[SeekPreview]:
        """What a seek to an offset, or to a snapshot where one is named, would change."""

    def seek_to_offset(self, name: str, offset: int) -> Future[None]: ...

    def seek_to_time(self, name: str, at: int) -> Future[None]: ...

    def seek_to_snapshot(self, name: str, snapshot: str) -> Future[None]: ...

    # ------------------------------------------------------------------ queues: a topic with one subscription

    def provide_queue(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions | None = None,
        topic_options: TopicOptions | None = None,
    ) -> Future[bool]:
        """Make what is missing of a topic and the subscription that reads it; whether anything was."""

    def remove_queue(self, topic_name: str, name: str) -> Future[None]: ...

    def find_queue(self, topic_name: str, name: str) -> Awaitable[QueueNumbers | None]:
        """None unless the topic is there and the subscription reads it."""

    def queue_names(self, topic_prefix: str, prefix: str) -> Awaitable[list[str]]:
        """What follows the prefixes in the names of topics that a subscription of the same ending reads."""

    # ------------------------------------------------------------------ snapshots, and documents of the doors

    def create_snapshot(
        self, snapshot: str, subscription: str, labels: dict[str, str] | None = None
    ) -> Future[SnapshotDump]: ...

    def change_snapshot(self, name: str, *, expires_at: int, labels: dict[str, str]) -> Future[SnapshotDump]: ...

    def delete_snapshot(self, name: str) -> Future[None]: ...

    def snapshots(self) -> Awaitable[list[SnapshotDump]]: ...

    def put_document(self, kind: str, name: str, body: bytes) -> Future[None]: ...

    def remove_document(self, kind: str, name: str) -> Future[None]: ...

    def document(self, kind: str, name: str) -> Awaitable[bytes | None]: ...

    def documents(self, kind: str) -> Awaitable[dict[str, bytes]]: ...

    # ------------------------------------------------------------------ the whole store

    def backup(self, folder: str) -> AsyncGenerator[BackupProgress | BackupReport, None]:
        """Copy all that is durable into a folder of the server's machine; the last answer is the report.

        Whoever leaves before that, closing the generator, stops it.
        """

    def store(self) -> Awaitable[Store]:
        """Where the messages are kept."""

    # ------------------------------------------------------------------ news

    def commit(self) -> Future[None]:
        """Done when all that was decided so far is durable: a barrier after lookups that a client is told of."""

    def on(self, kinds: Iterable[type[Fact]], listener: Listener) -> Listener:
        """Call a listener in the loop with every fact of these kinds, in order; give the answer to `off` to end it."""

    def on_reset(self, listener: Callable[[], None]) -> Listener:
        """Call a listener in the loop when decisions were lost: the broker went back to its last commit."""

    def off(self, listener: Listener) -> None: ...
