"""What a door may look up without waiting: names, numbers, options, documents.

The rule kept here: looking reads no disk, and changes nothing but what time has ended anyway; what is shown are records
that do not change under the reader, or plain values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.broker.consuming import Settled
from penstock.broker.dump import SnapshotDump
from penstock.engine.engine import Face
from penstock.engine.views import Backlog, SubscriptionMetadata, TopicMetadata, backlog
from penstock.errors import NotFoundError


class Lookups(Face):
    def topic(self, name: str) -> TopicMetadata:
        return TopicMetadata.of(self._broker.state.topic(name))

    def subscription(self, name: str) -> SubscriptionMetadata:
        self._expire_unused(name)
        return SubscriptionMetadata.of(self._broker.state.subscription(name))

    def topic_exists(self, name: str) -> bool:
        return name in self._broker.state.topic_names

    def subscription_exists(self, name: str) -> bool:
        self._expire_unused(name)
        return name in self._broker.state.subscription_names

    def topics(self) -> list[TopicMetadata]:
        return [TopicMetadata.of(topic) for topic in self._broker.state.topics.values()]

    def subscriptions(self, topic_name: str | None = None) -> list[SubscriptionMetadata]:
        return [SubscriptionMetadata.of(subscription) for subscription in self._living(topic_name)]

    def reads(self, name: str, topic_name: str) -> bool:
        """Whether a subscription is there and attached to this topic."""
        subscription = self._broker.state.subscription_names.get(name)
        return subscription is not None and subscription.topic_name == topic_name and not subscription.detached

    def numbers(self, topic_name: str, name: str) -> tuple[int, int] | None:
        """A topic's first id and the number of the subscription that reads it; None unless both are there."""
        state = self._broker.state
        subscription, topic = state.subscription_names.get(name), state.topic_names.get(topic_name)
        if subscription is None or topic is None or state.read_topic(subscription) is not topic:
            return None
        return topic.first_id, subscription.number

    def is_unacked(self, name: str, offset: int) -> bool:
        """Whether a message is still to be settled on a subscription, and its time is not over."""
        return self._broker.is_unacked(self._now(), name, offset)

    def examine(self, receipts: Sequence[str]) -> Settled:
        """Which receipts are not good, without acting on the others. For subscriptions whose receipts are strict."""
        return self._broker.examine(self._now(), receipts)

    def publisher_receipt(self, subscription: int, offset: int) -> str:
        """A receipt for a message that was just published, good on one subscription until it is first delivered."""
        return self._broker.publisher_receipt(subscription, offset)

    def topic_name(self, number: int) -> str:
        """The name of a topic that is known by its number."""
        topic = self._broker.state.topics.get(number)
        if topic is None:
            raise NotFoundError(f"Topic not found: {number}")
        return topic.name

    def topic_names(self) -> Iterable[str]:
        return self._broker.state.topic_names.keys()

    def document(self, kind: str, name: str) -> bytes | None:
        return self._broker.state.documents.get(kind, {}).get(name)

    def documents(self, kind: str) -> dict[str, bytes]:
        return dict(self._broker.state.documents.get(kind, {}))

    def snapshots(self) -> list[SnapshotDump]:
        return list(self._broker.state.snapshots.values())

    def backlog(self, name: str) -> Backlog:
        subscription = self._broker.state.subscription(name)
        return backlog(self._broker.state.read_topic(subscription), subscription)
