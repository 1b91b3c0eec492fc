"""Records of topics, subscriptions and leases for readers outside the broker: its state stays inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from penstock.broker.consuming import Delivery
from penstock.broker.model import FOREVER, SECOND, SubscriptionOptions, TopicOptions
from penstock.broker.retry import original_publish_time
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.options import shown_options


def instant(nanoseconds: int) -> datetime:
    """A moment as a datetime, to the microsecond."""
    whole, rest = divmod(nanoseconds, SECOND)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest // 1000)


def nanoseconds(moment: datetime) -> int:
    """A datetime as a moment."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


class TopicMetadata(NamedTuple):
    name: str
    created_at: int
    options: TopicOptions
    number: int
    identity: str  # a topic made again under the same name has another, and so has any topic of another store
    first_id: int  # the id of the message at offset 0; the others count up from it
    head: int  # the first offset that can be read
    tail: int  # the offset of the next message
    head_position: int  # bytes published before the head
    position: int  # bytes published so far

    @property
    def created(self) -> datetime:
        return instant(self.created_at)

    @classmethod
    def of(cls, topic: Topic) -> TopicMetadata:
        return cls(
            topic.name,
            topic.created_at,
            topic.options,
            topic.number,
            topic.identity,
            topic.first_id,
            topic.head,
            topic.tail,
            topic.head_position,
            topic.position,
        )


class SubscriptionMetadata(NamedTuple):
    name: str
    topic: str  # still the name after the topic is deleted
    created_at: int
    options: SubscriptionOptions
    detached: bool
    number: int

    @property
    def created(self) -> datetime:
        return instant(self.created_at)

    @classmethod
    def of(cls, subscription: Subscription) -> SubscriptionMetadata:
        return cls(
            subscription.name,
            subscription.topic_name,
            subscription.created_at,
            subscription.options,
            subscription.detached,
            subscription.number,
        )


class QueueNumbers(NamedTuple):
    """A topic and the one subscription that reads it, in numbers."""

    first_id: int  # of the topic
    subscription: int


class Backlog(NamedTuple):
    """How much a subscription has before it."""

    messages: int  # not acked, in flight included; with a filter an upper bound until the cursor has passed
    bytes: int
    in_flight_messages: int
    in_flight_bytes: int


def backlog_of(topic: Topic | None, subscription: Subscription) -> Backlog:
    if topic is None:
        return Backlog(0, 0, 0, 0)
    return Backlog(
        topic.tail - subscription.settled,
        topic.position - subscription.settled_bytes,
        subscription.in_flight,
        subscription.in_flight_bytes,
    )


class Store(NamedTuple):
    """Where the messages are: whether they survive the process, and the room they take."""

    durable: bool
    bytes: int
    wal_bytes: int  # of those, what is not yet in its place
    free_bytes: int | None  # None: nobody knows
    full: bool  # no new messages are taken, so that acks still fit


class Lease(NamedTuple):
    """A message that a consumer has, and who got it where; None: not known, as after a restart."""

    offset: int
    id: str
    deadline: int  # FOREVER: as long as the consumer is there
    attempts: int
    extensions: int
    door: str | None
    holder: str | None
    leased_at: int | None


class Holding(NamedTuple):
    """What one consumer has of a subscription, as far as was looked; door and holder as in a Lease."""

    door: str | None
    holder: str | None
    leases: int
    since: int | None  # of the oldest lease
    deadline: int  # the first to come


class Unsettled(NamedTuple):
    """A message that a subscription is not done with."""

    offset: int
    stage: Literal["unread", "held", "waiting", "leased"]
    until: int  # leased: the deadline; waiting: when it may be delivered
    attempts: int
    door: str | None  # leased: as in a Lease
    holder: str | None


class InternalMessage(NamedTuple):
    """A message as the in-process queue hands it in and out.

    To publish, only `data` is needed: InternalMessage(b"hello"). The queue gives the rest.
    """

    data: bytes
    attributes: dict[str, str] = {}
    ordering_key: str | None = None
    id: str = ""
    publish_time: datetime | None = None
    delivery_attempt: int = 1
    ack_id: str = ""
    publish_time_ns: int = 0

    @property
    def length(self) -> int:
        return len(self.data)

    @property
    def original_publish_time(self) -> datetime | None:
        """Of a dead letter, when it was published to the topic where it failed; of others, `publish_time`."""
        at = original_publish_time(self.attributes, self.publish_time_ns)
        return instant(at) if at else self.publish_time

    @classmethod
    def of(cls, delivery: Delivery) -> InternalMessage:
        message = delivery.message
        return cls(
            message.data,
            dict(message.attributes),
            message.ordering_key or None,
            delivery.id,
            instant(message.publish_time),
            delivery.attempt,
            delivery.receipt,
            message.publish_time,
        )


class MessageLease(NamedTuple):
    """A message in somebody's hands."""

    message: InternalMessage
    ack_id: str
    subscription: str
    deadline: datetime | None  # None: it lasts as long as the process
    deadline_extensions: int

    @classmethod
    def of(cls, delivery: Delivery, subscription: str, due: int, extensions: int) -> MessageLease:
        deadline = instant(due) if due < FOREVER else None
        return cls(InternalMessage.of(delivery), delivery.receipt, subscription, deadline, extensions)


class ShownOptions(dict[str, Any]):
    """Options by the names a program gives them, as keys and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class QueueSubscription(NamedTuple):
    """A subscription as the in-process queue shows it."""

    name: str
    topic: str  # still the name after the topic is deleted
    created: datetime
    options: ShownOptions
    detached: bool
    number: int

    @classmethod
    def of(cls, metadata: SubscriptionMetadata) -> QueueSubscription:
        name, topic, _, options, detached, number = metadata
        return cls(name, topic, metadata.created, ShownOptions(shown_options(options)), detached, number)
