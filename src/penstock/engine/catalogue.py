"""Topics and subscriptions, made, changed and deleted by whoever awaits.

The rule kept here: one command of the broker each, and a record that does not change as the answer. Both queues that
are awaited have these, so that a door or a client need not know which one it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.engine.views import SubscriptionMetadata, TopicMetadata

T = TypeVar("T")


class Awaited(Protocol):
    """A queue that runs a command and answers when what it decided is durable."""

    @property
    def _broker(self) -> Broker: ...

    @property
    def _now(self) -> Callable[[], int]: ...

    async def _run(self, command: Callable[[], T]) -> T: ...


class Catalogue:
    async def create_topic(self: Awaited, name: str, options: TopicOptions | None = None) -> TopicMetadata:
        return TopicMetadata.of(await self._run(lambda: self._broker.create_topic(self._now(), name, options)))

    async def change_topic(self: Awaited, name: str, options: TopicOptions) -> TopicMetadata:
        return TopicMetadata.of(await self._run(lambda: self._broker.change_topic(name, options)))

    async def delete_topic(self: Awaited, name: str) -> None:
        await self._run(lambda: self._broker.delete_topic(name))

    async def create_subscription(
        self: Awaited, name: str, topic_name: str, options: SubscriptionOptions | None = None
    ) -> SubscriptionMetadata:
        created = await self._run(lambda: self._broker.create_subscription(self._now(), name, topic_name, options))
        return SubscriptionMetadata.of(created)

    async def change_subscription(self: Awaited, name: str, options: SubscriptionOptions) -> SubscriptionMetadata:
        return SubscriptionMetadata.of(await self._run(lambda: self._broker.change_subscription(name, options)))

    async def delete_subscription(self: Awaited, name: str) -> None:
        await self._run(lambda: self._broker.delete_subscription(name))
