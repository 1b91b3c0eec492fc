"""Housekeeping: retention, expiry, and time acting where no consumer asks.

Nothing that an unacked message, a snapshot or a retention still needs is forgotten. Offsets for instants and
positions are looked up by the caller (only the journal knows them) and handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.broker import facts as f
from penstock.broker.ledger import Ledger
from penstock.broker.log import Need
from penstock.broker.model import SECOND
from penstock.broker.ranges import find_outside
from penstock.broker.replay import bytes_between, kept_since, position_of
from penstock.broker.returning import drop, settle_due
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic


def expire_resources(ledger: Ledger, now: int, time_of: Callable[[str], int] | None = None) -> None:
    """Delete unused subscriptions and snapshots past their time, forget idle producers.

    `time_of`: of a topic by its name, where it is not `now` everywhere.
    """
    time_of = time_of or (lambda _: now)
    for subscription in list(ledger.state.subscriptions.values()):
        if subscription.options.expiration_seconds and subscription.is_unused(time_of(subscription.topic_name)):
            ledger.emit(f.SubscriptionDeleted(subscription.number))
    for snapshot in list(ledger.state.snapshots.values()):
        if snapshot.expires_at <= time_of(snapshot.topic_name):
            ledger.emit(f.SnapshotDropped(snapshot.name))
    idle = int(ledger.limits.producer_idle_seconds * SECOND)
    for topic in ledger.state.topics.values():
        since = time_of(topic.name) - idle if topic.producers else 0
        silent = [name for name, producer in topic.producers.items() if producer.seen_at < since]
        if silent:
            ledger.emit(f.ProducersForgotten(topic.number, silent))


def settle(ledger: Ledger, now: int, name: str) -> Need | None:
    """Let time act on one subscription, as a pull would."""
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    return settle_due(ledger, topic, subscription, now) if topic is not None else None


def is_trim_due(ledger: Ledger, now: int, topic: Topic) -> bool:
    return topic.head < topic.tail and now >= topic.trim_at


def make_trims_due(ledger: Ledger, is_moved: Callable[[str], bool] = lambda _: True) -> None:
    """Let the next housekeeping look at retention, although it looked a moment ago: a clock was moved.

    `is_moved`: whether the clock of a topic, by its name, was moved.
    """
    for topic in ledger.state.topics.values():
        if is_moved(topic.name):
            topic.trim_at = 0


def retention_times(ledger: Ledger, now: int, topic: Topic) -> list[int]:
    """The instants whose offsets `trim` will want to know for a topic."""
    own = ledger.retention_seconds(topic)
    seconds = [own, *(reader.options.retention_seconds for reader in topic.readers.values())]
    shortest = min([each for each in seconds if each] if own else [0])  # without its own, acked ones go at once
    longest = 1 if ledger.retention_bytes(topic) else 600  # bytes come fast, whatever the time they may stay
    topic.trim_at = now + int(min(max(shortest / 100, 1), longest) * SECOND)
    times = {kept_since(now, each) for each in seconds if each}
    return sorted(at for at in times if at > topic.head_at)


def lapse(ledger: Ledger, now: int, topic: Topic, offsets: Mapping[int, int], positions: dict[int, int]) -> Need | None:
    """Drop what subscriptions keep no longer.

    `offsets` answers retention_times; `positions` keeps what was read between one call and the next, as the messages
    may not fit the cache together.
    """
    for subscription in topic.readers.values():
        floor = _floor(now, subscription.options.retention_seconds, offsets)
        need = _lapse(ledger, topic, subscription, now, floor, positions)
        if need is not None:
            return need
    return None


def trim(
    ledger: Ledger, now: int, topic: Topic, offsets: Mapping[int, int], fullest: int, until_max: int
) -> Need | None:
    """Forget what nothing needs, up to `until_max`; `fullest` is the first offset within the topic's size cap."""
    kept = [topic.tail, until_max]
    for reader in topic.readers.values():
        kept.append(reader.lowest_unacked())
        if reader.options.retain_acked:
            kept.append(_floor(now, reader.options.retention_seconds, offsets))
    kept += [ledger.state.snapshots[name].cursor for name in ledger.state.topic_snapshots.get(topic.number, ())]
    seconds = ledger.retention_seconds(topic)
    if seconds:
        kept.append(max(_floor(now, seconds, offsets), fullest))
    until = min(kept)
    if until <= topic.head:
        return None
    position = position_of(ledger, topic, until)
    if isinstance(position, Need):
        return position
    first = ledger.cache.get(topic.number, until)
    topic.head_at = first.publish_time if first is not None else topic.head_at
    ledger.emit(f.Forgotten(topic.number, until, position))
    ledger.cache.forget(topic.number, until)
    return None


