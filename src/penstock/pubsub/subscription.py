"""Subscription: where messages are received.

The rule kept here: a handle, like Topic. What it reads with (listeners, flow control, what it holds) belongs to the
handle; what is delivered to whom, and when again, is decided by the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.broker.model import SECOND, SubscriptionOptions
from penstock.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from penstock.pubsub.acks import Acks
from penstock.pubsub.creating import call_timeout, stored_options_of, topic_to_read, with_full_names
from penstock.pubsub.events import Emitter, Listener
from penstock.pubsub.iteration import Iteration
from penstock.pubsub.listeners import Listeners
from penstock.pubsub.message import Message, Received
from penstock.pubsub.metadata import SubscriptionMetadata, changed_subscription, given_options, with_push_config
from penstock.pubsub.names import SUBSCRIPTIONS
from penstock.pubsub.options import ConsumerOptions, consumer_options
from penstock.pubsub.reader import Reader
from penstock.pubsub.snapshot import Snapshot
from penstock.pubsub.topic import Topic

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub


class Subscription(Emitter):
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
        super().__init__(pubsub.session)
        self.pubsub = pubsub
        self.name = self._session.name(SUBSCRIPTIONS, name)
        self._given = given_options(options, more)
        self.options = consumer_options(self._given, ConsumerOptions())
        self.acks = Acks(self, self._session)
        self.metadata: SubscriptionMetadata | None = None  # as last seen by create, get_metadata or set_metadata
        self._readers: dict[Reader, None] = {}  # of listeners and of `async for`, in the order of opening
        self._listening: Reader | None = None  # the one for listeners

    def __repr__(self) -> str:
        return f"<Subscription {self.name}>"

    @property
    def topic(self) -> Topic | None:
        """The topic it reads, or will read; still named after that was deleted."""
        if self._session.queue.subscription_exists(self.name):
            return self.pubsub.topic(self._session.queue.subscription(self.name).topic)
        given = self._given.get("topic")
        return given if isinstance(given, Topic) or given is None else self.pubsub.topic(given)

    @property
    def is_open(self) -> bool:
        """Whether it is listening for messages."""
        return any(not reader.closing for reader in self._readers)

    @property
    def detached(self) -> bool:
        """Whether its topic was deleted."""
        queue = self._session.queue
        return queue.subscription_exists(self.name) and queue.subscription(self.name).detached

    # ------------------------------------------------------------------ the subscription

    async def create(self, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """Create it, with the options it was made with and these.

        >>> await subscription.create(topic="orders", filter='attributes.kind = "new"')
        """
        given = {**self._given, **given_options(options, more)}
        consumer = consumer_options(given, self.options)
        queue = self._session.use()
        topic, stored = topic_to_read(self._session, given), stored_options_of(self._session, given)
        async with asyncio.timeout(call_timeout(given)):
            self.metadata = SubscriptionMetadata.of(await queue.create_subscription(self.name, topic, stored))
        self._given, self.options = given, consumer
        return self

    async def delete(self) -> None:
        """Close it, then remove it with all it has not delivered."""
        await self.close()
        await self._session.use().delete_subscription(self.name)

    async def exists(self) -> bool:
        return self._session.use().subscription_exists(self.name)

    async def get(self, *, auto_create: bool = False) -> Subscription:
        """This subscription with its metadata; with `auto_create`, made if it is not there."""
        try:
            await self.get_metadata()
        except NotFoundError:
            if not auto_create:
                raise
            await self.create()
        return self

    async def get_metadata(self) -> SubscriptionMetadata:
        stored = self._session.use().subscription(self.name)
        self.metadata = SubscriptionMetadata.of(stored)
        return self.metadata

    async def set_metadata(self, changes: Mapping[str, Any] | None = None, **more: Any) -> SubscriptionMetadata:
        """Change what the subscription keeps; the rest stays.

        >>> await subscription.set_metadata(ack_deadline_seconds=60, labels={"team": "billing"})
        """
        given = given_options(changes, more)
        return await self._change(changed_subscription(self._stored(), with_full_names(self._session, given)))

    async def modify_push_config(self, push_config: Mapping[str, str]) -> SubscriptionMetadata:
        """Store where messages should be pushed to; this API itself pushes nothing."""
        return await self._change(with_push_config(self._stored(), push_config))

    def _stored(self) -> SubscriptionOptions:
        return self._session.use().subscription(self.name).options

    async def _change(self, options: SubscriptionOptions) -> SubscriptionMetadata:
        queue = self._session.use()
        self.metadata = SubscriptionMetadata.of(await queue.change_subscription(self.name, options))
        return self.metadata

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
            self._session.queue.subscription(self.name)  # what is not there cannot be opened
            self._listening = Listeners(self, self._session).reader
            self._enter(self._listening)
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

    def _enter(self, reader: Reader) -> None:
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

    async def __aiter__(self) -> AsyncIterator[Message]:
        self._session.use().subscription(self.name)
        iteration = Iteration(self, self._session)
        reader = iteration.reader
        self._enter(reader)
        try:
            while (message := await iteration.next()) is not None:
                yield message
        finally:
            iteration.leave_last()
            if not reader.closing:
                await reader.stop()
                self.leave(reader)

    async def pull(self, max_messages: int = 100, *, wait_seconds: float = 0) -> list[Message]:
        """Up to `max_messages` that are ready now; with `wait_seconds`, wait so long for the first.

        Not counted by flow control and not extended: they are yours until their deadline.

        >>> for message in await subscription.pull(10):
        ...     message.ack()
        """
        queue = self._session.use()
        if type(max_messages) is not int or max_messages < 1:
            raise InvalidArgumentError("max_messages must be a whole number, at least 1")
        until = queue.clock.now() + int(wait_seconds * SECOND)
        while True:
            since = queue.revision(self.name)
            lease = self.options.lease_seconds(since.options.lease_seconds)
            deliveries = await queue.pull(self.name, max_messages, lease_seconds=lease)
            left = (until - queue.clock.now()) / SECOND
            if deliveries or left <= 0 or not await queue.wait_for_messages(self.name, left, since):
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
            await queue.seek_to_time(self.name, _nanoseconds(target))
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
            reader.changed.wake()


def _nanoseconds(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
