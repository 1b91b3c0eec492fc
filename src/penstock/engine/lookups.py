"""Lookups, which both queues answer at once, with records that do not change under the reader.

Other threads may decide at the same time, so a lookup takes the engine's lock, or a comment says why it need not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, islice

from penstock.broker.consuming import Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.replay import SeekPreview
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.engine import Engine
from penstock.engine.statistics import (
    SubscriptionStatistics,
    TopicStatistics,
    statistics_of_subscription,
    statistics_of_topic,
)
from penstock.engine.views import (
    Backlog,
    Holding,
    Kind,
    Lease,
    NamePage,
    QueueNumbers,
    Store,
    SubscriptionMetadata,
    TopicMetadata,
    Unsettled,
    backlog_of,
)
from penstock.errors import NotFoundError


def find_topic(engine: Engine, key: str | int) -> TopicMetadata | None:
    with engine.lock:
        topic = _topic(engine, key)
        return TopicMetadata.of(topic) if topic is not None else None


def find_subscription(engine: Engine, key: str | int) -> SubscriptionMetadata | None:
    with engine.lock:
        subscription = _subscription(engine, key)
        return SubscriptionMetadata.of(subscription) if subscription is not None else None


def topic(engine: Engine, name: str) -> TopicMetadata:
    metadata = find_topic(engine, name)
    if metadata is None:
        raise NotFoundError(f"Topic not found: {name}")
    return metadata


def subscription(engine: Engine, name: str) -> SubscriptionMetadata:
    metadata = find_subscription(engine, name)
    if metadata is None:
        raise NotFoundError(f"Subscription not found: {name}")
    return metadata


def topics(engine: Engine) -> list[TopicMetadata]:
    with engine.lock:
        return [TopicMetadata.of(topic) for topic in engine.broker.state.topics.values()]


def subscriptions(engine: Engine, topic_name: str | None = None) -> list[SubscriptionMetadata]:
    """Return the subscriptions of a topic, or all subscriptions, without expired ones."""
    with engine.lock:
        state = engine.broker.state
        chosen = state.subscriptions if topic_name is None else state.topic(topic_name).readers
        engine.expire_unused(*[reader.name for reader in chosen.values() if reader.options.expiration_seconds])
        return [SubscriptionMetadata.of(subscription) for subscription in chosen.values()]


def names(
    engine: Engine,
    kind: Kind,
    prefix: str = "",
    after: str | None = None,
    most: int = 0,
    *,
    descending: bool = False,
) -> NamePage:
    """Return sorted names that begin with a prefix and follow `after`, and the number of all names with the prefix."""
    with engine.lock:
        state = engine.broker.state
        index = state.topic_index if kind == "topics" else state.subscription_index
        return NamePage(index.names(prefix, after, most, descending=descending), index.count(prefix))


def numbered_names(engine: Engine, kind: Kind, most: int | None = None) -> dict[int, str]:
    """Return names by the numbers of their resources: all of them, or those of the oldest resources."""
    with engine.lock:
        state = engine.broker.state
        resources: Mapping[int, Topic | Subscription] = state.topics if kind == "topics" else state.subscriptions
        return {number: resource.name for number, resource in islice(resources.items(), most)}


def reader_names(engine: Engine, topic_name: str) -> list[str]:
    """Return the names of the subscriptions of a topic, in no order."""
    with engine.lock:
        return [subscription.name for subscription in engine.broker.state.topic(topic_name).readers.values()]


def find_topics(engine: Engine, names: Sequence[str]) -> list[TopicMetadata]:
    with engine.lock:
        found = map(engine.broker.state.topic_names.get, names)
        return [TopicMetadata.of(topic) for topic in found if topic is not None]


def find_subscriptions(engine: Engine, names: Sequence[str]) -> list[SubscriptionMetadata]:
    with engine.lock:
        found = [_subscription(engine, name) for name in names]
        return [SubscriptionMetadata.of(subscription) for subscription in found if subscription is not None]


def backlog_messages(engine: Engine, names: Sequence[str]) -> dict[str, int]:
    """Return the number of unacked messages by subscription. Subscriptions without any are left out."""
    with engine.lock:
        state = engine.broker.state
        found = [subscription for subscription in map(state.subscription_names.get, names) if subscription is not None]
        counted = ((reader.name, backlog_of(state.read_topic(reader), reader).messages) for reader in found)
        return {name: messages for name, messages in counted if messages}


def snapshots(engine: Engine) -> list[SnapshotDump]:
    with engine.lock:
        return list(engine.broker.state.snapshots.values())


def backlog(engine: Engine, name: str) -> Backlog:
    with engine.lock:
        subscription = engine.broker.state.subscription(name)
        return backlog_of(engine.broker.state.read_topic(subscription), subscription)


def preview_seek(engine: Engine, name: str, *, offset: int = 0, snapshot: str = "") -> SeekPreview:
    with engine.lock:
        return engine.broker.preview_seek(name, offset=offset, snapshot=snapshot)


def examine(engine: Engine, receipts: Sequence[str]) -> Settled:
    with engine.lock:
        return engine.broker.examine(engine.clocks.of_receipts(receipts).now(), receipts)


def is_unacked(engine: Engine, name: str, offset: int) -> bool:
    with engine.lock:
        return engine.broker.is_unacked(engine.clocks.of(name).now(), name, offset)


def publisher_receipt(engine: Engine, subscription: int, offset: int) -> str:
    # Without the lock: a receipt is computed from the arguments and the secret of the store, which never changes.
    return engine.broker.publisher_receipt(subscription, offset)


def topic_statistics(engine: Engine, names: Sequence[str]) -> list[TopicStatistics]:
    with engine.lock:
        found = map(engine.broker.state.topic_names.get, names)
        return [statistics_of_topic(topic) for topic in found if topic is not None]


def subscription_statistics(engine: Engine, names: Sequence[str]) -> list[SubscriptionStatistics]:
    with engine.lock:
        found, time_of = map(engine.broker.state.subscription_names.get, names), engine.clocks.time_of
        return [
            statistics_of_subscription(engine.broker, subscription, engine.ages, time_of(subscription.topic_name))
            for subscription in found
            if subscription is not None
        ]


def sequences(engine: Engine, topic_name: str, producer: str, epoch: int) -> list[int]:
    """Return the sequence numbers of a producer's epoch whose publishes the topic would recognize as repeated."""
    with engine.lock:
        record = engine.broker.state.topic(topic_name).producers.get(producer)
        return list(record.answers) if record is not None and record.epoch == epoch else []


