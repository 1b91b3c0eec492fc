"""What the awaitable queue answers without waiting for a commit."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine import lookups
from penstock.engine.engine import Engine
from penstock.engine.port import (
    Backlog,
    Lease,
    QueueNumbers,
    SeekPreview,
    Settled,
    SnapshotDump,
    Store,
    Story,
    SubscriptionMetadata,
    TopicMetadata,
)
from penstock.engine.statistics import SubscriptionStatistics, TopicStatistics


class AsyncLookups:
    """The half of `AsyncMessageQueue` that only looks."""

    engine: Engine

    async def find_topic(self, key: str | int) -> TopicMetadata | None:
        return lookups.find_topic(self.engine, key)

    async def topics(self) -> list[TopicMetadata]:
        return lookups.topics(self.engine)

    async def find_subscription(self, key: str | int) -> SubscriptionMetadata | None:
        return lookups.find_subscription(self.engine, key)

    async def subscriptions(self, topic_name: str | None = None) -> list[SubscriptionMetadata]:
        return lookups.subscriptions(self.engine, topic_name)

    async def backlog(self, name: str) -> Backlog:
        return lookups.backlog(self.engine, name)

    async def preview_seek(self, name: str, *, offset: int = 0, snapshot: str = "") -> SeekPreview:
        return lookups.preview_seek(self.engine, name, offset, snapshot)

    async def find_queue(self, topic_name: str, name: str) -> QueueNumbers | None:
        return lookups.find_queue(self.engine, topic_name, name)

    async def queue_names(self, topic_prefix: str, prefix: str) -> list[str]:
        return lookups.queue_names(self.engine, topic_prefix, prefix)

    async def snapshots(self) -> list[SnapshotDump]:
        return lookups.snapshots(self.engine)

    async def document(self, kind: str, name: str) -> bytes | None:
        return lookups.document(self.engine, kind, name)

    async def documents(self, kind: str) -> dict[str, bytes]:
        return lookups.documents(self.engine, kind)

    async def examine(self, receipts: Sequence[str]) -> Settled:
        return self.engine.broker.examine(self.engine.now(), receipts)

    async def is_unacked(self, name: str, offset: int) -> bool:
        return self.engine.broker.is_unacked(self.engine.now(), name, offset)

    async def unacked(self, name: str, first: int, most: int) -> list[int]:
        return lookups.unacked(self.engine, name, first, most)

    async def sequences(self, topic_name: str, producer: str) -> list[int]:
        return lookups.sequences(self.engine, topic_name, producer)

    async def store(self) -> Store:
        return lookups.store(self.engine)

    async def story(self, topic_name: str, offset: int) -> Story:
        return lookups.story(self.engine, topic_name, offset)

    async def leases(self, name: str, first: int, most: int) -> list[Lease]:
        return lookups.leases(self.engine, name, first, most)

    async def publisher_receipt(self, subscription: int, offset: int) -> str:
        return self.engine.broker.publisher_receipt(subscription, offset)

    async def topic_statistics(self, names: Sequence[str]) -> list[TopicStatistics]:
        return lookups.topic_statistics(self.engine, names)

    async def subscription_statistics(self, names: Sequence[str]) -> list[SubscriptionStatistics]:
        return lookups.subscription_statistics(self.engine, names)
