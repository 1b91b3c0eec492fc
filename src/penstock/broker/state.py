"""The state of the broker: topics, subscriptions, snapshots and documents.

Only `apply` changes it: a command applies the facts that it decided on, and recovery the facts that it read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.broker import facts as f
from penstock.broker.dump import SnapshotDump, StateDump
from penstock.broker.name_index import NameIndex
from penstock.broker.names import first_id
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.errors import NotFoundError


class State:
    def __init__(self) -> None:
        self.identity = ""
        self.secret = b""
        self.next_number = 1
        self.topics: dict[int, Topic] = {}
        self.topic_names: dict[str, Topic] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.subscription_names: dict[str, Subscription] = {}
        self.snapshots: dict[str, SnapshotDump] = {}
        self.topic_snapshots: dict[int, dict[str, None]] = {}  # topic -> names of its snapshots; derived
        self.documents: dict[str, dict[str, bytes]] = {}
        self.topic_index = NameIndex(self.topic_names)
        self.subscription_index = NameIndex(self.subscription_names)

    def apply(self, fact: f.Fact) -> None:
        APPLY[type(fact)](self, fact)

    def topic(self, name: str) -> Topic:
        try:
            return self.topic_names[name]
        except KeyError:
            raise NotFoundError(f"Topic not found: {name}") from None

    def subscription(self, name: str) -> Subscription:
        try:
            return self.subscription_names[name]
        except KeyError:
            raise NotFoundError(f"Subscription not found: {name}") from None

    def snapshot(self, name: str) -> SnapshotDump:
        try:
            return self.snapshots[name]
        except KeyError:
            raise NotFoundError(f"Snapshot not found: {name}") from None

    def read_topic(self, subscription: Subscription) -> Topic | None:
        """Return the topic of a subscription, or None if it is detached."""
        return None if subscription.detached else self.topics.get(subscription.topic)

    # ------------------------------------------------------------------ facts

    def name_store(self, fact: f.StoreNamed) -> None:
        self.identity, self.secret = fact.identity, fact.secret
        for topic in self.topics.values():
            self._identify(topic)
            if fact.renewed:
                topic.first_id = first_id(fact.identity, topic.number)

    def create_topic(self, fact: f.TopicCreated) -> None:
        self._add_topic(Topic(fact))
        self.next_number = max(self.next_number, fact.topic + 1)

    def delete_topic(self, fact: f.TopicDeleted) -> None:
        topic = self.topics.pop(fact.topic)
        del self.topic_names[topic.name]
        self.topic_index.note(topic.name)

    def create_subscription(self, fact: f.SubscriptionCreated) -> None:
        self._add_subscription(Subscription(fact))
        self.next_number = max(self.next_number, fact.subscription + 1)

    def change_subscription(self, fact: f.SubscriptionChanged) -> None:
        subscription = self.subscriptions[fact.subscription]
        subscription.change(fact)
        topic = self.read_topic(subscription)
        if topic is not None:
            topic.add_reader(subscription)

    def delete_subscription(self, fact: f.SubscriptionDeleted) -> None:
        subscription = self.subscriptions.pop(fact.subscription)
        del self.subscription_names[subscription.name]
        self.subscription_index.note(subscription.name)
        self._remove_reader(subscription)

    def detach(self, fact: f.Detached) -> None:
        subscription = self.subscriptions[fact.subscription]
        self._remove_reader(subscription)
        subscription.detach()

    def touch(self, fact: f.Touched) -> None:
        self.subscriptions[fact.subscription].used_at = fact.at

    def take_snapshot(self, fact: f.SnapshotTaken) -> None:
        self.snapshots[fact.name] = fact
        self.topic_snapshots.setdefault(fact.topic, {})[fact.name] = None

    def change_snapshot(self, fact: f.SnapshotChanged) -> None:
        old = self.snapshots[fact.name]
        self.snapshots[fact.name] = old._replace(expires_at=fact.expires_at, labels=fact.labels)

    def drop_snapshot(self, fact: f.SnapshotDropped) -> None:
        topic = self.snapshots.pop(fact.name).topic
        del self.topic_snapshots[topic][fact.name]
        if not self.topic_snapshots[topic]:
            del self.topic_snapshots[topic]

    def seek(self, fact: f.Sought) -> None:
        subscription = self.subscriptions[fact.subscription]
        subscription.seek(fact)
        topic = self.read_topic(subscription)
        if topic is not None:
            topic.note_room([], 0, 0)

    def put_document(self, fact: f.DocumentPut) -> None:
        self.documents.setdefault(fact.kind, {})[fact.name] = fact.body

    def remove_document(self, fact: f.DocumentRemoved) -> None:
        del self.documents[fact.kind][fact.name]
        if not self.documents[fact.kind]:
            del self.documents[fact.kind]

    # ------------------------------------------------------------------ indexes

    def _add_topic(self, topic: Topic) -> None:
        self.topics[topic.number] = topic
        self.topic_names[topic.name] = topic
        self.topic_index.note(topic.name)
        self._identify(topic)

    def _identify(self, topic: Topic) -> None:
        topic.identity = f"{self.identity}-{topic.number}" if self.identity else ""

    def _add_subscription(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.number] = subscription
        self.subscription_names[subscription.name] = subscription
        self.subscription_index.note(subscription.name)
        topic = self.read_topic(subscription)
        if topic is not None:
            topic.add_reader(subscription)

    def _remove_reader(self, subscription: Subscription) -> None:
        topic = self.read_topic(subscription)
        if topic is not None:
            topic.remove_reader(subscription.number)

    # ------------------------------------------------------------------ dump and load

    def dump(self) -> StateDump:
        return StateDump(
            self.next_number,
            [self.topics[number].dump() for number in sorted(self.topics)],
            [self.subscriptions[number].dump() for number in sorted(self.subscriptions)],
            [self.snapshots[name] for name in sorted(self.snapshots)],
            {kind: dict(sorted(self.documents[kind].items())) for kind in sorted(self.documents)},
            self.identity,
            self.secret,
        )

    @classmethod
    def load(cls, dump: StateDump) -> State:
        state = cls()
        state.next_number = dump.next_number
        state.identity, state.secret = dump.identity, dump.secret
        for topic in dump.topics:
            state._add_topic(Topic.load(topic))
        for subscription in dump.subscriptions:
            state._add_subscription(Subscription.load(subscription))
        for snapshot in dump.snapshots:
            state.take_snapshot(snapshot)
        state.documents = {kind: dict(documents) for kind, documents in dump.documents.items()}
        return state


def _on_topic(method: Callable[[Topic, Any], None]) -> Callable[[State, Any], None]:
    return lambda state, fact: method(state.topics[fact.topic], fact)


def _on_subscription(method: Callable[[Subscription, Any], None]) -> Callable[[State, Any], None]:
    return lambda state, fact: method(state.subscriptions[fact.subscription], fact)


APPLY: dict[type[f.Fact], Callable[[State, Any], None]] = {
    f.TopicCreated: State.create_topic,
    f.TopicChanged: _on_topic(Topic.change),
    f.TopicDeleted: State.delete_topic,
    f.Published: _on_topic(Topic.publish),
    f.Forgotten: _on_topic(Topic.forget),
    f.ProducersForgotten: _on_topic(Topic.forget_producers),
    f.SubscriptionCreated: State.create_subscription,
    f.SubscriptionChanged: State.change_subscription,
    f.SubscriptionDeleted: State.delete_subscription,
    f.Detached: State.detach,
    f.Touched: State.touch,
    f.Delivered: _on_subscription(Subscription.deliver),
    f.Passed: _on_subscription(Subscription.advance),
    f.Held: _on_subscription(Subscription.hold),
    f.Delayed: _on_subscription(Subscription.delay),
    f.Acked: _on_subscription(Subscription.ack),
    f.Returned: _on_subscription(Subscription.give_back),
    f.Extended: _on_subscription(Subscription.extend),
    f.Rewritten: _on_subscription(Subscription.rewrite),
    f.Adopted: _on_subscription(Subscription.adopt),
    f.Removed: _on_subscription(Subscription.remove),
    f.Sought: State.seek,
    f.SnapshotTaken: State.take_snapshot,
    f.SnapshotChanged: State.change_snapshot,
    f.SnapshotDropped: State.drop_snapshot,
    f.DocumentPut: State.put_document,
    f.DocumentRemoved: State.remove_document,
    f.StoreNamed: State.name_store,
    f.Compared: _on_subscription(Subscription.compare),
}
