"""Traffic in an interval: differences of counters, and backlogs, of the topics and subscriptions with traffic.

Topics and subscriptions are identified by number, so a new resource with an old name has its own counters.

A fact only marks its topic or subscription. Counters and backlogs are read at the end of the interval, of marked
resources only, so resources without traffic cost nothing. The resource itself is kept with its mark, because it may be
deleted before the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from penstock.broker import facts as f
from penstock.broker.counts import SAMPLED_OF_SUBSCRIPTIONS, SAMPLED_OF_TOPICS
from penstock.broker.model import SECOND
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.engine import Engine
from penstock.engine.statistics import CommitStatistics, age_seconds
from penstock.engine.views import backlog_of

_OF_TOPICS = (f.Published, f.TopicDeleted)
_OF_SUBSCRIPTIONS = (
    f.Acked,
    f.Compared,
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


Counted: TypeAlias = tuple[int, ...]  # the sampled counters, in the order of `broker/counts.py`
NO_TOPIC_COUNTS: Counted = (0,) * len(SAMPLED_OF_TOPICS)
NO_SUBSCRIPTION_COUNTS: Counted = (0,) * len(SAMPLED_OF_SUBSCRIPTIONS)


class SubscriptionTraffic(NamedTuple):
    """The counters of a subscription in an interval, and its gauges at the end of the interval."""

    counted: Counted = NO_SUBSCRIPTION_COUNTS
    backlog_messages: int = 0
    in_flight_messages: int = 0
    oldest_age_seconds: float = 0.0


GAUGES = SubscriptionTraffic._fields[1:]


class Interval(NamedTuple):
    """The traffic of an interval that ended at `at`."""

    at: int
    seconds: float
    topics: Mapping[int, Counted]  # by number, as are the subscriptions
    subscriptions: Mapping[int, SubscriptionTraffic]  # also those where only the backlog changed
    backlog_messages: int  # of all subscriptions, now
    in_flight_messages: int
    oldest_age_seconds: float
    commit: CommitStatistics  # since the start, like the doors
    doors: Mapping[str, tuple[int, ...]]  # DOOR_COUNTS of each
    entered: Mapping[tuple[str, str], int] = {}  # (door, topic) -> messages
    left: Mapping[tuple[str, str], int] = {}  # (subscription, door) -> messages
    names: Mapping[int, str] = {}  # of the topics and subscriptions above


class Traffic:
    def __init__(self, engine: Engine) -> None:
        """Listen to the engine until `close`. One caller takes the traffic, about once a second."""
        self._engine = engine
        self._taken_at = engine.now()
        self._topics: dict[int, Topic | None] = {}  # marked; None: deleted, without traffic before
        self._subscriptions: dict[int, Subscription | None] = {}
        self._topic_counts: dict[int, Counted] = {}
        self._subscription_counts: dict[int, Counted] = {}
        self._backlogs: dict[int, int] = {}  # messages, of subscriptions with a backlog
        self._in_flights: dict[int, int] = {}
        self._oldest_at: dict[int, int] = {}  # publish time of the oldest message, by the clock of its topic
        self._undated: dict[int, Subscription] = {}  # the oldest message is not in memory: check again
        self._backlog = self._in_flight = 0  # of all subscriptions
        self._refilled: dict[int, Subscription] = {}  # the backlog changed in the interval
        self._listeners = [
            engine.on(_OF_TOPICS, self._on_topic),
            engine.on(_OF_SUBSCRIPTIONS, self._on_subscription),
            engine.on_reset(self._look_at_all),
        ]
        with engine.lock:
            state = engine.broker.state
            self._topic_counts = {n: _topic_counts(topic) for n, topic in state.topics.items()}
            subscriptions = state.subscriptions.items()
            self._subscription_counts = {n: _subscription_counts(reader) for n, reader in subscriptions}
            self._look_at_all()

    @property
    def doors(self) -> Collection[str]:
        """The doors that count messages."""
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

    def find_topic(self, name: str) -> int:
        """Return the number of the topic with this name, or 0."""
        with self._engine.lock:
            topic = self._engine.broker.state.topic_names.get(name)
            return topic.number if topic is not None else 0

    def find_subscription(self, name: str) -> int:
        """Return the number of the subscription with this name, or 0."""
        with self._engine.lock:
            subscription = self._engine.broker.state.subscription_names.get(name)
            return subscription.number if subscription is not None else 0

    def take(self, watched: Iterable[int] = ()) -> Interval:
        """Return the traffic since the last call. `watched`: subscriptions to include although nothing happened."""
        engine = self._engine
        with engine.lock:
            now, names = engine.now(), dict[int, str]()
            seconds, self._taken_at = max(0, now - self._taken_at) / SECOND, now
            topics = self._take_topics(names)
            subscriptions = self._take_subscriptions(now, names)
            existing = engine.broker.state.subscriptions
            also = self._refilled | {number: existing[number] for number in watched if number in existing}
            for number, subscription in also.items():
                if number not in subscriptions:
                    subscriptions[number] = self._traffic(number, NO_SUBSCRIPTION_COUNTS, now)
                    names[number] = subscription.name
            self._refilled = {}
            flows = {door: traffic.take_flows() for door, traffic in engine.doors.items()}
            return Interval(
                at=now,
                seconds=seconds,
                topics=topics,
                subscriptions=subscriptions,
                backlog_messages=self._backlog,
                in_flight_messages=self._in_flight,
                oldest_age_seconds=self._oldest_age_seconds(now),
                commit=engine.commits.meter.statistics(),
                doors={door: traffic.counts() for door, traffic in engine.doors.items()},
                entered={
                    (door, topic): number for door, (entered, _) in flows.items() for topic, number in entered.items()
                },
                left={(name, door): number for door, (_, left) in flows.items() for name, number in left.items()},
                names=names,
            )

    def _take_topics(self, names: dict[int, str]) -> dict[int, Counted]:
        marked, self._topics = self._topics, {}
        differences: dict[int, Counted] = {}
        for number, topic in marked.items():
            was = self._topic_counts.pop(number, NO_TOPIC_COUNTS)
            if topic is None:
                continue
            counts = _topic_counts(topic)
            if number in self._engine.broker.state.topics:
                self._topic_counts[number] = counts
                self._fill_readers(topic)
            if counts != was:
                differences[number] = _differences(counts, was)
                names[number] = topic.name
        return differences

    def _fill_readers(self, topic: Topic) -> None:
        for reader, subscription in topic.readers.items():
            if reader not in self._subscriptions:  # only publishes happened to it
                if reader not in self._oldest_at:
                    self._oldest_at[reader] = topic.last_publish_at
                self._fill(reader, subscription, subscription.unacked(topic)[0], subscription.in_flight)

    def _take_subscriptions(self, now: int, names: dict[int, str]) -> dict[int, SubscriptionTraffic]:
        marked, self._subscriptions, self._undated = self._undated | self._subscriptions, {}, {}
        traffic: dict[int, SubscriptionTraffic] = {}
        for number, subscription in marked.items():
            current = self._engine.broker.state.subscriptions.get(number)
            was = self._subscription_counts.pop(number, NO_SUBSCRIPTION_COUNTS)
            self._refill(number, current, now)
            if subscription is None:
                continue
            counts = _subscription_counts(subscription)
            if current is not None:
                self._subscription_counts[number] = counts
            if counts != was:
                traffic[number] = self._traffic(number, _differences(counts, was), now)
                names[number] = subscription.name
        return traffic

    def _refill(self, number: int, subscription: Subscription | None, now: int) -> None:
        """Update the backlog of a subscription and the age of its oldest message."""
        engine = self._engine
        if subscription is None:
            self._fill(number, None, 0, 0)
            return
        topic = engine.broker.state.read_topic(subscription)
        backlog = backlog_of(topic, subscription)
        if backlog.messages:
            time = engine.clocks.time_at(subscription.topic_name, now)
            age = age_seconds(engine.broker, topic, subscription, engine.ages, time)
            self._oldest_at[number] = time - int(age * SECOND)
            if number in engine.ages.wanted:
                self._undated[number] = subscription
        self._fill(number, subscription, backlog.messages, backlog.in_flight_messages)

    def _fill(self, number: int, subscription: Subscription | None, backlog: int, in_flight: int) -> None:
        if subscription is not None and backlog != self._backlogs.get(number, 0):
            self._refilled[number] = subscription
        self._backlog += backlog - self._backlogs.get(number, 0)
        self._in_flight += in_flight - self._in_flights.get(number, 0)
        if backlog:
            self._backlogs[number], self._in_flights[number] = backlog, in_flight
        else:
            for by_number in (self._backlogs, self._in_flights, self._oldest_at):
                by_number.pop(number, None)

    def _traffic(self, number: int, counted: Counted, now: int) -> SubscriptionTraffic:
        backlog, in_flight = self._backlogs.get(number, 0), self._in_flights.get(number, 0)
        return SubscriptionTraffic(counted, backlog, in_flight, self._age_seconds(number, now))

    def _age_seconds(self, number: int, now: int) -> float:
        engine = self._engine
        subscription = engine.broker.state.subscriptions.get(number)
        time = engine.clocks.time_at(subscription.topic_name, now) if subscription is not None else now
        return max(0, time - self._oldest_at.get(number, time)) / SECOND

    def _oldest_age_seconds(self, now: int) -> float:
        if self._engine.clocks.own:  # subscriptions have different clocks
            return max((self._age_seconds(number, now) for number in self._oldest_at), default=0.0)
        return max(0, now - min(self._oldest_at.values(), default=now)) / SECOND


def _differences(counts: Counted, was: Counted) -> Counted:
    return tuple(new - old for new, old in zip(counts, was, strict=True))


_read_topic = attrgetter(*(counter.field for counter in SAMPLED_OF_TOPICS))
_read_subscription = attrgetter(*(counter.field for counter in SAMPLED_OF_SUBSCRIPTIONS))


def _topic_counts(topic: Topic) -> Counted:
    counted: Counted = _read_topic(topic.counts)
    return counted


def _subscription_counts(subscription: Subscription) -> Counted:
    counted: Counted = _read_subscription(subscription.counts)
    return counted
