"""The class Topic, with which a program publishes messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.broker.model import NO_ATTRIBUTES, Draft, TopicOptions
from penstock.engine import lookups
from penstock.engine.options import TOPIC
from penstock.errors import InvalidArgumentError
from penstock.names import TOPICS, check_new_name
from penstock.pubsub.options import PublisherOptions, TopicMetadata, call_timeout, given_options, publisher_options
from penstock.pubsub.publisher import Publisher
from penstock.pubsub.resource import Resource

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub
    from penstock.pubsub.subscription import Subscription


class Topic(Resource[TopicMetadata]):
    """A handle on a topic of a PubSub.

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
        """Create the topic. Options: labels, message_retention_duration. Raise AlreadyExistsError if it exists.

        >>> await topic.create(labels={"team": "billing"}, message_retention_duration=86400)
        """
        chosen = TOPIC.read(given_options(options, more), TopicOptions())
        check_new_name(self.name, TOPICS)
        self.metadata = TopicMetadata.of(await self._session.use().create_topic(self.name, chosen))
        return self

    async def delete(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Delete the topic with its messages. Its subscriptions stay, detached, and open ones emit an error.

        Raise NotFoundError if it does not exist. Option: `timeout`, in milliseconds.
        """
        async with call_timeout(options, more):
            await self._session.use().delete_topic(self.name)

    async def set_metadata(self, changes: Mapping[str, Any] | None = None, **more: Any) -> TopicMetadata:
        """Change labels or message_retention_duration. Options that are not given stay as they are.

        >>> await topic.set_metadata(labels={"team": "shipping"})
        """
        queue = self._session.use()
        options = TOPIC.read(given_options(changes, more), lookups.topic(queue.engine, self.name).options)
        self.metadata = TopicMetadata.of(await queue.change_topic(self.name, options))
        return self.metadata

    async def _find(self) -> TopicMetadata | None:
        stored = await self._session.use().find_topic(self.name)
        return TopicMetadata.of(stored) if stored is not None else None

    def subscription(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """Return a handle on a subscription to this topic, which need not exist."""
        return self.pubsub.subscription(name, {**given_options(options, more), "topic": self})

    async def create_subscription(
        self, name: str, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Subscription:
        """Create a subscription to this topic. Options are those of Subscription.create."""
        return await self.subscription(name, options, **more).create()

    async def get_subscriptions(self) -> list[Subscription]:
        """Return the subscriptions to this topic."""
        stored = await self._session.use().subscriptions(self.name)
        return [self.subscription(view.name) for view in stored]

    # ------------------------------------------------------------------ publishing

    def set_publish_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Change batching, flow_control or enable_message_ordering for later publishes.

        >>> topic.set_publish_options(batching={"max_messages": 500, "max_milliseconds": 5})
        """
        self._publisher.options = publisher_options(given_options(options, more), self._publisher.options)

    async def publish_message(
        self, data: bytes = b"", attributes: Mapping[str, str] | None = None, ordering_key: str | None = None
    ) -> str:
        """Publish a message and return its id, once it is stored.

        Messages published in one turn of the event loop are stored in one step, in the order of the calls. If publisher
        flow control is set, the call waits, or raises ResourceExhaustedError, while its limits are exceeded.

        >>> await topic.publish_message(data=b"paid", attributes={"order": "7"}, ordering_key="customer-1")
        """
        draft = _draft(data, attributes, ordering_key)
        if self._publisher.is_full(len(draft.data)):
            await self._publisher.room(len(draft.data))
        return await self._publisher.add(draft)

    def publish(
        self, data: bytes = b"", attributes: Mapping[str, str] | None = None, ordering_key: str | None = None
    ) -> asyncio.Future[str]:
        """Publish a message without waiting. The future's result is its id, once it is stored.

        Cheaper than publish_message for many messages at once. Raise ResourceExhaustedError where publish_message
        would wait for flow control.

        >>> ids = await asyncio.gather(*[topic.publish(line) for line in lines])
        """
        draft = _draft(data, attributes, ordering_key)
        if self._publisher.is_full(len(draft.data)):
            self._publisher.refuse()
        return self._publisher.add(draft)

    async def publish_json(
        self, json_value: Any, attributes: Mapping[str, str] | None = None, ordering_key: str | None = None
    ) -> str:
        """Publish a value as JSON and return the message id. Raise InvalidArgumentError if JSON cannot encode it.

        >>> await topic.publish_json({"order": 7, "total": 12.5})
        """
        try:
            data = json.dumps(json_value).encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"The value cannot be encoded as JSON: {error}") from error
        return await self.publish_message(data, attributes, ordering_key)

    def resume_publishing(self, ordering_key: str) -> None:
        """Resume publishing with an ordering key that a failure has paused."""
        self._publisher.resume(ordering_key)

    async def flush(self) -> None:
        """Wait until all messages published with this handle are stored or refused."""
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
