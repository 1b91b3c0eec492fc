"""Records of topics, subscriptions and leases, for readers outside the broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from penstock.broker.consuming import Delivery
from penstock.broker.model import FOREVER, SECOND, SubscriptionOptions, TopicOptions
from penstock.broker.retry import original_publish_time
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.options import shown_options


def instant(nanoseconds: int) -> datetime:
    """Convert nanoseconds since 1970 to a datetime, to the microsecond."""
    whole, rest = divmod(nanoseconds, SECOND)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest // 1000)


def nanoseconds(moment: datetime) -> int:
    """Convert a datetime to nanoseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


class TopicMetadata(NamedTuple):
    name: str
    created_at: int
    options: TopicOptions
    number: int
    identity: str  # differs for a topic recreated under the same name, and for topics of other stores
    first_id: int  # id of the message at offset 0. Later ids count up from it
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


Kind: TypeAlias = Literal["topics", "subscriptions"]


class NamePage(NamedTuple):
    """A page of names of resources, in order."""

    names: list[str]
    total: int  # number of all names with the same prefix


class QueueNumbers(NamedTuple):
    """The numbers of a queue: a topic and the one subscription that reads it."""

    first_id: int  # first message id of the topic
    subscription: int


class Backlog(NamedTuple):
    """The unacked messages of a subscription, and the leased ones among them."""

    # Messages that are not acked, including those in flight. Messages that the filter keeps out are not counted, except
    # for the moment between a seek and the next housekeeping.
    messages: int
    bytes: int
    in_flight_messages: int
    in_flight_bytes: int


def backlog_of(topic: Topic | None, subscription: Subscription) -> Backlog:
    if topic is None:
        return Backlog(0, 0, 0, 0)
    return Backlog(*subscription.unacked(topic), subscription.in_flight, subscription.in_flight_bytes)


class Store(NamedTuple):
    """The store: whether messages survive the process, and the space that they take."""

    durable: bool
    bytes: int
    wal_bytes: int  # part of `bytes` in the write-ahead log
    free_bytes: int | None  # None: unknown
    full: bool  # True: new messages are refused, so that acks still fit


class Lease(NamedTuple):
    """A leased message, with its consumer and door. None: unknown, as after a restart."""

    offset: int
    id: str
    deadline: int  # FOREVER: as long as the consumer is connected
    attempts: int
    extensions: int
    door: str | None
    holder: str | None
    leased_at: int | None


class Holding(NamedTuple):
    """The leases of one consumer, among the leases looked at. `door` and `holder` are as in a Lease."""

    door: str | None
    holder: str | None
    leases: int
    since: int | None  # start of the oldest lease
    deadline: int  # earliest deadline


class Unsettled(NamedTuple):
    """A message that is not settled on a subscription."""

    offset: int
    stage: Literal["unread", "held", "waiting", "leased"]
    until: int  # leased: the deadline. waiting: when the message may be delivered
    attempts: int
    door: str | None  # of a leased message, as in a Lease
    holder: str | None


class InternalMessage(NamedTuple):
    """A message of the in-process queue, as an argument of publish and as a result of pull.

    To publish, only `data` is needed: InternalMessage(b"hello"). The queue fills in the other fields.
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
        """The first publish time of a dead letter, in the topic where it failed. Other messages: `publish_time`."""
        at = original_publish_time(self.attributes, self.publish_time_ns)
        return instant(at) if at else self.publish_time

    @classmethod
    def of(cls, delivery: Delivery) -> InternalMessage:
        """Return the message of a delivery. A dead letter keeps the publish time of the message that failed."""
        message = delivery.message
        published = original_publish_time(message.attributes, message.publish_time)
        return cls(
            message.data,
            dict(message.attributes),
            message.ordering_key or None,
            delivery.id,
            instant(published),
            delivery.attempt,
            delivery.receipt,
            published,
        )


class MessageLease(NamedTuple):
    """A leased message of the in-process queue."""

    message: InternalMessage
    ack_id: str
    subscription: str
    deadline: datetime | None  # None: the lease lasts as long as the process
    deadline_extensions: int

    @classmethod
    def of(cls, delivery: Delivery, subscription: str, due: int, extensions: int) -> MessageLease:
        deadline = instant(due) if due < FOREVER else None
        return cls(InternalMessage.of(delivery), delivery.receipt, subscription, deadline, extensions)


class ShownOptions(dict[str, Any]):
    """Options by their names in the Python API, as keys and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class QueueSubscription(NamedTuple):
    """A subscription of the in-process queue."""

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
