"""Commands that may have to read the journal before they can decide, as generators.

There is no I/O here. A generator yields a question (a range of messages, the offset of an instant) and continues with
the answer. The blocking queue reads, the awaitable queue awaits, and both run the same code. Other commands may run
between two steps, so each step asks the broker again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.consuming import Delivery, Peeked, Renewed, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.filtering import FILTER_SLICE
from penstock.broker.log import Need
from penstock.broker.model import SECOND, Message, SubscriptionOptions, TopicOptions
from penstock.broker.names import MAX_OFFSET
from penstock.broker.topic import Topic
from penstock.engine.views import SubscriptionMetadata, TopicMetadata
from penstock.errors import FailedPreconditionError

T = TypeVar("T")


class Find(NamedTuple):
    """A question to the journal: the first stored offset published at or after `at`."""

    topic: int
    at: int


class PublishTime(NamedTuple):
    """A question to the journal: when a stored message was published."""

    topic: int
    offset: int


class Pause(NamedTuple):
    """A pause instead of a question, in which other commands run before the next step."""

    topic: int


Question: TypeAlias = Need | Find | PublishTime | Pause
Steps: TypeAlias = Generator[Question, "int | None", T]
Now: TypeAlias = Callable[[], int]
TimeOf: TypeAlias = Callable[[str], int]  # the time of a topic by its name


def pull(
    broker: Broker,
    now: Now,
    name: str,
    max_messages: int,
    lease_seconds: float | None,
    max_bytes: int,
    holder: str = "",
    taken: list[Delivery] | None = None,
) -> Steps[list[Delivery]]:
    """Lease up to `max_messages`, in several steps if needed. If the caller gives up, `taken` has the deliveries."""
    deliveries: list[Delivery] = [] if taken is None else taken
    while len(deliveries) < max_messages:
        room = max_bytes - sum(delivery.message.size for delivery in deliveries) if max_bytes else 0
        if max_bytes and room <= 0:
            break
        left = max_messages - len(deliveries)
        pulled = broker.pull(now(), name, left, lease_seconds=lease_seconds, max_bytes=room, holder=holder)
        deliveries += pulled.deliveries
        if pulled.need is not None:
            yield pulled.need
        elif not pulled.more or (max_bytes and deliveries):
            break
    return deliveries


def lease_at(
    broker: Broker, now: Now, name: str, offsets: Sequence[int], taken: list[Delivery] | None = None
) -> Steps[list[Delivery]]:
    """Lease the messages at these offsets, oldest first, in as many steps as needed. `taken`: as for `pull`."""
    deliveries: list[Delivery] = [] if taken is None else taken
    left = sorted(set(offsets))
    while left:
        pulled = broker.lease_at(now(), name, left)
        deliveries += pulled.deliveries
        if pulled.need is not None:
            yield pulled.need
        if not pulled.more:
            break
        # Otherwise messages that are not leased would be read again and again.
        left = [offset for offset in left if offset >= pulled.rest]
    return deliveries


def peek(broker: Broker, now: Now, name: str, max_messages: int) -> Steps[Peeked]:
    """Return messages that a pull would lease. They are kept until the end, as they may not fit the cache together."""
    pinned: dict[tuple[int, int], Message] = {}
    while True:
        peeked = broker.peek(now(), name, max_messages, pinned)
        if peeked.need is None:
            return peeked
        yield peeked.need


def settle(command: Callable[[int, Sequence[str]], Settled], now: Now, receipts: Sequence[str]) -> Steps[Settled]:
    """Run an ack, nack or extend until every receipt is decided."""
    settled = command(now(), receipts)
    while settled.need is not None:
        yield settled.need
        rest = command(now(), settled.pending)
        settled = Settled(settled.stale + rest.stale, settled.malformed + rest.malformed, rest.pending, rest.need)
    return settled


def renew(
    broker: Broker, now: Now, receipt: str, seconds: float, data: bytes | None, *, strict: bool = True
) -> Steps[Renewed]:
    while True:
        renewed = broker.renew(now(), receipt, seconds, data, strict=strict)
        if renewed.need is None:
            return renewed
        yield renewed.need


def seek_to_offset(broker: Broker, now: Now, name: str, offset: int) -> Steps[None]:
    while (need := broker.seek_to_offset(now(), name, offset)) is not None:
        yield need


def seek_to_time(broker: Broker, now: Now, name: str, at: int) -> Steps[None]:
    """Ack messages published before `at`. Later messages become unacked if they were unacked or are retained."""
    reach, positions = MAX_OFFSET, dict[int, int]()
    retained = broker.seek_reach(now(), name)
    topic = broker.state.topics[broker.state.subscription(name).topic]
    offset = yield from first_offset_at(broker, now, topic.name, at)
    for since, least in retained:
        first = yield from first_offset_at(broker, now, topic.name, since)
        reach = min(reach, max(first, least))
    while (need := broker.seek_retained(now(), name, offset, reach, positions)) is not None:
        yield need


def first_offset_at(broker: Broker, _now: Now, topic_name: str, at: int) -> Steps[int]:
    """Return the first kept offset published at or after `at`, or the tail."""
    topic = broker.state.topic(topic_name)
    tail = topic.tail
    if topic.head == tail or topic.last_publish_at < at:
        return tail
    offset = yield Find(topic.number, at)
    return max(offset, topic.head) if offset is not None else tail


def create_subscription_at(
    broker: Broker, now: Now, name: str, topic_name: str, offset: int, options: SubscriptionOptions | None = None
) -> Steps[SubscriptionMetadata]:
    while True:
        subscription = broker.create_subscription(now(), name, topic_name, options)
        need = broker.seek_to_offset(now(), name, offset)
        if need is None:
            return SubscriptionMetadata.of(subscription)
        broker.delete_subscription(name)
        yield need


def create_snapshot(
    broker: Broker, now: Now, snapshot: str, subscription: str, labels: dict[str, str] | None = None
) -> Steps[SnapshotDump]:
    while True:
        taken = broker.create_snapshot(now(), snapshot, subscription, labels)
        if not isinstance(taken, Need):
            return taken
        yield taken


def oldest_publish_time(broker: Broker, name: str) -> Steps[int | None]:
    while name in broker.state.subscription_names:
        message = broker.oldest_unacked(name)
        if not isinstance(message, Need):
            return message.publish_time if message is not None else None
        yield message
    return None


# ---------------------------------------------------------------------- housekeeping


def housekeep(broker: Broker, now: Now, time_of: TimeOf | None = None) -> Steps[None]:
    """Handle due leases and retention. `time_of`: the time of a topic, if not all topics have the same time."""
    state, at = broker.state, now()
    if time_of is None:
        due = [reader for reader in state.subscriptions.values() if reader.timers.next_due() <= at]
        full = [topic for topic in state.topics.values() if broker.is_trim_due(at, topic)]
    else:
        due = [
            reader for reader in state.subscriptions.values() if reader.timers.next_due() <= time_of(reader.topic_name)
        ]
        full = [topic for topic in state.topics.values() if broker.is_trim_due(time_of(topic.name), topic)]
    for reader in due:
        time = now if time_of is None else partial(time_of, reader.topic_name)
        while reader.name in state.subscription_names and (need := broker.settle(time(), reader.name)) is not None:
            yield need
    for topic in full:
        yield from _trim(broker, now if time_of is None else partial(time_of, topic.name), topic)
    yield from _compare_filters(broker, now, time_of)


def _compare_filters(broker: Broker, now: Now, time_of: TimeOf | None) -> Steps[None]:
    """Compare filters with messages that publishes left to housekeeping, the furthest behind first, within a budget."""
    state, budget = broker.state, COMPARED_AT_ONCE
    behind = [
        (topic.tail - subscription.front, topic, subscription)
        for topic in state.topics.values()
        for subscription in topic.filtered.values()
        if subscription.front < topic.tail
    ]
    for _, topic, subscription in sorted(behind, key=lambda entry: -entry[0]):
        while topic.filtered.get(subscription.number) is subscription and subscription.front < topic.tail:
            if budget <= 0 or topic.number not in state.topics:
                break
            budget -= FILTER_SLICE
            at = now() if time_of is None else time_of(topic.name)
            yield broker.compare_filter(at, topic, subscription) or Pause(topic.number)


def _trim(broker: Broker, now: Now, topic: Topic) -> Steps[None]:
    at = now()
    offsets = {}
    for time in broker.retention_times(at, topic):
        tail = topic.tail  # messages published before the answer arrives are younger
        offset = yield Find(topic.number, time)
        offsets[time] = tail if offset is None else offset
    fullest = yield from _first_within_cap(broker, topic)
    positions, until = dict[int, int](), MAX_OFFSET
    while topic.number in broker.state.topics and (need := broker.lapse(at, topic, offsets, positions)) is not None:
        yield need
    while topic.number in broker.state.topics and (need := broker.trim(at, topic, offsets, fullest, until)) is not None:
        until = need.first  # later messages wait, or acks during the read would ask for another message each time
        yield need


def _first_within_cap(broker: Broker, topic: Topic) -> Steps[int]:
    """Return the first offset from which a topic is within its cap in bytes, by bisection over positions."""
    cap = broker.retention_bytes(topic)
    wanted = topic.position - cap
    if not cap or topic.head_position >= wanted:
        return 0
    low, high = topic.head, topic.tail
    while low < high:
        middle = (low + high) // 2
        message = yield from _message(broker, topic, middle)
        if message is None or message.position >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def leased(broker: Broker, name: str) -> Steps[list[tuple[Delivery, int, int]]]:
    """Return the leases of a subscription, oldest message first, with their deadlines and numbers of extensions."""
    subscription = broker.state.subscription(name)
    topic, leases = broker.state.read_topic(subscription), []
    for offset in sorted(subscription.outstanding) if topic is not None else ():
        message = (yield from _message(broker, topic, offset)) if topic is not None else None
        entry = subscription.outstanding.get(offset)
        if message is not None and topic is not None and entry is not None and entry.leased:
            message = message if entry.body is None else message._replace(data=entry.body)
            delivery = Delivery(message, subscription.number, topic.first_id, entry.stamp, entry.attempts)
            leases.append((delivery, entry.due, entry.extensions))
    return leases


def _message(broker: Broker, topic: Topic, offset: int) -> Steps[Message | None]:
    while topic.number in broker.state.topics and topic.head <= offset:
        message = broker.look_up(topic, offset)
        if isinstance(message, Message):
            return message
        yield message
    return None


COMPARED_AT_ONCE = 100_000  # messages that housekeeping compares with filters in one round
TICK = SECOND
RESOURCE_TICK = 60 * SECOND


# ---------------------------------------------------------------------- topics and subscriptions, as they are shown


def create_topic(broker: Broker, now: int, name: str, options: TopicOptions | None = None) -> TopicMetadata:
    return TopicMetadata.of(broker.create_topic(now, name, options))


def change_topic(broker: Broker, name: str, options: TopicOptions) -> TopicMetadata:
    return TopicMetadata.of(broker.change_topic(name, options))


def create_subscription(
    broker: Broker, now: int, name: str, topic_name: str, options: SubscriptionOptions | None = None
) -> SubscriptionMetadata:
    return SubscriptionMetadata.of(broker.create_subscription(now, name, topic_name, options))


def change_subscription(broker: Broker, name: str, options: SubscriptionOptions) -> SubscriptionMetadata:
    return SubscriptionMetadata.of(broker.change_subscription(name, options))


# ---------------------------------------------------------------------- queues: a topic with one subscription


def provide_queue(
    broker: Broker,
    now: int,
    topic_name: str,
    name: str,
    options: SubscriptionOptions | None = None,
    topic_options: TopicOptions | None = None,
) -> bool:
    """Create the topic and the subscription of a queue if they do not exist. Return whether anything was created.

    A new subscription begins with the messages that its topic still keeps. A subscription whose topic was deleted is
    empty, and is replaced.
    """
    subscription = broker.state.subscription_names.get(name)
    if subscription is not None and not subscription.detached:
        if subscription.topic_name == topic_name:
            return False
        raise FailedPreconditionError(f"Subscription {name} reads another topic: {subscription.topic_name}")
    if topic_name not in broker.state.topic_names:
        broker.create_topic(now, topic_name, topic_options)
    if subscription is not None:
        broker.delete_subscription(name)
    broker.create_subscription(now, name, topic_name, options, at_head=True)
    return True


def remove_queue(broker: Broker, topic_name: str, name: str) -> None:
    """Delete the topic and the subscription of a queue in one step. Other subscriptions of the topic stay, detached."""
    broker.delete_subscription(name)
    broker.delete_topic(topic_name)
