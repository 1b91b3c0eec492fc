"""Statistics of a running broker, filled by the engine and shown by doors.

Nothing is scanned for them. Counters (`broker/counts.py`) begin at 0 when the process starts and only grow. All other
numbers are current values. Reasons are short words with underscores, because they become labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.broker.broker import Broker
from penstock.broker.counts import SubscriptionCounts, TopicCounts
from penstock.broker.model import SECOND, Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.oldest_unacked import Ages
from penstock.engine.views import backlog_of

COMMIT_SECONDS_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DUE_LOOKED_AT = 32  # unread messages that are checked for the first deliverable one
FLOWS_MAX = 1000  # names that a door records between two calls of `take_flows`
NO_REASONS: dict[str, int] = {}  # shared default, never written to


class TopicStatistics(NamedTuple):
    topic: str
    head: int  # the first offset still kept
    tail: int  # the offset the next message gets
    counts: TopicCounts
    dropped: Mapping[str, int] = NO_REASONS  # no_subscription ...
    last_publish_at: int = 0  # 0: never
    subscriptions: int = 0  # number of subscriptions that read the topic


class SubscriptionStatistics(NamedTuple):
    subscription: str
    topic: str
    backlog_messages: int
    backlog_bytes: int
    in_flight_messages: int
    in_flight_bytes: int
    oldest_unacked_age_seconds: float
    counts: SubscriptionCounts
    used_at: int = 0  # the last pull or settlement
    due_age_seconds: float = 0.0  # how long the oldest deliverable message has been deliverable. 0: all are delayed

    @property
    def dropped(self) -> Mapping[str, int]:
        """Messages by reason: expired, retention, capacity. Messages that the filter keeps out are not dropped."""
        return self.counts.dropped


class CommitStatistics(NamedTuple):
    commits: int
    facts: int
    bytes_written: int
    seconds: float  # total time spent in commits
    buckets: Sequence[tuple[float, int]]  # (bound in seconds, commits within this bound), bounds ascending


@dataclass(slots=True)
class DoorTraffic:
    """The traffic of one door: totals since the start, and messages by name since the last `take_flows`."""

    publishes: int = 0
    messages_in: int = 0
    pulls: int = 0  # pulls, including those that found no message
    messages_out: int = 0
    acks: int = 0  # messages that clients acked
    returns: int = 0  # messages that clients returned
    entered: dict[str, int] = field(default_factory=dict)  # topic -> messages
    left: dict[str, int] = field(default_factory=dict)  # subscription -> messages

    def count_in(self, topic: str, messages: int) -> None:
        self.publishes += 1
        self.messages_in += messages
        _note(self.entered, topic, messages)

    def count_out(self, subscription: str, messages: int) -> None:
        self.pulls += 1
        self.messages_out += messages
        if messages:
            _note(self.left, subscription, messages)

    def counts(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in DOOR_COUNTS)

    def take_flows(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the messages published by topic and delivered by subscription since the last call."""
        entered, left, self.entered, self.left = self.entered, self.left, {}, {}
        return entered, left


DOOR_COUNTS = ("publishes", "messages_in", "pulls", "messages_out", "acks", "returns")


def _note(flows: dict[str, int], name: str, messages: int) -> None:
    total = flows.get(name)
    if total is not None:
        flows[name] = total + messages
    elif len(flows) < FLOWS_MAX:  # the bound matters only while `take_flows` is not called
        flows[name] = messages


class BrokerStatistics(NamedTuple):
    topics: Sequence[TopicStatistics]
    subscriptions: Sequence[SubscriptionStatistics]
    commit: CommitStatistics
    publishes_refused: Mapping[str, int] = NO_REASONS  # publishes by reason: invalid, capacity, disk
    internal_errors: Mapping[str, int] = NO_REASONS  # bugs that commands met, by place in the code


class Statistics(Protocol):
    def statistics(self, *, resources: bool = True) -> BrokerStatistics:
        """Return the statistics. `resources`: with those of each topic and subscription."""

    @property
    def internal_errors(self) -> Mapping[str, int]: ...


