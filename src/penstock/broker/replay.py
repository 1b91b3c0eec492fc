"""Commands that seek a subscription to an offset or a named snapshot.

A place is a cursor plus the ranges above it that count as acked. A seek forgets all outstanding messages. Messages that
the log no longer holds cannot come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker.consuming import oldest_unacked
from penstock.broker.dump import SnapshotDump
from penstock.broker.facts import Forgotten, SnapshotChanged, SnapshotDropped, SnapshotTaken, Sought
from penstock.broker.ledger import Ledger
from penstock.broker.limits import SECONDS_MAX
from penstock.broker.log import Need
from penstock.broker.model import SECOND, Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.broker.topology import check_name
from penstock.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError

SNAPSHOT_MINIMUM_SECONDS = 3600  # a snapshot that would expire earlier is refused


class Place(NamedTuple):
    """The ack state of a subscription."""

    cursor: int
    settled: int
    settled_bytes: int
    skips: list[tuple[int, int]]


class SeekPreview(NamedTuple):
    """The changes of a seek, in messages."""

    backlog_before: int
    backlog_after: int
    come_back: int  # acked now, and not afterwards
    skipped: int  # not acked now, and acked afterwards
    exact: bool  # False: messages that the filter does not match are counted, too


def seek_to_offset(ledger: Ledger, now: int, name: str, offset: int) -> Need | None:
    """Count messages before `offset` as acked, and all messages kept from there on as unacked."""
    subscription = ledger.state.subscription(name)
    topic = _read_topic(ledger, subscription)
    if type(offset) is not int:
        raise InvalidArgumentError("An offset must be a whole number")
    if offset < 0:
        raise InvalidArgumentError("An offset must not be negative")
    offset = min(max(offset, topic.head), topic.tail)
    position = position_of(ledger, topic, offset)
    if isinstance(position, Need):
        return position
    ledger.emit(Sought(subscription.number, now, offset, offset, position, []))
    return None


def kept_since(now: int, seconds: float) -> int:
    """Return the earliest publish time that a retention keeps. A message exactly as old as it is dropped."""
    return now - int(min(seconds, SECONDS_MAX) * SECOND) + 1


def seek_reach(ledger: Ledger, now: int, name: str) -> list[tuple[int, int]]:
    """Return the instants since which acked messages are retained for a subscription, with the least offset of each."""
    subscription = ledger.state.subscription(name)
    topic, options = _read_topic(ledger, subscription), subscription.options
    seconds = ledger.retention_seconds(topic) if ledger.limits.seek_all else topic.options.retention_seconds
    reach = [(kept_since(now, seconds), 0)] if seconds else []
    if options.retain_acked:
        since = kept_since(now, options.retention_seconds) if options.retention_seconds else 0
        reach.append((since, subscription.start))
    return reach


def seek_retained(
    ledger: Ledger, now: int, name: str, offset: int, reach: int, positions: dict[int, int]
) -> Need | None:
    """Count messages before `offset` as acked. From there on, acked messages become unacked if they are at `reach`
    or beyond. Acked messages below `reach` stay acked, even if the log still has them for other subscriptions.

    `positions` keeps positions read in earlier calls.
    """
    subscription = ledger.state.subscription(name)
    topic = _read_topic(ledger, subscription)
    offset, reach = (min(max(number, topic.head), topic.tail) for number in (offset, reach))
    place = _place(subscription)
    cursor = max(offset, min(place.cursor, reach))
    skips = [(max(first, cursor), min(until, reach)) for first, until in place.skips]
    skips = sorted((first, until) for first, until in skips if first < until)
    while skips and skips[0][0] == cursor:
        cursor = skips.pop(0)[1]
    settled, settled_bytes = cursor + sum(until - first for first, until in skips), 0
    for first, until in [(topic.head, cursor), *skips]:
        size = bytes_between(ledger, topic, first, until, positions)
        if isinstance(size, Need):
            return size
        settled_bytes += size
    ledger.emit(Sought(subscription.number, now, cursor, settled, topic.head_position + settled_bytes, skips))
    return None


def preview_seek(ledger: Ledger, name: str, *, offset: int = 0, snapshot: str = "") -> SeekPreview:
    subscription = ledger.state.subscription(name)
    topic = _read_topic(ledger, subscription)
    now = _list_unacked(topic, _place(subscription))
    if snapshot:
        place = _place_of(ledger, snapshot, topic)
    else:
        offset = min(max(offset, topic.head), topic.tail)
        place = Place(offset, offset, 0, [])
    then = _list_unacked(topic, place)
    before, after, stay = _total(now), _total(then), _overlap(now, then)
    return SeekPreview(before, after, after - stay, before - stay, not subscription.options.filter)


def purge(ledger: Ledger, now: int, name: str) -> None:
    """Count all messages published so far as acked."""
    subscription = ledger.state.subscription(name)
    topic = _read_topic(ledger, subscription)
    ledger.emit(Sought(subscription.number, now, topic.tail, topic.tail, topic.position, []))


def purge_topic(ledger: Ledger, now: int, name: str) -> int:
    """Count all messages as acked on every subscription, forget them, and return their number."""
    topic = ledger.state.topic(name)
    if ledger.state.topic_snapshots.get(topic.number):
        raise FailedPreconditionError(f"Snapshots need the messages of this topic, delete them first: {name}")
    for subscription in topic.readers.values():
        ledger.emit(Sought(subscription.number, now, topic.tail, topic.tail, topic.position, []))
    count = topic.tail - topic.head
    if count:
        ledger.emit(Forgotten(topic.number, topic.tail, topic.position))
        ledger.cache.drop(topic.number)
    return count


def seek_to_snapshot(ledger: Ledger, now: int, name: str, snapshot_name: str) -> None:
    subscription = ledger.state.subscription(name)
    ledger.state.snapshot(snapshot_name)  # an unknown snapshot is reported first, also for a detached subscription
    topic = _read_topic(ledger, subscription)
    ledger.emit(Sought(subscription.number, now, *_place_of(ledger, snapshot_name, topic)))


def _place_of(ledger: Ledger, snapshot_name: str, topic: Topic) -> Place:
    snapshot = ledger.state.snapshot(snapshot_name)
    if snapshot.topic != topic.number:
        raise InvalidArgumentError(f"Snapshot {snapshot_name} is of another topic: {snapshot.topic_name}")
    return Place(snapshot.cursor, snapshot.settled, snapshot.settled_bytes, list(snapshot.skips))


def create_snapshot(
    ledger: Ledger, now: int, snapshot_name: str, subscription_name: str, labels: dict[str, str] | None = None
) -> SnapshotDump | Need:
    """Remember the unacked messages, and keep them and all later ones until the snapshot expires."""
    subscription = ledger.state.subscription(subscription_name)
    topic = _read_topic(ledger, subscription)
    check_name(snapshot_name)
    if snapshot_name in ledger.state.snapshots:
        raise AlreadyExistsError(f"Snapshot already exists: {snapshot_name}")
    oldest = oldest_unacked(ledger, subscription_name)
    if isinstance(oldest, Need):
        return oldest
    age = max(0, now - oldest.publish_time) if oldest is not None else 0
    left = int(ledger.limits.snapshot_seconds * SECOND) - age
    if left < SNAPSHOT_MINIMUM_SECONDS * SECOND:
        raise FailedPreconditionError("The backlog is too old for a snapshot: it would expire within the hour")
    place = _place(subscription)
    ledger.emit(SnapshotTaken(snapshot_name, topic.number, topic.name, now, now + left, *place, dict(labels or {})))
    return ledger.state.snapshots[snapshot_name]


def change_snapshot(ledger: Ledger, name: str, *, expires_at: int, labels: dict[str, str]) -> SnapshotDump:
    ledger.state.snapshot(name)
    ledger.emit(SnapshotChanged(name, expires_at, labels))
    return ledger.state.snapshots[name]


def delete_snapshot(ledger: Ledger, name: str) -> None:
    ledger.state.snapshot(name)
    ledger.emit(SnapshotDropped(name))


def _read_topic(ledger: Ledger, subscription: Subscription) -> Topic:
    topic = ledger.state.read_topic(subscription)
    if topic is None:
        raise FailedPreconditionError(f"Subscription is detached: {subscription.name}")
    return topic


def position_of(ledger: Ledger, topic: Topic, offset: int) -> int | Need:
    """Return the bytes published before an offset."""
    assert offset >= topic.head, "a forgotten message would be asked for without end"
    if offset == topic.tail:
        return topic.position
    if offset == topic.head:
        return topic.head_position
    message = ledger.look_up(topic, offset)
    return message.position if isinstance(message, Message) else message


def bytes_between(ledger: Ledger, topic: Topic, first: int, until: int, positions: dict[int, int]) -> int | Need:
    for offset in (first, until):
        known = positions.get(offset)
        position = position_of(ledger, topic, offset) if known is None else known
        if isinstance(position, Need):
            return position
        positions[offset] = position
    return positions[until] - positions[first]


def _place(subscription: Subscription) -> Place:
    """Return the cursor moved back to the oldest unacked message, with the acked ranges beyond it as skips."""
    unacked = sorted([*subscription.outstanding, *(o for lane in subscription.lanes.values() for o in lane.held)])
    below = [offset for offset in unacked if offset < subscription.cursor]
    adopted = {offset for offset in unacked if offset >= subscription.cursor}
    skips: list[tuple[int, int]] = []
    for offset, following in zip(below, [*below[1:], subscription.cursor], strict=False):
        if offset + 1 < following:
            skips.append((offset + 1, following))
    for first, until in subscription.skips:
        skips.extend(_without(first, until, adopted))
    cursor = below[0] if below else subscription.cursor
    return Place(cursor, subscription.settled, subscription.settled_bytes, skips)


def _list_unacked(topic: Topic, place: Place) -> list[tuple[int, int]]:
    """Return the kept offsets that are unacked at a place, as ascending ranges."""
    ranges, first = [], max(place.cursor, topic.head)
    for skipped, until in sorted(place.skips):
        if first < skipped:
            ranges.append((first, min(skipped, topic.tail)))
        first = max(first, until)
    return [*ranges, (first, topic.tail)] if first < topic.tail else ranges


def _total(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(until - first for first, until in ranges)


def _overlap(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> int:
    """Return the number of common offsets of two ascending lists."""
    total = start = 0
    for first, until in one:
        while start < len(other) and other[start][1] <= first:
            start += 1
        index = start
        while index < len(other) and other[index][0] < until:
            total += min(until, other[index][1]) - max(first, other[index][0])
            index += 1
    return total


def _without(first: int, until: int, holes: set[int]) -> list[tuple[int, int]]:
    """Return a range without the offsets in `holes`."""
    ranges = []
    for hole in sorted(hole for hole in holes if first <= hole < until):
        if first < hole:
            ranges.append((first, hole))
        first = hole + 1
    return [*ranges, (first, until)] if first < until else ranges
