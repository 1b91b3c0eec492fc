"""PubSub: the entrance. It brings a queue, or is given one, and hands out topics and subscriptions.

A PubSub that was given a queue leaves it open, so that any number of them can work over the same one.
"""

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

LIMITS = Limits(queue_max_messages=0, queue_max_bytes=0)  # nothing that was accepted is discarded


class PubSub:
    """A message broker in this process.

    >>> async with PubSub() as pubsub:                     # in memory
    ...     topic = await pubsub.create_topic("orders")
    >>> async with PubSub(data="./my-data") as pubsub:     # on disk: what is there survives
    ...     topic = pubsub.topic("orders")
    >>> pubsub = PubSub(queue=MessageQueue.get_instance()) # over a queue that others use too
    """

    # How a folder becomes a journal. Which journals there are is not known here: `penstock/__init__.py` says.
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
            raise InvalidArgumentError("Give a queue, or data, limits and clock for one, not both")
        self.project_id = project_id
        if queue is None:
            journal = MemoryJournal() if data is None else type(self).open_journal(data)
            used = AsyncMessageQueue(journal, limits=reserving(limits or LIMITS), clock=clock)
        elif isinstance(queue, MessageQueue):
            used = AsyncMessageQueue(queue.engine)
        elif isinstance(queue, AsyncMessageQueue):
            used = queue
        else:
            raise InvalidArgumentError(f"queue must be a MessageQueue, not {type(queue).__name__}")
        self.session = Session(used, project_id, owns_queue=used is not queue)

    def __repr__(self) -> str:
        return f"<PubSub {self.project_id}>"

    async def close(self) -> None:
        """Close every open subscription, store what was published and answered, let go of the queue."""
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
        """A topic, which need not exist yet.

        >>> topic = pubsub.topic("orders", batching={"max_messages": 500})
        """
        return Topic(self, name, options, **more)

    async def create_topic(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Topic:
        """
        >>> topic = await pubsub.create_topic("orders", labels={"team": "billing"})
        """
        return await self.topic(name).create(options, **more)

    async def get_topics(self) -> list[Topic]:
        """The topics of this project."""
        names = [stored.name for stored in await self.session.use().topics()]
        return [self.topic(name) for name in names if name.startswith(prefix(self.project_id, TOPICS))]

    # ------------------------------------------------------------------ subscriptions and snapshots

    def subscription(self, name: str, options: Mapping[str, Any] | None = None, **more: Any) -> Subscription:
        """A subscription, which need not exist yet.

        >>> subscription = pubsub.subscription("billing", flow_control={"max_messages": 10})
        """
        return Subscription(self, name, options, **more)

    async def create_subscription(
        self, topic: Topic | str, name: str, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Subscription:
        """
        >>> subscription = await pubsub.create_subscription("orders", "billing", ack_deadline_seconds=60)
        """
        return await self.subscription(name, {**given_options(options, more), "topic": topic}).create()

    async def get_subscriptions(self, topic: Topic | str | None = None) -> list[Subscription]:
        """The subscriptions of this project, or of one topic."""
        if topic is not None:
            return await (topic if isinstance(topic, Topic) else self.topic(topic)).get_subscriptions()
        names = [stored.name for stored in await self.session.use().subscriptions()]
        return [self.subscription(name) for name in names if name.startswith(prefix(self.project_id, SUBSCRIPTIONS))]

    def snapshot(self, name: str) -> Snapshot:
        return Snapshot(self, name)
