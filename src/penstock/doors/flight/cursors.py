"""Named cursors: subscriptions that nobody pulls, which say how far a reader of the log has come.

The rule kept here: a consumer has one cursor in a topic. It is pinned by the first who opens it and goes forward only.
It holds what it has not passed, it is marked as what it is, and a subscription that somebody pulls is never taken for
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.model import SubscriptionOptions
from penstock.doors.flight.letters import CursorAt, CursorSeen
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.views import SubscriptionMetadata
from penstock.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError

MARK = "flight.cursor"  # the extra that holds the name of the consumer
EXPIRATION_SECONDS = 31 * 86400


class Cursors:
    def __init__(self, queue: AsyncMessageQueue) -> None:
        self._queue = queue

    async def open(self, wanted: CursorAt) -> CursorSeen:
        """Where the cursor stands, made at the wanted offset if it was not there.

        One whose topic was deleted holds nothing: whoever went on reading begins with all that the new topic has.
        """
        replaced = await self._remove_detached(wanted)
        found = await self._found(wanted)
        if found is None:
            offset = self._queue.topic(wanted.topic).head if replaced else wanted.offset
            found, opened = await self._made(wanted, offset)
            return self._seen(wanted, found, opened=opened, replaced=replaced)
        await self._queue.commit()  # the one who made it may still wait for it to be durable
        return self._seen(wanted, found)

    async def advance(self, wanted: CursorAt) -> CursorSeen | None:
        """None: the topic that is meant is gone, and there is nothing to hold in it."""
        if wanted.identity and wanted.identity != self._identity(wanted.topic):
            return None
        await self._remove_detached(wanted)
        found = await self._found(wanted)
        if found is None:
            found, _ = await self._made(wanted, wanted.offset)
        self._check_offset(wanted.topic, wanted.offset)
        at = self._offset(found)
        if wanted.offset > at:
            await self._queue.seek_to_offset(found.name, wanted.offset)
        elif wanted.offset == at:
            await self._queue.touch_subscription(found.name)  # its reader lives
        await self._queue.commit()
        return self._seen(wanted, found)

    def list(self, consumer: str) -> list[CursorSeen]:
        """The cursors of a consumer, or of all of them."""
        found = [each for each in self._queue.subscriptions() if MARK in each.options.extras and not each.detached]
        chosen = [each for each in found if consumer in ("", each.options.extras[MARK])]
        return [
            CursorSeen(
                each.options.extras[MARK], each.topic, self._offset(each), self._queue.backlog(each.name).messages
            )
            for each in sorted(chosen, key=lambda each: each.name)
        ]

    async def delete(self, consumer: str) -> int:
        names = [each.name for each in self._queue.subscriptions() if each.options.extras.get(MARK) == consumer]
        for name in names:
            await self._queue.delete_subscription(name)
        return len(names)

    # ------------------------------------------------------------------ parts

    def _named(self, wanted: CursorAt) -> Sequence[SubscriptionMetadata]:
        """What there is under the two names a cursor can have: alone, or as one of several."""
        names = [name for name in (wanted.subscription, wanted.other) if name]
        return [self._queue.subscription(name) for name in names if self._queue.subscription_exists(name)]

    async def _remove_detached(self, wanted: CursorAt) -> bool:
        gone = [each for each in self._named(wanted) if each.detached and _is_of(each, wanted.consumer)]
        for each in gone:
            await self._queue.delete_subscription(each.name)
        return any(each.topic == wanted.topic for each in gone)

    async def _found(self, wanted: CursorAt) -> SubscriptionMetadata | None:
        """The cursor of this consumer in this topic, under whichever name; of two the one that is further stays."""
        ours = [each for each in self._named(wanted) if _is_of(each, wanted.consumer) and each.topic == wanted.topic]
        ours.sort(key=self._offset)
        for each in ours[:-1]:
            await self._queue.delete_subscription(each.name)
        return ours[-1] if ours else None

    async def _made(self, wanted: CursorAt, offset: int) -> tuple[SubscriptionMetadata, bool]:
        if not self._queue.subscription_exists(wanted.subscription):
            self._check_offset(wanted.topic, offset)
            options = SubscriptionOptions(
                retention_seconds=0, expiration_seconds=EXPIRATION_SECONDS, extras={MARK: wanted.consumer}
            )
            try:
                await self._queue.create_subscription_at(wanted.subscription, wanted.topic, offset, options)
                return self._queue.subscription(wanted.subscription), True
            except AlreadyExistsError:  # somebody else was faster, while the place was looked up
                pass
        found = self._queue.subscription(wanted.subscription)
        if MARK not in found.options.extras:
            raise FailedPreconditionError(f"Subscription {found.name} is not a cursor")
        if found.topic != wanted.topic or not _is_of(found, wanted.consumer):
            raise FailedPreconditionError(f"Cursor {found.name} reads another topic: {found.topic}")
        return found, False

    def _identity(self, topic: str) -> str:
        return self._queue.topic(topic).identity if self._queue.topic_exists(topic) else ""

    def _check_offset(self, topic: str, offset: int) -> None:
        tail = self._queue.topic(topic).tail
        if not 0 <= offset <= tail:
            raise InvalidArgumentError(f"Topic {topic} ends at offset {tail}; a cursor cannot be at {offset}")

    def _seen(
        self, wanted: CursorAt, found: SubscriptionMetadata, *, opened: bool = False, replaced: bool = False
    ) -> CursorSeen:
        lag = self._queue.backlog(found.name).messages
        return CursorSeen(wanted.consumer, wanted.topic, self._offset(found), lag, opened, replaced)

    def _offset(self, cursor: SubscriptionMetadata) -> int:
        """A cursor has nothing outstanding, so its backlog says where it is."""
        return self._queue.topic(cursor.topic).tail - self._queue.backlog(cursor.name).messages


def _is_of(found: SubscriptionMetadata, consumer: str) -> bool:
    return found.options.extras.get(MARK) == consumer
