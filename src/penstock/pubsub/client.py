"""The class PubSub, from which a program gets topics and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from penstock.broker.limits import Limits
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.blocking_queue import MessageQueue, reserving
from penstock.engine.clock import Clock
from penstock.errors import InvalidArgumentError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from penstock.names import DEFAULT_PROJECT, SUBSCRIPTIONS, TOPICS, prefix
from penstock.pubsub.options import given_options
from penstock.pubsub.session import Session
from penstock.pubsub.snapshot import Snapshot
from penstock.pubsub.subscription import Subscription
from penstock.pubsub.topic import Topic

# In memory, a subscription holds as much as one of MessageQueue: 10,000 messages or 100 MB. On disk there is no limit.
DISK_LIMITS = Limits(queue_messages_max=0, queue_bytes_max=0)


class PubSub:
    """A message broker in this process.

    >>> async with PubSub() as pubsub:                     # in memory
    ...     topic = await pubsub.create_topic("orders")
    >>> async with PubSub(data="./my-data") as pubsub:     # on disk
    ...     topic = pubsub.topic("orders")
    >>> pubsub = PubSub(queue=MessageQueue.get_instance()) # over a shared queue

    `project_id` is the project of short names. `queue` is an existing queue, which `close` leaves open; several PubSubs
    can share it. Without a queue, the PubSub makes its own: in the folder `data`, or in memory if `data` is None.
    `limits` and `clock` are for its own queue. Invalid arguments raise InvalidArgumentError.
    """

    # Opens the journal in a folder. `penstock/__init__.py` sets it, because this package knows no journal.
    open_journal: ClassVar[Callable[[str | Path], Journal]]

    def __init__(
        self,
        project_id: str = DEFAULT_PROJECT,
        queue: MessageQueue | AsyncMessageQueue | None = None,
        data: str | Path | None = None,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        if type(project_id) is not str or not project_id or "/" in project_id:
            raise InvalidArgumentError("project_id must be a non-empty string without slashes")
        if queue is not None and (data is not None or limits is not None or clock is not None):
            raise InvalidArgumentError("Set either queue, or data, limits and clock, not both")
        self.project_id = project_id
        if queue is None:
            journal = MemoryJournal() if data is None else type(self).open_journal(data)
            default = Limits() if data is None else DISK_LIMITS
            async_queue = AsyncMessageQueue(journal, limits=reserving(limits or default), clock=clock)
        elif isinstance(queue, MessageQueue):
            async_queue = AsyncMessageQueue(queue.engine)
        elif isinstance(queue, AsyncMessageQueue):
            async_queue = queue
        else:
            raise InvalidArgumentError(f"queue must be a MessageQueue, not {type(queue).__name__}")
        self.session = Session(async_queue, project_id, owns_queue=async_queue is not queue)

    def __repr__(self) -> str:
        return f"<PubSub {self.project_id}>"

    async def close(self) -> None:
        """Close all subscriptions, store all publishes and answers, and close the queue if it is the PubSub's own."""
        await self.session.close()

    async def __aenter__(self) -> PubSub:
        self.session.loop("PubSub")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------ topics

    def topic(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Topic:
        """Return a handle on a topic, which need not exist. Options are those of publishing.

        >>> topic = pubsub.topic("orders", batching={"max_messages": 500})
        """
        return Topic(self, name, options, **more)

    async def create_topic(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Topic:
        """Create a topic. Options are those of Topic.create. Raise AlreadyExistsError if it exists.

        >>> topic = await pubsub.create_topic("orders", labels={"team": "billing"})
        """
        return await self.topic(name).create(options, **more)

    async def get_topics(self) -> list[Topic]:
        """Return the topics of this project."""
        names = [stored.name for stored in await self.session.use().topics()]
        return [self.topic(name) for name in names if name.startswith(prefix(self.project_id, TOPICS))]

    # ------------------------------------------------------------------ subscriptions and snapshots

    def subscription(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """Return a handle on a subscription, which need not exist. Options are those of `create` and `set_options`.

        >>> subscription = pubsub.subscription("billing", flow_control={"max_messages": 10})
        """
        return Subscription(self, name, options, **more)

    async def create_subscription(
        self, topic: Topic | str, name: str, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Subscription:
        """Create a subscription to a topic. Raise NotFoundError or AlreadyExistsError.

        >>> subscription = await pubsub.create_subscription("orders", "billing", ack_deadline_seconds=60)
        """
        return await self.subscription(name, {**given_options(options, more), "topic": topic}).create()

    async def get_subscriptions(self, topic: Topic | str | None = None) -> list[Subscription]:
        """Return the subscriptions of this project, or of one topic."""
        if topic is not None:
            return await (topic if isinstance(topic, Topic) else self.topic(topic)).get_subscriptions()
        names = [stored.name for stored in await self.session.use().subscriptions()]
        return [self.subscription(name) for name in names if name.startswith(prefix(self.project_id, SUBSCRIPTIONS))]

    def snapshot(self, name: str) -> Snapshot:
        """Return a handle on a snapshot, which need not exist."""
        return Snapshot(self, name)
