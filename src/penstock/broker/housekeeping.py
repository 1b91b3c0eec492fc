"""Housekeeping: what is no longer needed goes, and time acts where nobody asks.

The rule kept here: nothing an unacked message, a snapshot or a retention still needs is forgotten, and each
call does a bounded piece of work. Offsets for instants and positions are looked up by the caller (only the
journal knows them) and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker.facts import (
    Delayed,
    Forgotten,
    Passed,
    ProducersForgotten,
    Removed,
    SnapshotDropped,
    SubscriptionDeleted,
)
from penstock.broker.log import Need
from penstock.broker.model import FOREVER, SECOND, Message
from penstock.broker.replay import Replay
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic


class Housekeeping(Replay):
    def expire_resources(self, now: int) -> None:
        """Subscriptions nobody used, snapshots past their time, producers long silent."""
        for subscription in list(self.state.subscriptions.values()):
            ttl = subscription.options.expiration_seconds
            if ttl and now - subscription.used_at >= ttl * SECOND:
                self.emit(SubscriptionDeleted(subscription.number))
        for name in [name for name, snapshot in self.state.snapshots.items() if snapshot.expires_at <= now]:
            self.emit(SnapshotDropped(name))
        idle = now - int(self.limits.producer_idle_seconds * SECOND)
        for topic in self.state.topics.values():
            silent = [name for name, producer in topic.producers.items() if producer.seen_at < idle]
            if silent:
                self.emit(ProducersForgotten(topic.number, silent))

    def settle(self, now: int, name: str) -> Need | None:
        """Let time act on one subscription, as a pull would."""
        subscription = self.state.subscription(name)
        topic = self.state.read_topic(subscription)
        return self.settle_due(topic, subscription, now) if topic is not None else None

    def next_due(self, name: str) -> int:
        """When the agenda of a subscription next has something to say; FOREVER if never."""
        subscription = self.state.subscription_names.get(name)
        return subscription.agenda.next_due() if subscription is not None else FOREVER

    # ------------------------------------------------------------------ retention

    def is_trim_due(self, now: int, topic: Topic) -> bool:
        return topic.head < topic.tail and now >= topic.trim_at

    def retention_times(self, now: int, topic: Topic) -> list[int]:
        """The instants whose offsets `trim` will want to know for a topic."""
        own = self.retention_seconds(topic)
        seconds = [own, *(reader.options.retention_seconds for reader in topic.readers.values())]
        shortest = min([each for each in seconds if each] if own else [0])  # without its own, acked ones go at once
        longest = 1 if self.retention_bytes(topic) else 600  # bytes come fast, whatever the time they may stay
        topic.trim_at = now + int(min(max(shortest / 100, 1), longest) * SECOND)
        times = {now - int(each * SECOND) for each in seconds if each}
        return sorted(at for at in times if at > topic.head_at)

    def trim(
        self, now: int, topic: Topic, offsets: Mapping[int, int], fullest: int, positions: dict[int, int]
    ) -> Need | None:
        """Forget what nobody needs.

        `offsets` answers retention_times; `fullest` is the first offset within the topic's size cap; `positions`
        keeps what was read between one call and the next, as the messages may not fit the cache together.
        """
        for subscription in topic.readers.values():
            floor = self._floor(now, subscription.options.retention_seconds, offsets)
            need = self._lapse(topic, subscription, now, floor, positions)
            if need is not None:
                return need
        until = min(
            [topic.tail]
            + [self._needed_from(now, reader, offsets) for reader in topic.readers.values()]
            + [self.state.snapshots[name].cursor for name in self.state.topic_snapshots.get(topic.number, ())]
            + self._retained_from(now, topic, offsets, fullest)
        )
        return self._forget(topic, until)

    def _floor(self, now: int, seconds: float, offsets: Mapping[int, int]) -> int:
        return offsets.get(now - int(seconds * SECOND), 0) if seconds else 0

    def _needed_from(self, now: int, subscription: Subscription, offsets: Mapping[int, int]) -> int:
        lowest = subscription.lowest_unacked()
        if subscription.options.retain_acked:
            return min(lowest, self._floor(now, subscription.options.retention_seconds, offsets))
        return lowest

    def _retained_from(self, now: int, topic: Topic, offsets: Mapping[int, int], fullest: int) -> list[int]:
        seconds = self.retention_seconds(topic)
        return [max(self._floor(now, seconds, offsets), fullest)] if seconds else []

    def _forget(self, topic: Topic, until: int) -> Need | None:
        if until <= topic.head:
            return None
        position = self._position(topic, until)
        if isinstance(position, Need):
            return position
        first = self.cache.get(topic.number, until)
        topic.head_at = first.publish_time if first is not None else topic.head_at
        self.emit(Forgotten(topic.number, until, position))
        self.cache.forget(topic.number, until)
        return None

    def _lapse(
        self, topic: Topic, subscription: Subscription, now: int, floor: int, positions: dict[int, int]
    ) -> Need | None:
        """Unacked messages older than the subscription keeps them are dropped."""
        if floor <= subscription.lowest_unacked():
            return None
        self._unhold(subscription, now, floor)
        old = sorted(offset for offset in subscription.outstanding if offset < floor)
        if old:
            self.emit(Removed(subscription.number, now, old, "retention"))
            subscription.counts.drop("retention", len(old))
        return self._lapse_unseen(topic, subscription, now, floor, positions)

    def _lapse_unseen(
        self, topic: Topic, subscription: Subscription, now: int, floor: int, positions: dict[int, int]
    ) -> Need | None:
        if floor <= subscription.cursor:
            return None
        size = self._bytes_between(topic, subscription.cursor, floor, positions)
        count = floor - subscription.cursor
        for first, until in subscription.skips:
            first, until = max(first, subscription.cursor), min(until, floor)
            if isinstance(size, int) and first < until:
                skipped = self._bytes_between(topic, first, until, positions)
                size = size - skipped if isinstance(skipped, int) else skipped
                count -= until - first
        if isinstance(size, Need):
            return size
        self.emit(Passed(subscription.number, now, floor, count, size, 0))
        subscription.counts.drop("retention", count)
        return None

    def _unhold(self, subscription: Subscription, now: int, floor: int) -> None:
        """Held messages below the floor get entries, so that they can leave as the others do."""
        held = sorted(
            (offset, size, key)
            for key, lane in subscription.lanes.items()
            for offset, size in zip(lane.held, lane.held_sizes, strict=True)
            if offset < floor
        )
        if held:
            offsets, sizes, keys = (list(column) for column in zip(*held, strict=True))
            self.emit(Delayed(subscription.number, now, offsets, sizes, keys, [now] * len(held), [0] * len(held)))

    def oldest_unacked(self, name: str) -> Message | Need | None:
        """The oldest unacked message of a subscription, if it has one."""
        subscription = self.state.subscription(name)
        topic = self.state.read_topic(subscription)
        if topic is None:
            return None
        lowest = subscription.lowest_unacked()
        return self.look_up(topic, lowest) if lowest < topic.tail else None


class Broker(Housekeeping):
    """The whole broker: every command, over one ledger."""
