"""What can be looked up without waiting: the records do not change under the reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.broker.consuming import Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.limits import Limits
from penstock.engine.clock import Clock
from penstock.engine.engine import Engine
from penstock.engine.statistics import BrokerStatistics, statistics
from penstock.engine.views import Backlog, SubscriptionMetadata, TopicMetadata, backlog
from penstock.errors import NotFoundError, UnavailableError


class Lookups:
    """The lookups of both queues."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._oldest: dict[int, tuple[int, int]] = {}  # subscription -> (offset, publish time) of its oldest message

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    @property
    def limits(self) -> Limits:
        return self.engine.broker.limits

    @property
    def durable(self) -> bool:
        return self.engine.journal.durable

    @property
    def identity(self) -> str:
        """The store's: drawn at its birth, and never that of another."""
        return self.engine.broker.state.identity

    @property
    def internal_errors(self) -> Mapping[str, int]:
        """Bugs that commands met since the start, by their place in the code."""
        return self.engine.internal_errors

    # ------------------------------------------------------------------ topics

    def topic(self, name: str) -> TopicMetadata:
        with self.engine.lock:
            return TopicMetadata.of(self.engine.broker.state.topic(name))

    def topic_exists(self, name: str) -> bool:
        return name in self.engine.broker.state.topic_names

    def topics(self) -> list[TopicMetadata]:
        with self.engine.lock:
            return [TopicMetadata.of(topic) for topic in self.engine.broker.state.topics.values()]

    def topic_name(self, number: int) -> str:
        """The name of a topic that is known by its number."""
        topic = self.engine.broker.state.topics.get(number)
        if topic is None:
            raise NotFoundError(f"Topic not found: {number}")
        return topic.name

    def topic_names(self) -> Iterable[str]:
        return self.engine.broker.state.topic_names.keys()

    # ------------------------------------------------------------------ subscriptions

    def subscription(self, name: str) -> SubscriptionMetadata:
        with self.engine.lock:
            self.engine.expire_unused(name)
            return SubscriptionMetadata.of(self.engine.broker.state.subscription(name))

    def subscription_exists(self, name: str) -> bool:
        with self.engine.lock:
            self.engine.expire_unused(name)
            return name in self.engine.broker.state.subscription_names

    def subscriptions(self, topic_name: str | None = None) -> list[SubscriptionMetadata]:
        """Those of a topic, or all of them, without those that nobody used for their time to live."""
        with self.engine.lock:
            state = self.engine.broker.state
            chosen = state.subscriptions if topic_name is None else state.topic(topic_name).readers
            self.engine.expire_unused(*[each.name for each in chosen.values() if each.options.expiration_seconds])
            return [SubscriptionMetadata.of(each) for each in chosen.values()]

    def subscription_name(self, number: int) -> str:
        """The name of a subscription that is known by its number; empty if it is gone."""
        subscription = self.engine.broker.state.subscriptions.get(number)
        return subscription.name if subscription is not None else ""

    def reads(self, name: str, topic_name: str) -> bool:
        """Whether a subscription is there and attached to this topic."""
        subscription = self.engine.broker.state.subscription_names.get(name)
        return subscription is not None and subscription.topic_name == topic_name and not subscription.detached

    def numbers(self, topic_name: str, name: str) -> tuple[int, int] | None:
        """A topic's first id and the number of the subscription that reads it; None unless both are there."""
        state = self.engine.broker.state
        subscription, topic = state.subscription_names.get(name), state.topic_names.get(topic_name)
        if subscription is None or topic is None or state.read_topic(subscription) is not topic:
            return None
        return topic.first_id, subscription.number

    def backlog(self, name: str) -> Backlog:
        with self.engine.lock:
            subscription = self.engine.broker.state.subscription(name)
            return backlog(self.engine.broker.state.read_topic(subscription), subscription)

    # ------------------------------------------------------------------ messages and receipts

    def is_unacked(self, name: str, offset: int) -> bool:
        """Whether a message is still to be settled on a subscription, and its time is not over."""
        return self.engine.broker.is_unacked(self.engine.now(), name, offset)

    def examine(self, receipts: Sequence[str]) -> Settled:
        """Which receipts are not good, without acting on the others. For subscriptions whose receipts are strict."""
        return self.engine.broker.examine(self.engine.now(), receipts)

    def publisher_receipt(self, subscription: int, offset: int) -> str:
        """A receipt for a message that was just published, good on one subscription until it is first delivered."""
        return self.engine.broker.publisher_receipt(subscription, offset)

    # ------------------------------------------------------------------ snapshots, documents, numbers

    def snapshots(self) -> list[SnapshotDump]:
        with self.engine.lock:
            return list(self.engine.broker.state.snapshots.values())

    def document(self, kind: str, name: str) -> bytes | None:
        return self.engine.broker.state.documents.get(kind, {}).get(name)

    def documents(self, kind: str) -> dict[str, bytes]:
        return dict(self.engine.broker.state.documents.get(kind, {}))

    def statistics(self) -> BrokerStatistics:
        """What was counted since the engine was opened, and how full it is."""
        engine = self.engine
        with engine.lock:
            if engine.closed:
                raise UnavailableError("The message queue is closed")
            counted = statistics(engine.broker, engine.commits.meter, self._oldest, engine.now())
            return counted._replace(internal_errors=engine.internal_errors)
