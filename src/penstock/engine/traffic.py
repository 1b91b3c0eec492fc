"""What happened since the last look, for what had traffic: counters as differences, and how full it is.

A fact only marks its topic or subscription; counters and backlogs are read when somebody takes them, and only of what
was marked. So thousands of resources without traffic cost nothing. What is marked is held until then: facts are heard
when they are applied, and what was deleted meanwhile still has its counters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from penstock.broker import facts as f
from penstock.broker.model import SECOND
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.engine import Engine
from penstock.engine.statistics import CommitStatistics, age_seconds
from penstock.engine.views import backlog_of

_OF_TOPICS = (f.Published, f.TopicDeleted)
_OF_SUBSCRIPTIONS = (
    f.Acked,
    f.Delivered,
    f.Detached,
    f.Extended,
    f.Passed,
    f.Removed,
    f.Returned,
    f.Sought,
    f.SubscriptionCreated,
    f.SubscriptionDeleted,
)


Counted: TypeAlias = tuple[int, int, int, int]  # delivered, acked, returned, dead-lettered
_NONE: Counted = (0, 0, 0, 0)


class TopicTraffic(NamedTuple):
    published: int = 0
    published_bytes: int = 0


class SubscriptionTraffic(NamedTuple):
    delivered: int = 0
    acked: int = 0
    returned: int = 0
    dead_lettered: int = 0
    backlog_messages: int = 0  # this and what follows is how it is now
    in_flight_messages: int = 0
    oldest_age_seconds: float = 0.0


class Interval(NamedTuple):
    """What happened in a time that ended at `at`."""

    at: int
    seconds: float
    topics: Mapping[str, TopicTraffic]
    subscriptions: Mapping[str, SubscriptionTraffic]
    backlog_messages: int  # of all subscriptions, now
    in_flight_messages: int
    oldest_age_seconds: float
    commit: CommitStatistics  # since the start, as are the doors
    doors: Mapping[str, tuple[int, ...]]  # DOOR_COUNTS of each
    entered: Mapping[tuple[str, str], int] = {}  # (door, topic) -> messages
    left: Mapping[tuple[str, str], int] = {}  # (subscription, door) -> messages


class Traffic:
    def __init__(self, engine: Engine) -> None:
        """Listens until it is closed; one taker, once a second or so."""
        self._engine = engine
        self._taken_at = engine.now()
        self._topics: dict[int, Topic | None] = {}  # marked; None: deleted when it was, and nothing happened before
        self._subscriptions: dict[int, Subscription | None] = {}
        self._topic_counts: dict[int, tuple[int, int]] = {}
        self._subscription_counts: dict[int, Counted] = {}
        self._backlogs: dict[int, int] = {}  # messages, of the subscriptions that have any
        self._in_flights: dict[int, int] = {}
        self._oldest_at: dict[int, int] = {}  # when the oldest of them was published, in the time of its topic
        self._undated: dict[int, Subscription] = {}  # whose oldest is not in memory: looked at again
        self._backlog = self._in_flight = 0  # of all
        self._listeners = [
            engine.on(_OF_TOPICS, self._on_topic),
            engine.on(_OF_SUBSCRIPTIONS, self._on_subscription),
            engine.on_reset(self._look_at_all),
        ]
        with engine.lock:
            state = engine.broker.state
            self._topic_counts = {n: _topic_counts(each) for n, each in state.topics.items()}
            subscriptions = state.subscriptions.items()
            self._subscription_counts = {n: _subscription_counts(each) for n, each in subscriptions}
            self._look_at_all()

    @property
    def doors(self) -> Collection[str]:
        """Those that count."""
        return self._engine.doors

    def close(self) -> None:
        for listener in self._listeners:
            self._engine.off(listener)

    def _on_topic(self, fact: Any) -> None:
        if fact.topic not in self._topics:
            self._topics[fact.topic] = self._engine.broker.state.topics.get(fact.topic)

    def _on_subscription(self, fact: Any) -> None:
        if fact.subscription not in self._subscriptions:
            self._subscriptions[fact.subscription] = self._engine.broker.state.subscriptions.get(fact.subscription)

    def _look_at_all(self) -> None:
        state = self._engine.broker.state
        self._topics |= {number: state.topics[number] for number in self._topics if number in state.topics}
        self._subscriptions = dict.fromkeys(self._backlogs) | self._subscriptions | state.subscriptions

    def take(self, watched: Iterable[str] = ()) -> Interval:
        """What happened since the last call; `watched`: subscriptions to tell of although nothing happened."""
        engine = self._engine
        with engine.lock:
            now = engine.now()
            seconds, self._taken_at = max(0, now - self._taken_at) / SECOND, now
            topics = self._take_topics()
            subscriptions = self._take_subscriptions(now)
            for name in watched:
                found = engine.broker.state.subscription_names.get(name)
                if found is not None and name not in subscriptions:
                    subscriptions[name] = self._traffic(found.number, _NONE, now)
            flows = {door: traffic.take_flows() for door, traffic in engine.doors.items()}
            return Interval(
                now,
                seconds,
                topics,
                subscriptions,
                self._backlog,
                self._in_flight,
                self._oldest_age_seconds(now),
                engine.commits.meter.statistics(),
                {door: traffic.counts() for door, traffic in engine.doors.items()},
                {(door, topic): number for door, (entered, _) in flows.items() for topic, number in entered.items()},
                {(name, door): number for door, (_, left) in flows.items() for name, number in left.items()},
            )

    def _take_topics(self) -> dict[str, TopicTraffic]:
        marked, self._topics = self._topics, {}
        found: dict[str, TopicTraffic] = {}
        for number, topic in marked.items():
            was = self._topic_counts.pop(number, (0, 0))
            if topic is None:
                continue
            counts = _topic_counts(topic)
            if number in self._engine.broker.state.topics:
                self._topic_counts[number] = counts
                self._fill_readers(topic)
            if counts != was:
                before = found.get(topic.name, TopicTraffic())  # of one that had the name and was deleted
                found[topic.name] = TopicTraffic(*_sums(before, _differences(counts, was)))
        return found

    def _fill_readers(self, topic: Topic) -> None:
        for reader, subscription in topic.readers.items():
            if reader not in self._subscriptions:  # nothing but the publishes happened to it
                if reader not in self._oldest_at:
                    self._oldest_at[reader] = topic.last_publish_at
                self._fill(reader, topic.tail - subscription.settled, subscription.in_flight)

    def _take_subscriptions(self, now: int) -> dict[str, SubscriptionTraffic]:
        marked, self._subscriptions, self._undated = self._undated | self._subscriptions, {}, {}
        found: dict[str, SubscriptionTraffic] = {}
        for number, subscription in marked.items():
            there = self._engine.broker.state.subscriptions.get(number)
            was = self._subscription_counts.pop(number, _NONE)
            self._refill(number, there, now)
            if subscription is None:
                continue
            counts = _subscription_counts(subscription)
            if there is not None:
                self._subscription_counts[number] = counts
            if counts != was:
                before = found.get(subscription.name, _NONE)
                found[subscription.name] = self._traffic(number, _sums(before, _differences(counts, was)), now)
        return found

    def _refill(self, number: int, subscription: Subscription | None, now: int) -> None:
        """Look how full a subscription is, and how old its oldest message."""
        engine = self._engine
        if subscription is None:
            self._fill(number, 0, 0)
            return
        topic = engine.broker.state.read_topic(subscription)
        backlog = backlog_of(topic, subscription)
        if backlog.messages:
            there = engine.clocks.time_at(subscription.topic_name, now)
            age = age_seconds(engine.broker, topic, subscription, engine.ages, there)
            self._oldest_at[number] = there - int(age * SECOND)
            if number in engine.ages.wanted:
                self._undated[number] = subscription
        self._fill(number, backlog.messages, backlog.in_flight_messages)

    def _fill(self, number: int, backlog: int, in_flight: int) -> None:
        self._backlog += backlog - self._backlogs.get(number, 0)
        self._in_flight += in_flight - self._in_flights.get(number, 0)
        if backlog:
            self._backlogs[number], self._in_flights[number] = backlog, in_flight
        else:
            for known in (self._backlogs, self._in_flights, self._oldest_at):
                known.pop(number, None)

    def _traffic(self, number: int, counted: Iterable[int], now: int) -> SubscriptionTraffic:
        full = self._backlogs.get(number, 0), self._in_flights.get(number, 0), self._age_seconds(number, now)
        return SubscriptionTraffic._make((*counted, *full))

    def _age_seconds(self, number: int, now: int) -> float:
        engine = self._engine
        known = engine.broker.state.subscriptions.get(number)
        there = engine.clocks.time_at(known.topic_name, now) if known is not None else now
        return max(0, there - self._oldest_at.get(number, there)) / SECOND

    def _oldest_age_seconds(self, now: int) -> float:
        if self._engine.clocks.own:  # not all have the same time
            return max((self._age_seconds(number, now) for number in self._oldest_at), default=0.0)
        return max(0, now - min(self._oldest_at.values(), default=now)) / SECOND


def _differences(counts: Iterable[int], was: Iterable[int]) -> list[int]:
    return [new - old for new, old in zip(counts, was, strict=True)]


def _sums(before: Sequence[float], counted: list[int]) -> list[int]:
    """What was counted under a name before, and what is now."""
    return [int(one) + other for one, other in zip(before, counted, strict=False)]


def _topic_counts(topic: Topic) -> tuple[int, int]:
    return topic.counts.published, topic.counts.bytes


def _subscription_counts(subscription: Subscription) -> Counted:
    counts = subscription.counts
    return counts.delivered, counts.acked, counts.returned, counts.dead_lettered