class CommitMeter:
    """The counts of commits. One thread, the writer, updates them. Any thread reads them, at most one commit behind."""

    def __init__(self) -> None:
        self._counts = [0] * (len(COMMIT_SECONDS_BOUNDS) + 1)
        self._facts = 0
        self._bytes_written = 0
        self._seconds = 0.0

    def note(self, seconds: float, *, facts: int, bytes_written: int) -> None:
        self._counts[bisect_left(COMMIT_SECONDS_BOUNDS, seconds)] += 1
        self._facts += facts
        self._bytes_written += bytes_written
        self._seconds += seconds

    def statistics(self) -> CommitStatistics:
        counts = list(self._counts)
        buckets = [(bound, sum(counts[: index + 1])) for index, bound in enumerate(COMMIT_SECONDS_BOUNDS)]
        return CommitStatistics(sum(counts), self._facts, self._bytes_written, self._seconds, buckets)


# ---------------------------------------------------------------------- gathering: no scanning and no reading


def statistics(
    broker: Broker, meter: CommitMeter, ages: Ages, time_of: Callable[[str], int], resources: bool = True
) -> BrokerStatistics:
    state = broker.state
    topics = [statistics_of_topic(topic) for topic in state.topics.values()] if resources else []
    subscriptions = [
        statistics_of_subscription(broker, reader, ages, time_of(reader.topic_name))
        for reader in (state.subscriptions.values() if resources else ())
    ]
    return BrokerStatistics(topics, subscriptions, meter.statistics(), dict(broker.refused))


def statistics_of_topic(topic: Topic) -> TopicStatistics:
    return TopicStatistics(
        topic=topic.name,
        head=topic.head,
        tail=topic.tail,
        counts=copy(topic.counts),
        dropped={"no_subscription": topic.counts.unread} if topic.counts.unread else {},
        last_publish_at=topic.last_publish_at,
        subscriptions=len(topic.readers),
    )


def statistics_of_subscription(
    broker: Broker, subscription: Subscription, ages: Ages, now: int
) -> SubscriptionStatistics:
    topic = broker.state.read_topic(subscription)
    backlog, age = backlog_of(topic, subscription), age_seconds(broker, topic, subscription, ages, now)
    counts = copy(subscription.counts)
    counts.dropped = dict(counts.dropped)
    return SubscriptionStatistics(
        subscription=subscription.name,
        topic=subscription.topic_name,
        backlog_messages=backlog.messages,
        backlog_bytes=backlog.bytes,
        in_flight_messages=backlog.in_flight_messages,
        in_flight_bytes=backlog.in_flight_bytes,
        oldest_unacked_age_seconds=age,
        counts=counts,
        used_at=subscription.used_at,
        due_age_seconds=_due_age_seconds(broker, topic, subscription, age, now),
    )


def age_seconds(broker: Broker, topic: Topic | None, subscription: Subscription, ages: Ages, now: int) -> float:
    """Return the age of the oldest unacked message.

    If the message is not in memory, return the age of an earlier message, or 0, until housekeeping has read it.
    """
    if topic is None or not subscription.unacked(topic)[0]:
        ages.forget(subscription.number)
        return 0.0
    published = ages.published_at(broker, topic, subscription)
    return max(0, now - published) / SECOND if published is not None else 0.0


def _due_age_seconds(broker: Broker, topic: Topic | None, subscription: Subscription, age: float, now: int) -> float:
    """Return how long the oldest deliverable message has been deliverable.

    Delayed messages and messages that the filter keeps out are not deliverable. Only the oldest message, a returned one
    and some unread ones are checked. If they are not in memory, the answer may be too large.
    """
    if topic is None or not age:
        return 0.0
    accepts, cursor, lowest = subscription.accepts, subscription.cursor, subscription.lowest_unacked()
    oldest = [lowest] if lowest < cursor else []
    returned = [offset for offset in subscription.ready[:1] if offset in subscription.outstanding]
    unread = range(cursor, topic.tail)
    dues, unknown = [], False
    for offset in (*oldest, *returned, *unread[:DUE_LOOKED_AT], *unread[-1:]):
        message, entry = broker.look_up(topic, offset), subscription.outstanding.get(offset)
        if isinstance(message, Message):
            if offset < cursor or accepts is None or accepts(message.attributes):
                dues.append(max(message.publish_time, message.visible_at))
                if dues[-1] == message.publish_time:  # no later message has an earlier due time
                    break
        elif entry is not None and not entry.leased and entry.due > now:
            dues.append(entry.due)
        elif offset == lowest:
            return age
        else:
            unknown = True
    if unknown and not any(due <= now for due in dues):
        return age
    return max(0, now - min(dues)) / SECOND if dues else 0.0