def _floor(now: int, seconds: float, offsets: Mapping[int, int]) -> int:
    return offsets.get(kept_since(now, seconds), 0) if seconds else 0


def _lapse(
    ledger: Ledger, topic: Topic, subscription: Subscription, now: int, floor: int, positions: dict[int, int]
) -> Need | None:
    """Unacked messages older than the subscription keeps them are dropped."""
    if floor <= subscription.lowest_unacked():
        return None
    held = sorted(
        (offset, size, key)
        for key, lane in subscription.lanes.items()
        for offset, size in zip(lane.held, lane.held_sizes, strict=True)
        if offset < floor
    )
    if held:  # they get entries, so that they can leave as the others do
        offsets, sizes, keys = (list(column) for column in zip(*held, strict=True))
        ledger.emit(f.Delayed(subscription.number, now, offsets, sizes, keys, [now] * len(held), [0] * len(held)))
    outstanding = sorted(offset for offset in subscription.outstanding if offset < floor)
    drop(ledger, subscription, now, outstanding, "retention")
    if floor <= subscription.cursor:
        return None
    start = max(subscription.cursor, topic.head)  # what is forgotten above the cursor is inside a skip
    if subscription.ahead and floor < subscription.compared:
        return _pass_compared(ledger, topic, subscription, now, start, floor)
    size = bytes_between(ledger, topic, start, floor, positions)
    count = floor - start
    for first, until in subscription.skips:
        first, until = max(first, start), min(until, floor)
        if isinstance(size, int) and first < until:
            skipped = bytes_between(ledger, topic, first, until, positions)
            size = size - skipped if isinstance(skipped, int) else skipped
            count -= until - first
    if isinstance(size, Need):
        return size
    ahead = subscription.ahead  # all of it lies below the floor
    ledger.emit(f.Passed(subscription.number, now, floor, count, size, ahead, ahead, subscription.ahead_bytes))
    subscription.counts.drop("retention", count - ahead)
    return None


def _pass_compared(
    ledger: Ledger, topic: Topic, subscription: Subscription, now: int, start: int, floor: int
) -> Need | None:
    """Drop unread messages below `floor` where some beyond it were compared with the filter.

    How many of the dropped ones were counted as acked before is found by comparing them again.
    """
    accepts, place = subscription.accepts, find_outside(subscription.skips, start)
    assert accepts is not None, "only a filter is compared ahead of the cursor"
    count = size = ahead = ahead_bytes = 0
    need = None
    while place < floor and need is None:
        message = ledger.look_up(topic, place)
        if isinstance(message, Need):
            need = message
            break
        count, size = count + 1, size + message.size
        if not accepts(message.attributes):
            ahead, ahead_bytes = ahead + 1, ahead_bytes + message.size
        place = find_outside(subscription.skips, place + 1)
    if place > subscription.cursor:
        until = min(place, floor)
        ledger.emit(f.Passed(subscription.number, now, until, count, size, ahead, ahead, ahead_bytes))
        subscription.counts.drop("retention", count - ahead)
    return need
