"""Topic: where messages are published."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.broker.model import NO_ATTRIBUTES, Draft, TopicOptions
from penstock.engine import lookups
from penstock.engine.options import TOPIC
from penstock.errors import InvalidArgumentError
from penstock.names import TOPICS
from penstock.pubsub.options import PublisherOptions, TopicMetadata, given_options, publisher_options
from penstock.pubsub.publisher import Publisher
from penstock.pubsub.resource import Resource

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub
    from penstock.pubsub.subscription import Subscription


class Topic(Resource[TopicMetadata]):
    """A topic of a PubSub.

    >>> topic = pubsub.topic("orders")
    >>> await topic.create()
    >>> message_id = await topic.publish_message(data=b"order 1", attributes={"kind": "new"})
    """

    def __init__(self, pubsub: PubSub, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        super().__init__(pubsub, TOPICS, name)
        chosen = publisher_options(given_options(options, more), PublisherOptions())
        self._publisher = Publisher(self._session, self.name, chosen)

    # ------------------------------------------------------------------ the topic

    async def create(self, options: Mapping[str, Any] | None = None, **more: Any) -> Topic:
        """Create it.

        >>> await topic.create(labels={"team": "billing"}, message_retention_duration=86400)
        """
        chosen = TOPIC.read(given_options(options, more), TopicOptions())
        self.metadata = TopicMetadata.of(await self._session.use().create_topic(self.name, chosen))
        return self

    async def delete(self) -> None:
        """Delete it with its messages; subscriptions stay, detached, and an open one says so."""
        await self._session.use().delete_topic(self.name)

    async def set_metadata(self, changes: Mapping[str, Any] | None = None, **more: Any) -> TopicMetadata:
        """Change labels or message_retention_duration; the rest stays.

        >>> await topic.set_metadata(labels={"team": "shipping"})
        """
        queue = self._session.use()
        options = TOPIC.read(given_options(changes, more), lookups.topic(queue.engine, self.name).options)
        self.metadata = TopicMetadata.of(await queue.change_topic(self.name, options))
        return self.metadata

    async def _find(self) -> TopicMetadata | None:
        found = await self._session.use().find_topic(self.name)
        return TopicMetadata.of(found) if found is not None else None

    def subscription(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """A subscription to this topic, which need not exist yet."""
        return self.pubsub.subscription(name, {**given_options(options, more), "topic": self})

    async def create_subscription(
        self, name: str, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Subscription:
        return await self.subscription(name, options, **more).create()

    async def get_subscriptions(self) -> list[Subscription]:
        stored = await self._session.use().subscriptions(self.name)
        return [self.subscription(each.name) for each in stored]

    # ------------------------------------------------------------------ publishing

    def set_publish_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Change batching, flow_control or enable_message_ordering; for what is published from now on.

        >>> topic.set_publish_options(batching={"max_messages": 500, "max_milliseconds": 5})
        """
        self._publisher.options = publisher_options(given_options(options, more), self._publisher.options)

    async def publish_message(
        self, data: bytes = b"", attributes: Mapping[str, str] | None = None, ordering_key: str | None = None
    ) -> str:
        """Publish a message; its id, once it is stored.

        Messages published in one turn of the event loop are stored in one step, in the order of the calls. With
        publisher flow control this waits, or raises ResourceExhaustedError, while too much is outstanding.

        >>> await topic.publish_message(data=b"paid", attributes={"order": "7"}, ordering_key="customer-1")
        """
        draft = _draft(data, attributes, ordering_key)
        if self._publisher.is_full(len(draft.data)):
            await self._publisher.room(len(draft.data))
        return await self._publisher.add(draft)

    def publish(
        self, data: bytes = b"", attributes: Mapping[str, str] | None = None, ordering_key: str | None = None
    ) -> asyncio.Future[str]:
        """Hand in a message without waiting; the future gives its id.

        Cheaper than publish_message where many are under way at once. Never waits: what flow control would make
        wait is refused with ResourceExhaustedError.

        >>> ids = await asyncio.gather(*[topic.publish(line) for line in lines])
        """
        draft = _draft(data, attributes, ordering_key)
        if self._publisher.is_full(len(draft.data)):
            self._publisher.refuse()
        return self._publisher.add(draft)

    async def publish_json(
        self, json_value: Any, attributes: Mapping[str, str] | None = None, ordering_key: str | None = None
    ) -> str:
        """Publish a value as JSON.

        >>> await topic.publish_json({"order": 7, "total": 12.5})
        """
        try:
            data = json.dumps(json_value).encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"Not a value that JSON can hold: {error}") from error
        return await self.publish_message(data, attributes, ordering_key)

    def resume_publishing(self, ordering_key: str) -> None:
        """Go on with a key whose publishing was paused by a failure."""
        self._publisher.resume(ordering_key)

    async def flush(self) -> None:
        """Until everything published through this Topic is stored, or refused."""
        await self._publisher.outbox.drain()


def _draft(data: bytes, attributes: Mapping[str, str] | None, ordering_key: str | None) -> Draft:
    if type(data) is not bytes:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"Message data must be bytes, not {type(data).__name__}")
        data = bytes(data)
    copied = NO_ATTRIBUTES
    if attributes:
        if not isinstance(attributes, Mapping):
            raise InvalidArgumentError("Message attributes must be a dictionary of strings")
        copied = dict(attributes)
    return Draft(data, copied, ordering_key or "")