def topics_of_producer(engine: Engine, producer: str) -> list[str]:
    """Return the topics that remember a publish of a producer."""
    with engine.lock:
        return [topic.name for topic in engine.broker.state.topics.values() if producer in topic.producers]


def store(engine: Engine) -> Store:
    # Without the lock: this asks the journal, not the broker, and any thread may ask it for its sizes.
    return Store(engine.journal.durable, *engine.journal.sizes(), engine.journal.full)


def leases(engine: Engine, name: str, first: int, most: int) -> list[Lease]:
    """Return up to `most` leases of a subscription in ascending order of offset, from `first`."""
    with engine.lock:
        state = engine.broker.state
        subscription = state.subscription(name)
        topic, entries = state.read_topic(subscription), subscription.outstanding
        if topic is None:
            return []
        leases = []
        for offset in nsmallest(most, (o for o, entry in entries.items() if entry.leased and o >= first)):
            entry, id_text = entries[offset], str(topic.first_id + offset)
            origin = engine.lease_origins.find(subscription.number, entry.stamp) or (None, None, None)
            leases.append(Lease(offset, id_text, entry.due, entry.attempts, entry.extensions, *origin))
        return leases


def holdings(engine: Engine, name: str, most: int) -> list[Holding]:
    """Return the leases of a subscription summed up by consumer, from at most `most` leases."""
    with engine.lock:
        subscription, find = engine.broker.state.subscription(name), engine.lease_origins.find
        leased = islice((entry for entry in subscription.outstanding.values() if entry.leased), most)
        stamps: dict[int, list[int]] = {}  # number of leases, and the earliest deadline
        for entry in leased:
            pair = stamps.setdefault(entry.stamp, [0, entry.due])
            pair[0] += 1
            pair[1] = min(pair[1], entry.due)
        holdings: dict[tuple[str | None, str | None], Holding] = {}
        for stamp, (leases, due) in stamps.items():
            door, holder, at = find(subscription.number, stamp) or (None, None, None)
            held = holdings.get((door, holder), Holding(door, holder, 0, at, due))
            since = at if held.since is None else held.since if at is None else min(at, held.since)
            holdings[door, holder] = Holding(door, holder, held.leases + leases, since, min(due, held.deadline))
        return list(holdings.values())


