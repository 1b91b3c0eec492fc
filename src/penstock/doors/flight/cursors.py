"""Named cursors: subscriptions without pulls, which protect the unread messages of a reader from retention.

A consumer has one cursor in a topic. The first request that opens the cursor sets its offset, and the cursor only
moves forward. Its subscription is marked, so that an ordinary subscription is never taken for a cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from penstock.broker.model import SubscriptionOptions
from penstock.doors.consumers import Batch, Consumer
from penstock.doors.flight import codec
from penstock.engine.port import Queue, SubscriptionMetadata, TopicMetadata, Topics
from penstock.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError, NotFoundError

MARK = "flight.cursor"  # the extra that holds the name of the consumer
EXPIRATION_SECONDS = 31 * 86400
BATCHES_MAX = 10_000


class Cursor(NamedTuple):
    consumer: str
    topic: str
    subscription: str  # the name of a new subscription
    other: str = ""  # the name if the consumer read one topic before and several now, or the reverse


class Held(NamedTuple):
    cursor: SubscriptionMetadata
    opened: bool = False
    replaced: bool = False  # the cursor was in a topic that has been deleted, and starts again in the new topic


class Cursors:
    def __init__(self, queue: Queue, names: codec.Names) -> None:
        self._queue = queue
        self._names = names
        self._batches: dict[int, Batch] = {}  # the last step of each cursor since the start, by subscription

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        consumer = subscription.options.extras.get(MARK)
        if consumer is None or subscription.detached:
            return ()
        return (Consumer("cursor", consumer, batch=self._batches.get(subscription.number)),)

    async def open(self, asked: codec.CursorMove) -> dict[str, Any]:
        held = {cursor.topic: await self.hold(cursor, offset) for cursor, offset in self._read_move(asked)}
        answer: dict[str, Any] = {
            "offsets": {topic: await self._offset(cursor_state.cursor) for topic, cursor_state in held.items()},
            "opened": [topic for topic, cursor_state in held.items() if cursor_state.opened],
        }
        replaced = [topic for topic, cursor_state in held.items() if cursor_state.replaced]
        return answer | ({"replaced": replaced} if replaced else {})

    async def advance(self, asked: codec.CursorMove) -> dict[str, Any]:
        identities = self._names.topics(asked.identities)
        offsets = {}
        for cursor, offset in self._read_move(asked):
            identity = identities.get(cursor.topic)
            topic = await self._queue.find_topic(cursor.topic) if identity else None
            if identity and (topic is None or topic.identity != identity):
                continue  # the topic of the reader was deleted
            offsets[cursor.topic] = await self._advance(cursor, offset)
        return {"offsets": offsets}

    async def list(self, asked: codec.CursorList) -> dict[str, Any]:
        """Return the cursors of one consumer, or of all."""
        cursors = []
        for cursor in sorted(await self._queue.subscriptions(), key=attrgetter("name")):
            consumer = cursor.options.extras.get(MARK)
            if consumer is not None and not cursor.detached and asked.name in ("", consumer):
                lag = (await self._queue.backlog(cursor.name)).messages
                offset = await self._offset(cursor)
                cursors.append({"name": consumer, "topic": cursor.topic, "offset": offset, "lag": lag})
        return {"cursors": cursors}

    async def delete(self, asked: codec.CursorDelete) -> dict[str, Any]:
        return {"deleted": await self.release(asked.name)}

    def _read_move(self, asked: codec.CursorMove) -> Sequence[tuple[Cursor, int]]:
        many = asked.many or len(asked.offsets) > 1
        cursors = []
        for topic, offset in self._names.topics(asked.offsets).items():
            name, other = (codec.cursor_name(asked.name, topic, many=choice) for choice in (many, not many))
            cursors.append((Cursor(asked.name, topic, name, other), offset))
        return cursors

    async def hold(self, cursor: Cursor, offset: int) -> Held:
        """Return the cursor, and create it at the offset if it is missing.

        If its topic was deleted and created again, the cursor starts at the head of the new topic.
        """
        subscription, replaced = await self._find(cursor)
        if subscription is None:
            first = (await existing_topic(self._queue, cursor.topic)).head if replaced else offset
            subscription, opened = await self._create(cursor, first)
            return Held(subscription, opened, replaced)
        await self._queue.commit()  # the request that created the cursor may still wait for its commit
        return Held(subscription)

    async def release(self, consumer: str) -> int:
        names = [
            reader.name for reader in await self._queue.subscriptions() if reader.options.extras.get(MARK) == consumer
        ]
        for name in names:
            await self._queue.delete_subscription(name)
        return len(names)

    async def _advance(self, cursor: Cursor, offset: int) -> int:
        subscription, _ = await self._find(cursor)
        if subscription is None:
            subscription, _ = await self._create(cursor, offset)
        await self._check_offset(cursor.topic, offset)
        now = await self._offset(subscription)
        if offset > now:
            await self._queue.seek_to_offset(subscription.name, offset)
            self._note(subscription, now, offset)
        elif offset == now:
            await self._queue.touch_subscription(subscription.name)  # the cursor is in use, and does not expire
        await self._queue.commit()
        return await self._offset(subscription)

    def _note(self, cursor: SubscriptionMetadata, first: int, until: int) -> None:
        """Record the last step of a cursor. Forget the oldest step if there are too many."""
        self._batches.pop(cursor.number, None)
        self._batches[cursor.number] = Batch(first, until, self._queue.clock.now())
        if len(self._batches) > BATCHES_MAX:
            del self._batches[next(iter(self._batches))]

    async def _find(self, cursor: Cursor) -> tuple[SubscriptionMetadata | None, bool]:
        """Return the cursor under either name, and whether there was one in a topic that has been deleted.

        Delete the cursor in the deleted topic and, of two cursors in the same topic, the one that is behind.
        """
        names = [name for name in (cursor.subscription, cursor.other) if name]
        named = [await self._queue.find_subscription(name) for name in names]
        found = [
            reader for reader in named if reader is not None and reader.options.extras.get(MARK) == cursor.consumer
        ]
        detached = [reader for reader in found if reader.detached]
        live = [reader for reader in found if not reader.detached and reader.topic == cursor.topic]
        offsets = [await self._offset(reader) for reader in live]
        kept = live[offsets.index(max(offsets))] if live else None
        for reader in (*detached, *live):
            if reader is not kept:
                await self._queue.delete_subscription(reader.name)
        return kept, any(reader.topic == cursor.topic for reader in detached)

    async def _create(self, cursor: Cursor, offset: int) -> tuple[SubscriptionMetadata, bool]:
        """Create the cursor. Return it and whether it is new: another request may have created it meanwhile."""
        subscription = await self._queue.find_subscription(cursor.subscription)
        if subscription is None:
            await self._check_offset(cursor.topic, offset)
            options = SubscriptionOptions(
                retention_seconds=0, expiration_seconds=EXPIRATION_SECONDS, extras={MARK: cursor.consumer}
            )
            try:
                new = await self._queue.create_subscription_at(cursor.subscription, cursor.topic, offset, options)
                return new, True
            except AlreadyExistsError:
                subscription = await self._queue.find_subscription(cursor.subscription)
        if subscription is None:
            raise NotFoundError(f"Subscription not found: {cursor.subscription}")
        if MARK not in subscription.options.extras:
            raise FailedPreconditionError(f"Subscription {subscription.name} is not a cursor")
        if subscription.topic != cursor.topic or subscription.options.extras[MARK] != cursor.consumer:
            raise FailedPreconditionError(f"Cursor {subscription.name} reads another topic: {subscription.topic}")
        return subscription, False

    async def _check_offset(self, topic: str, offset: int) -> None:
        tail = (await existing_topic(self._queue, topic)).tail
        if not 0 <= offset <= tail:
            raise InvalidArgumentError(f"Topic {topic} ends at offset {tail}; a cursor cannot be at {offset}")

    async def _offset(self, cursor: SubscriptionMetadata) -> int:
        """Return the offset of a cursor. It follows from the backlog, because nothing is outstanding."""
        topic, backlog = await existing_topic(self._queue, cursor.topic), await self._queue.backlog(cursor.name)
        return topic.tail - backlog.messages


async def existing_topic(queue: Topics, key: str | int) -> TopicMetadata:
    topic = await queue.find_topic(key)
    if topic is None:
        raise NotFoundError(f"Topic not found: {key}")
    return topic
