"""The numbers of a running broker, gathered for whoever shows them.

The rule kept here: no scanning and no reading. The age of the oldest unacked message comes from the cached log,
or from the last time it was seen there.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.model import SECOND, Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.statistics import (
    BrokerStatistics,
    CommitMeter,
    SubscriptionStatistics,
    TopicStatistics,
)
from penstock.engine.views import backlog


def statistics(broker: Broker, meter: CommitMeter, oldest: dict[int, tuple[int, int]], now: int) -> BrokerStatistics:
    topics = [_topic(topic) for topic in broker.state.topics.values()]
    subscriptions = [_subscription(broker, each, oldest, now) for each in broker.state.subscriptions.values()]
    return BrokerStatistics(topics, subscriptions, meter.statistics(), dict(broker.refused))


def _topic(topic: Topic) -> TopicStatistics:
    counts = topic.counts
    dropped = {"no_subscription": counts.unread} if counts.unread else {}
    return TopicStatistics(topic.name, topic.head, topic.tail, counts.published, counts.bytes, dropped)


def _subscription(
    broker: Broker, subscription: Subscription, oldest: dict[int, tuple[int, int]], now: int
) -> SubscriptionStatistics:
    topic, counts = broker.state.read_topic(subscription), subscription.counts
    return SubscriptionStatistics(
        subscription.name,
        subscription.topic_name,
        *backlog(topic, subscription),
        _age_seconds(broker, topic, subscription, oldest, now),
        counts.delivered,
        counts.acked,
        counts.returned,
        counts.dead_lettered,
        dict(counts.dropped),
        counts.dead_letter_failures,
        counts.dead_letters_unread,
    )


def _age_seconds(
    broker: Broker, topic: Topic | None, subscription: Subscription, oldest: dict[int, tuple[int, int]], now: int
) -> float:
    if topic is None or topic.tail == subscription.settled:
        oldest.pop(subscription.number, None)
        return 0.0
    lowest = subscription.lowest_unacked()
    message = broker.look_up(topic, lowest) if lowest < topic.tail else None
    if isinstance(message, Message):
        oldest[subscription.number] = (lowest, message.publish_time)
    # Not in memory: what was seen last is older or equal, so the age errs on the high side until it is read again.
    published = oldest.get(subscription.number, (0, topic.head_at or now))[1]
    return max(0, now - published) / SECOND
