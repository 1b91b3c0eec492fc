"""The publish time of the oldest unacked message of each subscription.

Statistics never read from disk. If the message is not cached, its subscription is added to `wanted`, and housekeeping
reads the message later.
"""

from __future__ import annotations

from itertools import islice

from penstock.broker.broker import Broker
from penstock.broker.facts import SubscriptionDeleted
from penstock.broker.model import Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.commands import PublishTime, Steps

READ_MAX = 500  # subscriptions in one round


class Ages:
    def __init__(self) -> None:
        # Subscription -> (offset, publish time), perhaps of an earlier oldest message.
        self._known: dict[int, tuple[int, int]] = {}
        self.wanted: dict[int, None] = {}  # subscriptions whose oldest message must be read

    def published_at(self, broker: Broker, topic: Topic, subscription: Subscription) -> int | None:
        """Return the publish time of the oldest message, or of an earlier one until it is read."""
        number, lowest = subscription.number, subscription.lowest_unacked()
        message = broker.look_up(topic, lowest) if lowest < topic.tail else None
        if isinstance(message, Message):
            self._known[number] = lowest, message.publish_time
            self.wanted.pop(number, None)
        known = self._known.get(number)
        if message is not None and (known is None or known[0] != lowest):
            self.wanted[number] = None
        return known[1] if known is not None else None

    def forget(self, subscription: int) -> None:
        self._known.pop(subscription, None)
        self.wanted.pop(subscription, None)

    def on_deleted(self, fact: SubscriptionDeleted) -> None:
        self.forget(fact.subscription)

    def read(self, broker: Broker) -> Steps[None]:
        """Read the publish times of the subscriptions in `wanted`."""
        for number in list(islice(self.wanted, READ_MAX)):
            subscription = broker.state.subscriptions.get(number)
            topic = broker.state.read_topic(subscription) if subscription is not None else None
            if subscription is None or topic is None:
                self.forget(number)
                continue
            before = self.published_at(broker, topic, subscription)
            if number not in self.wanted:  # the message was cached meanwhile
                continue
            lowest = subscription.lowest_unacked()
            at = yield PublishTime(topic.number, lowest)
            if at is None:  # the message cannot be read: do not retry, and report its age too high, not too low
                at = topic.created_at if before is None else before
            self._known[number] = lowest, at
            self.wanted.pop(number, None)
