"""What can be counted about a running broker, in the broker's own words: the engine fills these, doors show them.

Plain numbers, no scanning. Counters begin at 0 when the process starts and only grow; everything
else is how it is now. Reasons are short words with underscores, because they become labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.broker.broker import Broker
from penstock.broker.model import SECOND, Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.ages import Ages
from penstock.engine.views import backlog_of

COMMIT_SECONDS_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DUE_LOOKED_AT = 32  # unread messages, for one that could be delivered as those before it could not
FLOWS_MAX = 1000  # names that a door notes between two looks
NO_REASONS: dict[str, int] = {}  # shared by everything that dropped nothing; never written to


class TopicStatistics(NamedTuple):
    topic: str
    head: int  # the first offset still kept
    tail: int  # the offset the next message gets
    messages_published: int
    bytes_published: int
    dropped: Mapping[str, int] = NO_REASONS  # no_subscription ...
    last_publish_at: int = 0  # 0: never
    subscriptions: int = 0  # that read it


class SubscriptionStatistics(NamedTuple):
    subscription: str
    topic: str
    backlog_messages: int
    backlog_bytes: int
    in_flight_messages: int
    in_flight_bytes: int
    oldest_unacked_age_seconds: float
    delivered: int
    acked: int
    returned: int  # nacked, or their lease ran out
    dead_lettered: int
    dropped: Mapping[str, int] = NO_REASONS  # expired, retention, capacity; what a filter skips is not dropped
    dead_letter_failures: int = 0  # returned instead, because the dead letter topic was not there
    dead_letters_unread: int = 0  # of the dead letters, those whose topic had no subscription
    used_at: int = 0  # when it was last asked for messages, or its messages were settled
    due_age_seconds: float = 0.0  # for how long one could have been delivered; 0 where all are delayed


class CommitStatistics(NamedTuple):
    commits: int
    facts: int
    bytes_written: int
    seconds: float  # spent in all commits together
    buckets: Sequence[tuple[float, int]]  # (bound in seconds, commits that took at most so long), bounds rising


@dataclass(slots=True)
class DoorTraffic:
    """What went through one door: since the start, and since the last look to and from which names."""

    publishes: int = 0
    messages_in: int = 0
    pulls: int = 0  # looks at a subscription, also those that found nothing
    messages_out: int = 0
    acks: int = 0  # messages that a client asked to settle
    returns: int = 0  # messages that a client gave back
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
        """What entered and left since the last call."""
        entered, left, self.entered, self.left = self.entered, self.left, {}, {}
        return entered, left


DOOR_COUNTS = ("publishes", "messages_in", "pulls", "messages_out", "acks", "returns")


def _note(flows: dict[str, int], name: str, messages: int) -> None:
    known = flows.get(name)
    if known is not None:
        flows[name] = known + messages
    elif len(flows) < FLOWS_MAX:  # where nobody looks, it stays at that
        flows[name] = messages


class BrokerStatistics(NamedTuple):
    topics: Sequence[TopicStatistics]
    subscriptions: Sequence[SubscriptionStatistics]
    commit: CommitStatistics
    publishes_refused: Mapping[str, int] = NO_REASONS  # by reason: invalid, capacity, disk
    internal_errors: Mapping[str, int] = NO_REASONS  # bugs that commands met, by their place in the code


class Statistics(Protocol):
    def statistics(self) -> BrokerStatistics: ...

    @property
    def internal_errors(self) -> Mapping[str, int]: ...


class CommitMeter:
    """Where the writer notes its commits. One thread notes, any thread reads; a reader may be one commit behind."""

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
        buckets = [(bound, sum(counts[: place + 1])) for place, bound in enumerate(COMMIT_SECONDS_BOUNDS)]
        return CommitStatistics(sum(counts), self._facts, self._bytes_written, self._seconds, buckets)


# ---------------------------------------------------------------------- gathering them: no scanning and no reading


def statistics(broker: Broker, meter: CommitMeter, ages: Ages, time_of: Callable[[str], int]) -> BrokerStatistics:
    topics = [statistics_of_topic(topic) for topic in broker.state.topics.values()]
    subscriptions = [
        statistics_of_subscription(broker, each, ages, time_of(each.topic_name))
        for each in broker.state.subscriptions.values()
    ]
    return BrokerStatistics(topics, subscriptions, meter.statistics(), dict(broker.refused))


def statistics_of_topic(topic: Topic) -> TopicStatistics:
    counts = topic.counts
    dropped = {"no_subscription": counts.unread} if counts.unread else {}
    return TopicStatistics(
        topic.name,
        topic.head,
        topic.tail,
        counts.published,
        counts.bytes,
        dropped,
        topic.last_publish_at,
        len(topic.readers),
    )


def statistics_of_subscription(
    broker: Broker, subscription: Subscription, ages: Ages, now: int
) -> SubscriptionStatistics:
    topic, counts = broker.state.read_topic(subscription), subscription.counts
    age = age_seconds(broker, topic, subscription, ages, now)
    return SubscriptionStatistics(
        subscription.name,
        subscription.topic_name,
        *backlog_of(topic, subscription),
        age,
        counts.delivered,
        counts.acked,
        counts.returned,
        counts.dead_lettered,
        dict(counts.dropped),
        counts.dead_letter_failures,
        counts.dead_letters_unread,
        subscription.used_at,
        _due_age_seconds(broker, topic, subscription, age, now),
    )


def age_seconds(broker: Broker, topic: Topic | None, subscription: Subscription, ages: Ages, now: int) -> float:
    """Of the oldest unacked message; of one before it, or 0, until it is read where it is not in memory."""
    if topic is None or topic.tail == subscription.settled:
        ages.forget(subscription.number)
        return 0.0
    published = ages.published_at(broker, topic, subscription)
    return max(0, now - published) / SECOND if published is not None else 0.0


def _due_age_seconds(broker: Broker, topic: Topic | None, subscription: Subscription, age: float, now: int) -> float:
    """For how long one could have been delivered, by a look at the oldest, one that came back and some never looked at.

    What is delayed could not, nor what the filter does not take. Where they are not in memory it errs on the high side.
    """
    if topic is None or not age:
        return 0.0
    accepts, cursor, lowest = subscription.accepts, subscription.cursor, subscription.lowest_unacked()
    oldest = [lowest] if lowest < cursor else []
    back = [each for each in subscription.ready[:1] if each in subscription.outstanding]
    unread = range(cursor, topic.tail)
    dues, unknown = [], False
    for place in (*oldest, *back, *unread[:DUE_LOOKED_AT], *unread[-1:]):
        message, entry = broker.look_up(topic, place), subscription.outstanding.get(place)
        if isinstance(message, Message):
            if place < cursor or accepts is None or accepts(message.attributes):
                dues.append(max(message.publish_time, message.visible_at))
                if dues[-1] == message.publish_time:  # none of a later one is earlier
                    break
        elif entry is not None and not entry.leased and entry.due > now:
            dues.append(entry.due)
        elif place == lowest:
            return age
        else:
            unknown = True
    if unknown and not any(due <= now for due in dues):
        return age
    return max(0, now - min(dues)) / SECOND if dues else 0.0
