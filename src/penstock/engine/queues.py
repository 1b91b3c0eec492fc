"""A queue as some doors know it: a topic with one subscription that reads it.

The rule kept here: both come into being in one step, so that no message can slip in between them unread.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.errors import FailedPreconditionError


def provide_queue(
    broker: Broker,
    now: int,
    topic_name: str,
    name: str,
    options: SubscriptionOptions | None = None,
    topic_options: TopicOptions | None = None,
) -> None:
    """Make what is missing, with these options. A subscription whose topic was deleted is empty, and makes room."""
    subscription = broker.state.subscription_names.get(name)
    if subscription is not None and not subscription.detached and subscription.topic_name != topic_name:
        raise FailedPreconditionError(f"Subscription {name} reads another topic: {subscription.topic_name}")
    if topic_name not in broker.state.topic_names:
        broker.create_topic(now, topic_name, topic_options)
    if subscription is not None and subscription.detached:
        broker.delete_subscription(name)
    if name not in broker.state.subscription_names:
        broker.create_subscription(now, name, topic_name, options)


def remove_queue(broker: Broker, topic_name: str, name: str) -> None:
    """Both go in one step; other subscriptions of the topic stay behind, detached."""
    broker.delete_subscription(name)
    broker.delete_topic(topic_name)
