"""Topics, subscriptions, snapshots and documents of the awaitable queue: they come, change and go."""

from __future__ import annotations

import asyncio

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.engine import commands
from penstock.engine.async_lookups import AsyncLookups
from penstock.engine.engine import Engine
from penstock.engine.loop import EngineLoop
from penstock.engine.port import SnapshotDump, SubscriptionMetadata, TopicMetadata


class AsyncTopology(AsyncLookups):
    """The part of `AsyncMessageQueue` that is not about messages."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.loop = EngineLoop(engine)
        self._run, self._drive = self.loop.run, self.loop.drive

    def create_topic(self, name: str, options: TopicOptions | None = None) -> asyncio.Future[TopicMetadata]:
        return self._run(lambda broker, now: TopicMetadata.of(broker.create_topic(now, name, options)))

    def change_topic(self, name: str, options: TopicOptions) -> asyncio.Future[TopicMetadata]:
        return self._run(lambda broker, _: TopicMetadata.of(broker.change_topic(name, options)))

    def delete_topic(self, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, _: broker.delete_topic(name))

    def create_subscription(
        self, name: str, topic_name: str, options: SubscriptionOptions | None = None
    ) -> asyncio.Future[SubscriptionMetadata]:
        return self._run(
            lambda broker, now: SubscriptionMetadata.of(broker.create_subscription(now, name, topic_name, options))
        )

    def create_subscription_at(
        self, name: str, topic_name: str, offset: int, options: SubscriptionOptions | None = None
    ) -> asyncio.Future[SubscriptionMetadata]:
        return self._drive(
            lambda broker: commands.create_subscription_at(broker, self.engine.now, name, topic_name, offset, options)
        )

    def change_subscription(self, name: str, options: SubscriptionOptions) -> asyncio.Future[SubscriptionMetadata]:
        return self._run(lambda broker, _: SubscriptionMetadata.of(broker.change_subscription(name, options)))

    def delete_subscription(self, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, _: broker.delete_subscription(name))

    def detach_subscription(self, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, _: broker.detach_subscription(name))

    def touch_subscription(self, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, now: broker.touch_subscription(now, name))

    def provide_queue(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions | None = None,
        topic_options: TopicOptions | None = None,
    ) -> asyncio.Future[bool]:
        return self._run(
            lambda broker, now: commands.provide_queue(broker, now, topic_name, name, options, topic_options)
        )

    def remove_queue(self, topic_name: str, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, _: commands.remove_queue(broker, topic_name, name))

    def create_snapshot(
        self, snapshot: str, subscription: str, labels: dict[str, str] | None = None
    ) -> asyncio.Future[SnapshotDump]:
        return self._drive(
            lambda broker: commands.create_snapshot(broker, self.engine.now, snapshot, subscription, labels)
        )

    def change_snapshot(self, name: str, *, expires_at: int, labels: dict[str, str]) -> asyncio.Future[SnapshotDump]:
        return self._run(lambda broker, _: broker.change_snapshot(name, expires_at=expires_at, labels=labels))

    def delete_snapshot(self, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, _: broker.delete_snapshot(name))

    # ------------------------------------------------------------------ documents of the doors

    def put_document(self, kind: str, name: str, body: bytes) -> asyncio.Future[None]:
        return self._run(lambda broker, _: broker.put_document(kind, name, body))

    def remove_document(self, kind: str, name: str) -> asyncio.Future[None]:
        return self._run(lambda broker, _: broker.remove_document(kind, name))
