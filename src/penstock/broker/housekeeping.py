"""Housekeeping: retention, expiry, and due times of subscriptions that no consumer reads.

Messages that are unacked, or that a snapshot or a retention needs, are kept. The caller looks up the offsets of
instants and positions, because only the journal knows them.
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
    """Delete unused subscriptions and expired snapshots, and forget idle producers.

    `time_of` gives the time of a topic by its name, if it is not `now` for all topics.
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
    """End leases and delays of a subscription that fell due, as a pull would."""
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    return settle_due(ledger, topic, subscription, now) if topic is not None else None


def is_trim_due(ledger: Ledger, now: int, topic: Topic) -> bool:
    return topic.head < topic.tail and now >= topic.trim_at


def make_trims_due(ledger: Ledger, is_moved: Callable[[str], bool] = lambda _: True) -> None:
    """Make the next housekeeping check retention, because a clock was moved.

    `is_moved` tells whether the clock of a topic, by its name, was moved.
    """
    for topic in ledger.state.topics.values():
        if is_moved(topic.name):
            topic.trim_at = 0


def retention_times(ledger: Ledger, now: int, topic: Topic) -> list[int]:
    """Return the instants whose offsets `lapse` and `trim` need for a topic."""
    own = ledger.retention_seconds(topic)
    seconds = [own, *(reader.options.retention_seconds for reader in topic.readers.values())]
    shortest = min([s for s in seconds if s] if own else [0])  # 0: acked messages are forgotten at once
    longest = 1 if ledger.retention_bytes(topic) else 600  # a size cap may be reached at any time
    topic.trim_at = now + int(min(max(shortest / 100, 1), longest) * SECOND)
    times = {kept_since(now, s) for s in seconds if s}
    return sorted(at for at in times if at > topic.head_at)


def lapse(ledger: Ledger, now: int, topic: Topic, offsets: Mapping[int, int], positions: dict[int, int]) -> Need | None:
    """Drop messages past the retention of their subscription.

    `offsets` answers retention_times. `positions` keeps positions read in earlier calls, because the messages may not
    fit the cache together.
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
    """Forget messages that nothing needs, up to `until_max`. `fullest` is the first offset within the size cap."""
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
    """Drop unacked messages past the retention of a subscription."""
    if floor <= subscription.lowest_unacked():
        return None
    held = sorted(
        (offset, size, key)
        for key, lane in subscription.lanes.items()
        for offset, size in zip(lane.held, lane.held_sizes, strict=True)
        if offset < floor
    )
    if held:  # they get entries, so that they are dropped like the others
        offsets, sizes, keys = (list(column) for column in zip(*held, strict=True))
        ledger.emit(f.Delayed(subscription.number, now, offsets, sizes, keys, [now] * len(held), [0] * len(held)))
    outstanding = sorted(offset for offset in subscription.outstanding if offset < floor)
    drop(ledger, subscription, now, outstanding, "retention")
    if floor <= subscription.cursor:
        return None
    start = max(subscription.cursor, topic.head)  # forgotten messages above the cursor are inside a skip
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
    ahead = subscription.ahead  # all of them lie below the floor
    ledger.emit(f.Passed(subscription.number, now, floor, count, size, ahead, ahead, subscription.ahead_bytes))
    subscription.counts.drop("retention", count - ahead)
    return None


def _pass_compared(
    ledger: Ledger, topic: Topic, subscription: Subscription, now: int, start: int, floor: int
) -> Need | None:
    """Drop unread messages below `floor`, if messages beyond it were compared with the filter.

    They are compared again, to find how many of them were counted as acked before.
    """
    accepts, offset = subscription.accepts, find_outside(subscription.skips, start)
    assert accepts is not None, "only a filter is compared ahead of the cursor"
    count = size = ahead = ahead_bytes = 0
    need = None
    while offset < floor and need is None:
        message = ledger.look_up(topic, offset)
        if isinstance(message, Need):
            need = message
            break
        count, size = count + 1, size + message.size
        if not accepts(message.attributes):
            ahead, ahead_bytes = ahead + 1, ahead_bytes + message.size
        offset = find_outside(subscription.skips, offset + 1)
    if offset > subscription.cursor:
        until = min(offset, floor)
        ledger.emit(f.Passed(subscription.number, now, until, count, size, ahead, ahead, ahead_bytes))
        subscription.counts.drop("retention", count - ahead)
    return need
