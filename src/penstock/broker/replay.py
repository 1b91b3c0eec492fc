"""Replay: a subscription is set to another place of its topic, by offset or by a named snapshot.

The rule kept here: a place is a cursor plus what counts as acked at or above it. Going there forgets all that
was outstanding; what the log no longer holds cannot come back.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.dump import SnapshotDump
from penstock.broker.facts import SnapshotChanged, SnapshotDropped, SnapshotTaken, Sought
from penstock.broker.log import Need
from penstock.broker.model import SECOND, Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.broker.topology import Topology, check_name
from penstock.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError

SNAPSHOT_SECONDS = 7 * 86400  # how long a snapshot of an empty backlog lives; an old backlog shortens it
SNAPSHOT_MINIMUM_SECONDS = 3600


class Place(NamedTuple):
    """Where a subscription stands, as far as acks go."""

    cursor: int
    settled: int
    settled_bytes: int
    skips: list[tuple[int, int]]


class Replay(Topology):
    def seek_to_offset(self, now: int, name: str, offset: int) -> Need | None:
        """Everything before `offset` counts as acked, everything kept from there on as not."""
        subscription = self.state.subscription(name)
        topic = self._topic_of(subscription)
        if offset < 0:
            raise InvalidArgumentError("An offset must not be negative")
        offset = min(max(offset, topic.head), topic.tail)
        position = self._position(topic, offset)
        if isinstance(position, Need):
            return position
        self.emit(Sought(subscription.number, now, offset, offset, position, []))
        return None

    def seek_reach(self, now: int, name: str) -> list[tuple[int, int]]:
        """From when on acked messages of a subscription are retained for it: instants, and the least offset of each."""
        subscription = self.state.subscription(name)
        topic, options = self._topic_of(subscription), subscription.options
        seconds = self.retention_seconds(topic) if self.limits.seek_all else topic.options.retention_seconds
        reach = [(now - int(seconds * SECOND), 0)] if seconds else []
        if options.retain_acked:
            since = now - int(options.retention_seconds * SECOND) if options.retention_seconds else 0
            reach.append((max(since, subscription.created_at), subscription.start))
        return reach

    def seek_retained(self, now: int, name: str, offset: int, reach: int, positions: dict[int, int]) -> Need | None:
        """Everything before `offset` counts as acked. From there on what is unacked stays so, and what is acked
        becomes unacked if it is at `reach` or beyond; acked messages below it are gone for this subscription, even
        where the log still has them for others.

        `positions` keeps what was read between one call and the next.
        """
        subscription = self.state.subscription(name)
        topic = self._topic_of(subscription)
        offset, reach = (min(max(each, topic.head), topic.tail) for each in (offset, reach))
        place = _place(subscription)
        cursor = max(offset, min(place.cursor, reach))
        skips = [(max(first, cursor), min(until, reach)) for first, until in place.skips]
        skips = sorted((first, until) for first, until in skips if first < until)
        while skips and skips[0][0] == cursor:
            cursor = skips.pop(0)[1]
        settled, settled_bytes = cursor + sum(until - first for first, until in skips), 0
        for first, until in [(topic.head, cursor), *skips]:
            size = self._bytes_between(topic, first, until, positions)
            if isinstance(size, Need):
                return size
            settled_bytes += size
        self.emit(Sought(subscription.number, now, cursor, settled, topic.head_position + settled_bytes, skips))
        return None

    def purge(self, now: int, name: str) -> None:
        """Everything published so far counts as acked."""
        subscription = self.state.subscription(name)
        topic = self._topic_of(subscription)
        self.emit(Sought(subscription.number, now, topic.tail, topic.tail, topic.position, []))

    def seek_to_snapshot(self, now: int, name: str, snapshot_name: str) -> None:
        subscription, snapshot = self.state.subscription(name), self.state.snapshot(snapshot_name)
        topic = self._topic_of(subscription)
        if snapshot.topic != topic.number:
            raise InvalidArgumentError(f"Snapshot {snapshot_name} is of another topic: {snapshot.topic_name}")
        place = Place(snapshot.cursor, snapshot.settled, snapshot.settled_bytes, list(snapshot.skips))
        self.emit(Sought(subscription.number, now, *place))

    def create_snapshot(
        self, now: int, snapshot_name: str, subscription_name: str, labels: dict[str, str] | None = None
    ) -> SnapshotDump | Need:
        """Remember what is unacked now, and keep it and everything later until the snapshot expires."""
        subscription = self.state.subscription(subscription_name)
        topic = self._topic_of(subscription)
        check_name(snapshot_name)
        if snapshot_name in self.state.snapshots:
            raise AlreadyExistsError(f"Snapshot already exists: {snapshot_name}")
        expires_at = self._snapshot_end(topic, subscription, now)
        if isinstance(expires_at, Need):
            return expires_at
        place = _place(subscription)
        self.emit(SnapshotTaken(snapshot_name, topic.number, topic.name, now, expires_at, *place, dict(labels or {})))
        return self.state.snapshots[snapshot_name]

    def change_snapshot(self, name: str, *, expires_at: int, labels: dict[str, str]) -> SnapshotDump:
        self.state.snapshot(name)
        self.emit(SnapshotChanged(name, expires_at, labels))
        return self.state.snapshots[name]

    def delete_snapshot(self, name: str) -> None:
        self.state.snapshot(name)
        self.emit(SnapshotDropped(name))

    def _snapshot_end(self, topic: Topic, subscription: Subscription, now: int) -> int | Need:
        lowest, age = subscription.lowest_unacked(), 0
        if lowest < topic.tail:
            oldest = self.look_up(topic, lowest)
            if isinstance(oldest, Need):
                return oldest
            age = max(0, now - oldest.publish_time)
        left = SNAPSHOT_SECONDS * SECOND - age
        if left < SNAPSHOT_MINIMUM_SECONDS * SECOND:
            raise FailedPreconditionError("The backlog is too old for a snapshot: it would expire within the hour")
        return now + left

    def _topic_of(self, subscription: Subscription) -> Topic:
        topic = self.state.read_topic(subscription)
        if topic is None:
            raise FailedPreconditionError(f"Subscription is detached: {subscription.name}")
        return topic

    def _position(self, topic: Topic, offset: int) -> int | Need:
        """Bytes published before an offset."""
        if offset == topic.tail:
            return topic.position
        if offset == topic.head:
            return topic.head_position
        message = self.look_up(topic, offset)
        return message.position if isinstance(message, Message) else message

    def _bytes_between(self, topic: Topic, first: int, until: int, positions: dict[int, int]) -> int | Need:
        for offset in (first, until):
            position = positions.get(offset)
            found = self._position(topic, offset) if position is None else position
            if isinstance(found, Need):
                return found
            positions[offset] = found
        return positions[until] - positions[first]


def _place(subscription: Subscription) -> Place:
    """The cursor pulled back to the oldest unacked message, with what is acked beyond it as skips."""
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


def _without(first: int, until: int, holes: set[int]) -> list[tuple[int, int]]:
    """A range less the offsets that are outstanding inside it."""
    ranges = []
    for hole in sorted(hole for hole in holes if first <= hole < until):
        if first < hole:
            ranges.append((first, hole))
        first = hole + 1
    return [*ranges, (first, until)] if first < until else ranges
