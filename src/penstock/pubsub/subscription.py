"""The class Subscription, with which a program receives messages.

Listeners, flow control and held messages belong to the handle. The queue decides about deliveries and redeliveries.
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
from penstock.names import SUBSCRIPTIONS, TOPICS, check_new_name, prefix
from penstock.pubsub.acks import Acks
from penstock.pubsub.events import Emitter, Listener
from penstock.pubsub.listeners import Listeners
from penstock.pubsub.message import Message, Received
from penstock.pubsub.options import (
    ConsumerOptions,
    SubscriptionMetadata,
    call_timeout,
    changed_subscription,
    consumer_options,
    given_options,
    pull_options,
)
from penstock.pubsub.reader import Reader, messages
from penstock.pubsub.resource import Resource
from penstock.pubsub.snapshot import Snapshot
from penstock.pubsub.topic import Topic

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub


class Subscription(Resource[SubscriptionMetadata], Emitter):
    """A handle on a subscription of a PubSub.

    >>> subscription = topic.subscription("billing", ack_deadline_seconds=30)
    >>> await subscription.create()
    >>> subscription.on("message", lambda message: message.ack())
    >>> subscription.open()
    >>> await subscription.close()

    Or receive one message after the other:

    >>> async for message in subscription:
    ...     message.ack()
    """

    def __init__(self, pubsub: PubSub, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        Resource.__init__(self, pubsub, SUBSCRIPTIONS, name)
        Emitter.__init__(self, self._session)
        self._given = given_options(options, more)
        self.options = consumer_options(self._given, ConsumerOptions())
        self.acks = Acks(self, self._session)
        self._readers: dict[Reader, None] = {}  # readers of listeners and `async for`, in the order of opening
        self._listening: Reader | None = None  # the reader of listeners

    @property
    def topic(self) -> Topic | None:
        """The topic of the subscription, also if the topic was deleted. None: unknown before `create`."""
        stored = self.stored()
        topic = stored.topic if stored is not None else self._given.get("topic")
        return topic if isinstance(topic, Topic) or topic is None else self.pubsub.topic(topic)

    @property
    def is_open(self) -> bool:
        """Whether it receives messages, with listeners or `async for`."""
        return any(not reader.closing for reader in self._readers)

    @property
    def detached(self) -> bool:
        """Whether the topic was deleted."""
        stored = self.stored()
        return stored is not None and stored.detached

    def stored(self) -> StoredSubscription | None:
        return lookups.find_subscription(self._session.queue.engine, self.name)

    # ------------------------------------------------------------------ the subscription

    async def create(self, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """Create the subscription, with the options of the handle and these.

        Raise AlreadyExistsError if it exists, NotFoundError if its topic does not. If no topic is named and the project
        has exactly one, that topic is used.

        >>> await subscription.create(topic="orders", filter='attributes.kind = "new"')
        """
        given = {**self._given, **given_options(options, more)}
        consumer = consumer_options(given, self.options)
        check_new_name(self.name, SUBSCRIPTIONS)
        queue, topic = self._session.use(), await self._topic_to_read(given.get("topic"))
        kept = changed_subscription(SubscriptionOptions(), self._with_full_names(given))
        async with asyncio.timeout(consumer.call_timeout_seconds):
            self.metadata = SubscriptionMetadata.of(await queue.create_subscription(self.name, topic, kept))
        self._given, self.options = given, consumer
        return self

    async def _topic_to_read(self, given: object) -> str:
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
        """Return the options with the full name of a dead letter topic, which may be a short name or a Topic."""
        policy = given.get("dead_letter_policy")
        if not isinstance(policy, Mapping) or not policy.get("dead_letter_topic"):
            return given
        full = self._full_topic(policy["dead_letter_topic"])
        return {**given, "dead_letter_policy": {**policy, "dead_letter_topic": full}}

    async def delete(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Close the subscription, then delete it with its messages. Option: `timeout`, in milliseconds."""
        async with call_timeout(options, more):
            await self.close()
            await self._session.use().delete_subscription(self.name)

    async def _find(self) -> SubscriptionMetadata | None:
        stored = await self._session.use().find_subscription(self.name)
        return SubscriptionMetadata.of(stored) if stored is not None else None

    async def set_metadata(self, changes: Mapping[str, Any] | None = None, **more: Any) -> SubscriptionMetadata:
        """Change stored options. Options that are not given stay as they are.

        >>> await subscription.set_metadata(ack_deadline_seconds=60, labels={"team": "billing"})
        """
        queue, given = self._session.use(), self._with_full_names(given_options(changes, more))
        options = changed_subscription(lookups.subscription(queue.engine, self.name).options, given)
        self.metadata = SubscriptionMetadata.of(await queue.change_subscription(self.name, options))
        return self.metadata

    async def modify_push_config(
        self, push_config: Mapping[str, str], options: Mapping[str, Any] | None = None, **more: Any
    ) -> SubscriptionMetadata:
        """Store a push configuration. This API does not push messages."""
        async with call_timeout(options, more):
            return await self.set_metadata(push_config=push_config)

    def set_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Change the options of this handle, from the next pull on, and the defaults of a later `create`.

        >>> subscription.set_options(flow_control={"max_messages": 500}, ack_deadline_seconds=30)
        """
        given = given_options(options, more)
        self.options = consumer_options(given, self.options)
        self._given.update(given)
        self._wake()

    # ------------------------------------------------------------------ receiving

    def open(self) -> None:
        """Start to pass messages to the listeners of `message`. Raise NotFoundError if the subscription does not exist.

        >>> subscription.on("message", listener)  # a function or a coroutine function
        >>> subscription.open()
        """
        self._session.loop("Subscription.open()")
        if self._listening is None:
            lookups.subscription(self._session.queue.engine, self.name)  # raises NotFoundError
            self._listening = Listeners(self, self._session).reader
            self.enter(self._listening)
        elif self._listening.closing:
            raise FailedPreconditionError(f"Subscription is being closed, await close() first: {self.name}")

    async def close(self) -> None:
        """Stop receiving. `close_options` decide whether messages in listeners are waited for or returned.

        Afterwards no task of this handle runs, all answers are stored, and `close` was emitted. A listener may call
        this. Closing then does not wait for that listener.
        """
        closing = self.begin_closing()
        if closing:
            await asyncio.wait(closing)

    def begin_closing(self) -> list[asyncio.Task[None]]:
        """Start to close every reader. Return the closing tasks."""
        return [reader.begin_closing() for reader in self._readers]

    def enter(self, reader: Reader) -> None:
        """Register a reader that starts."""
        self._readers[reader] = None
        self._session.streams[self] = None
        self.remark("open")

    def leave(self, reader: Reader) -> None:
        """Remove a reader that has ended."""
        self._readers.pop(reader, None)
        if reader is self._listening:
            self._listening = None
        if not self._readers and self._session.streams.pop(self, self) is None:
            self.remark("closed")
            self.emit("close")

    def __aiter__(self) -> AsyncIterator[Message]:
        return messages(self, self._session)

    async def pull(self, options: Mapping[str, Any] | int | None = None, **more: Any) -> list[Message]:
        """Return at most `max_messages` (default 100) ready messages. `wait_seconds` is the wait for the first one.

        Flow control does not count these messages, and their deadlines are not extended.

        >>> for message in await subscription.pull(max_messages=10):
        ...     message.ack()
        """
        queue = self._session.use()
        given = options if options is None or isinstance(options, Mapping) else {"max_messages": options}
        chosen = pull_options(given_options(given, more))
        lease = self.options.lease_seconds(lookups.subscription(queue.engine, self.name).options.lease_seconds)
        async with asyncio.timeout(chosen.timeout_seconds):
            deliveries = await queue.pull(
                self.name, chosen.max_messages, lease_seconds=lease, wait_seconds=chosen.wait_seconds
            )
        return [Received(delivery, self.acks, queue.clock.now()) for delivery in deliveries]

    # ------------------------------------------------------------------ replay

    async def seek(
        self, target: str | Snapshot | datetime, options: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """Seek to a snapshot, or to a time: earlier messages count as acked, later ones are delivered again.

        Raise InvalidArgumentError for a time without a zone, NotFoundError for an unknown snapshot.

        >>> await subscription.seek(datetime.now(UTC) - timedelta(hours=1))
        """
        queue = self._session.use()
        held = [(reader.leases, message) for reader in self._readers for message in reader.leases.held]
        if isinstance(target, datetime) and target.tzinfo is None:
            raise InvalidArgumentError("seek() needs a datetime with a time zone")
        async with call_timeout(options, more):
            if isinstance(target, datetime):
                await queue.seek_to_time(self.name, nanoseconds(target))
            else:
                snapshot = target if isinstance(target, Snapshot) else Snapshot(self.pubsub, target)
                await queue.seek_to_snapshot(self.name, snapshot.name)
        for leases, message in held:  # not the messages that were delivered meanwhile
            leases.release(message)

    async def create_snapshot(self, name: str, labels: dict[str, str] | None = None) -> Snapshot:
        """Save the state of this subscription as a snapshot."""
        return await self.snapshot(name).create(labels)

    def snapshot(self, name: str) -> Snapshot:
        """Return a handle on a snapshot of this subscription, which need not exist."""
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