def unacked(engine: Engine, name: str, first: int, most: int) -> list[int]:
    """Return up to `most` ascending offsets from `first` that a subscription has not settled."""
    with engine.lock:
        state = engine.broker.state
        subscription = state.subscription(name)
        topic = state.read_topic(subscription)
        if topic is None:
            return []
        seen = chain(subscription.outstanding, *(lane.held for lane in subscription.lanes.values()))
        below = nsmallest(most, (offset for offset in seen if offset >= first))
        return nsmallest(most, {*below, *islice(_unread(subscription, topic, first), most)})


def unsettled(engine: Engine, name: str, first: int, most: int) -> list[Unsettled]:
    """Return the same messages as `unacked`, each with its stage and the time it waits for."""
    with engine.lock:
        subscription, find = engine.broker.state.subscription(name), engine.lease_origins.find
        messages = []
        for offset in unacked(engine, name, first, most):
            entry = subscription.outstanding.get(offset)
            if entry is None:
                unread = offset >= subscription.cursor
                messages.append(Unsettled(offset, "unread" if unread else "held", 0, 0, None, None))
            else:
                origin = find(subscription.number, entry.stamp) if entry.leased else None
                who = (origin.door, origin.holder) if origin is not None else (None, None)
                leased = entry.leased
                messages.append(Unsettled(offset, "leased" if leased else "waiting", entry.due, entry.attempts, *who))
        return messages


def _unread(subscription: Subscription, topic: Topic, first: int) -> Iterator[int]:
    """Yield the unread offsets of a subscription, from `first` on."""
    offset = max(first, subscription.cursor)
    for skipped, until in [*subscription.skips, (topic.tail, topic.tail)]:
        yield from range(offset, skipped)
        offset = max(offset, until)


def find_queue(engine: Engine, topic_name: str, name: str) -> QueueNumbers | None:
    """Return the numbers of a queue, or None unless the topic exists and the subscription reads it."""
    # Without the lock: numbers never change, and a topic or subscription deleted between two steps fails the last one.
    state = engine.broker.state
    subscription, topic = state.subscription_names.get(name), state.topic_names.get(topic_name)
    if subscription is None or topic is None or state.read_topic(subscription) is not topic:
        return None
    return QueueNumbers(topic.first_id, subscription.number)


def document(engine: Engine, kind: str, name: str) -> bytes | None:
    # Without the lock: both steps are reads of one key, and the bytes that they find never change.
    return engine.broker.state.documents.get(kind, {}).get(name)


def documents(engine: Engine, kind: str) -> dict[str, bytes]:
    with engine.lock:
        return dict(engine.broker.state.documents.get(kind, {}))


def _topic(engine: Engine, key: str | int) -> Topic | None:
    state = engine.broker.state
    return state.topic_names.get(key) if isinstance(key, str) else state.topics.get(key)


def _subscription(engine: Engine, key: str | int) -> Subscription | None:
    state = engine.broker.state
    subscription = state.subscription_names.get(key) if isinstance(key, str) else state.subscriptions.get(key)
    if subscription is None or not subscription.options.expiration_seconds:
        return subscription
    engine.expire_unused(subscription.name)
    return engine.broker.state.subscription_names.get(subscription.name)
