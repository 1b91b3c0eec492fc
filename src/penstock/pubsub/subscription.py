"""Subscription: where messages are received.

What it reads with (listeners, flow control, what it holds) belongs to the handle; what is delivered to whom, and when
again, is decided by the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.broker.model import SubscriptionOptions
from penstock.engine import lookups
from penstock.engine.views import SubscriptionMetadata as StoredSubscription
from penstock.engine.views import nanoseconds
from penstock.errors import FailedPreconditionError, InvalidArgumentError
from penstock.names import SUBSCRIPTIONS, TOPICS, prefix
from penstock.pubsub.acks import Acks
from penstock.pubsub.events import Emitter, Listener
from penstock.pubsub.listeners import Listeners
from penstock.pubsub.message import Message, Received
from penstock.pubsub.options import (
    ConsumerOptions,
    SubscriptionMetadata,
    changed_subscription,
    consumer_options,
    given_options,
)
from penstock.pubsub.reader import Reader, messages
from penstock.pubsub.resource import Resource
from penstock.pubsub.snapshot import Snapshot
from penstock.pubsub.topic import Topic

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub


class Subscription(Resource[SubscriptionMetadata], Emitter):
    """A subscription of a PubSub.

    >>> subscription = topic.subscription("billing", ack_deadline_seconds=30)
    >>> await subscription.create()
    >>> subscription.on("message", lambda message: message.ack())
    >>> subscription.open()
    >>> await subscription.close()

    Or, one message after the other:

    >>> async for message in subscription:
    ...     message.ack()
    """

    def __init__(self, pubsub: PubSub, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        Resource.__init__(self, pubsub, SUBSCRIPTIONS, name)
        Emitter.__init__(self, self._session)
        self._given = given_options(options, more)
        self.options = consumer_options(self._given, ConsumerOptions())
        self.acks = Acks(self, self._session)
        self._readers: dict[Reader, None] = {}  # of listeners and of `async for`, in the order of opening
        self._listening: Reader | None = None  # the one for listeners

    @property
    def topic(self) -> Topic | None:
        """The topic it reads, or will read; still named after that was deleted."""
        stored = self.stored()
        topic = stored.topic if stored is not None else self._given.get("topic")
        return topic if isinstance(topic, Topic) or topic is None else self.pubsub.topic(topic)

    @property
    def is_open(self) -> bool:
        """Whether it is listening for messages."""
        return any(not reader.closing for reader in self._readers)

    @property
    def detached(self) -> bool:
        """Whether its topic was deleted."""
        stored = self.stored()
        return stored is not None and stored.detached

    def stored(self) -> StoredSubscription | None:
        """What the queue has under its name now, if anything."""
        return lookups.find_subscription(self._session.queue.engine, self.name)

    # ------------------------------------------------------------------ the subscription

    async def create(self, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """Create it, with the options it was made with and these.

        >>> await subscription.create(topic="orders", filter='attributes.kind = "new"')
        """
        given = {**self._given, **given_options(options, more)}
        consumer = consumer_options(given, self.options)
        queue, topic = self._session.use(), await self._topic_to_read(given.get("topic"))
        kept = changed_subscription(SubscriptionOptions(), self._with_full_names(given))
        async with asyncio.timeout(consumer.call_timeout_seconds):
            self.metadata = SubscriptionMetadata.of(await queue.create_subscription(self.name, topic, kept))
        self._given, self.options = given, consumer
        return self

    async def _topic_to_read(self, given: object) -> str:
        """Where no topic is named and the project has exactly one, that one is meant."""
        if given is not None:
            return self._full_topic(given)
        project = prefix(self._session.project, TOPICS)
        topics = [stored.name for stored in await self._session.queue.topics() if stored.name.startswith(project)]
        if len(topics) != 1:
            raise InvalidArgumentError(f"Name the topic to subscribe to: there are {len(topics)} in this project")
        return topics[0]

    def _full_topic(self, topic: object) -> str:
        return topic.name if isinstance(topic, Topic) else self._session.name(TOPICS, topic)

    def _with_full_names(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A dead letter topic may be given as a name, with its project, or as a Topic."""
        policy = given.get("dead_letter_policy")
        if not isinstance(policy, Mapping) or not policy.get("dead_letter_topic"):
            return given
        full = self._full_topic(policy["dead_letter_topic"])
        return {**given, "dead_letter_policy": {**policy, "dead_letter_topic": full}}

    async def delete(self) -> None:
        """Close it, then remove it with all it has not delivered."""
        await self.close()
        await self._session.use().delete_subscription(self.name)

    async def _find(self) -> SubscriptionMetadata | None:
        found = await self._session.use().find_subscription(self.name)
        return SubscriptionMetadata.of(found) if found is not None else None

    async def set_metadata(self, changes: Mapping[str, Any] | None = None, **more: Any) -> SubscriptionMetadata:
        """Change what the subscription keeps; the rest stays.

        >>> await subscription.set_metadata(ack_deadline_seconds=60, labels={"team": "billing"})
        """
        queue, given = self._session.use(), self._with_full_names(given_options(changes, more))
        options = changed_subscription(lookups.subscription(queue.engine, self.name).options, given)
        self.metadata = SubscriptionMetadata.of(await queue.change_subscription(self.name, options))
        return self.metadata

    async def modify_push_config(self, push_config: Mapping[str, str]) -> SubscriptionMetadata:
        """Store where messages should be pushed to; this API itself pushes nothing."""
        return await self.set_metadata(push_config=push_config)

    def set_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Change how this handle reads, from the next pull on; and what a later `create` takes.

        >>> subscription.set_options(flow_control={"max_messages": 500}, ack_deadline_seconds=30)
        """
        given = given_options(options, more)
        self.options = consumer_options(given, self.options)
        self._given.update(given)
        self._wake()

    # ------------------------------------------------------------------ receiving

    def open(self) -> None:
        """Start to listen: messages go to the listeners of `message`.

        >>> subscription.on("message", listener)  # a function or a coroutine function
        >>> subscription.open()
        """
        self._session.loop("Subscription.open()")
        if self._listening is None:
            lookups.subscription(self._session.queue.engine, self.name)  # what is not there cannot be opened
            self._listening = Listeners(self, self._session).reader
            self.enter(self._listening)
        elif self._listening.closing:
            raise FailedPreconditionError(f"Subscription is being closed, await close() first: {self.name}")

    async def close(self) -> None:
        """Stop listening; wait for messages in the hands of listeners, or hand them back, as `close_options` say.

        Afterwards nothing of this subscription runs any more, all answers are stored, and `close` was emitted. A
        listener may call it too: it is then not waited for.
        """
        closing = self.begin_closing()
        if closing:
            await asyncio.wait(closing)

    def begin_closing(self) -> list[asyncio.Task[None]]:
        """Let every reader end; the tasks in which they do."""
        return [reader.begin_closing() for reader in self._readers]

    def enter(self, reader: Reader) -> None:
        """A reader begins."""
        self._readers[reader] = None
        self._session.streams[self] = None
        self.remark("open")

    def leave(self, reader: Reader) -> None:
        """A reader has ended."""
        self._readers.pop(reader, None)
        if reader is self._listening:
            self._listening = None
        if not self._readers and self._session.streams.pop(self, self) is None:
            self.remark("closed")
            self.emit("close")

    def __aiter__(self) -> AsyncIterator[Message]:
        return messages(self, self._session)

    async def pull(self, max_messages: int = 100, *, wait_seconds: float = 0) -> list[Message]:
        """Up to `max_messages` that are ready now; with `wait_seconds`, wait so long for the first.

        Not counted by flow control and not extended: they are yours until their deadline.

        >>> for message in await subscription.pull(10):
        ...     message.ack()
        """
        queue = self._session.use()
        if type(max_messages) is not int or max_messages < 1:
            raise InvalidArgumentError("max_messages must be a whole number, at least 1")
        lease = self.options.lease_seconds(lookups.subscription(queue.engine, self.name).options.lease_seconds)
        deliveries = await queue.pull(self.name, max_messages, lease_seconds=lease, wait_seconds=wait_seconds)
        return [Received(delivery, self.acks, queue.clock.now()) for delivery in deliveries]

    # ------------------------------------------------------------------ replay

    async def seek(self, target: str | Snapshot | datetime) -> None:
        """Go to a snapshot, or to a moment: what was published before it counts as acked, the rest does not.

        >>> await subscription.seek(datetime.now(UTC) - timedelta(hours=1))
        """
        queue = self._session.use()
        void = [(reader.leases, message) for reader in self._readers for message in reader.leases.held]
        if isinstance(target, datetime):
            if target.tzinfo is None:
                raise InvalidArgumentError("seek() needs a datetime with a time zone")
            await queue.seek_to_time(self.name, nanoseconds(target))
        else:
            snapshot = target if isinstance(target, Snapshot) else Snapshot(self.pubsub, target)
            await queue.seek_to_snapshot(self.name, snapshot.name)
        for leases, message in void:  # what was delivered meanwhile is not
            leases.release(message)

    async def create_snapshot(self, name: str, labels: dict[str, str] | None = None) -> Snapshot:
        return await self.snapshot(name).create(labels)

    def snapshot(self, name: str) -> Snapshot:
        return Snapshot(self.pubsub, name, self)

    # ------------------------------------------------------------------ events

    def report(self, error: Exception) -> None:
        self.emit("error", error)

    def remark(self, text: str) -> None:
        self.emit("debug", text)

    def _add(self, event: str, listener: Listener, call: Listener) -> None:
        super()._add(event, listener, call)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()
