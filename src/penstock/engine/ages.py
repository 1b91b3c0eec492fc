"""When the oldest unacked message of each subscription was published.

Whoever counts does not read: what is not in memory is noted, and read by whoever keeps house.
"""

from __future__ import annotations

from itertools import islice

from penstock.broker.broker import Broker
from penstock.broker.facts import SubscriptionDeleted
from penstock.broker.model import Message
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.engine.commands import PublishTime, Steps

READ_MAX = 500  # at a time


class Ages:
    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}  # subscription -> (offset, publish time), perhaps of one before
        self.wanted: dict[int, None] = {}  # subscriptions whose oldest is to be read

    def published_at(self, broker: Broker, topic: Topic, subscription: Subscription) -> int | None:
        """Of one that was the oldest before, until the oldest is read; None where none was ever looked at."""
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
        """What was wanted."""
        for number in list(islice(self.wanted, READ_MAX)):
            subscription = broker.state.subscriptions.get(number)
            topic = broker.state.read_topic(subscription) if subscription is not None else None
            if subscription is None or topic is None:
                self.forget(number)
                continue
            before = self.published_at(broker, topic, subscription)
            if number not in self.wanted:  # it came into memory meanwhile
                continue
            lowest = subscription.lowest_unacked()
            found = yield PublishTime(topic.number, lowest)
            if found is None:  # it cannot be read: not asked for again, and rather too old than too young
                found = topic.created_at if before is None else before
            self._known[number] = lowest, found
            self.wanted.pop(number, None)
