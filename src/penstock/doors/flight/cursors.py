"""Named cursors: subscriptions that nobody pulls, which say how far a reader of the log has come.

The rule kept here: a cursor is pinned by the first who opens it and goes forward only. It holds what it has not
passed, it is marked as what it is, and a subscription that somebody pulls is never taken for one.
"""

from __future__ import annotations

from penstock.broker.model import SubscriptionOptions
from penstock.doors.flight.letters import CursorAt, CursorSeen
from penstock.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError
from penstock.faces.awaitable import AsyncMessageQueue
from penstock.faces.views import SubscriptionMetadata

MARK = "flight.cursor"  # the extra that holds the name of the consumer
EXPIRATION_SECONDS = 31 * 86400


class Cursors:
    def __init__(self, queue: AsyncMessageQueue) -> None:
        self._queue = queue

    async def open(self, wanted: CursorAt) -> CursorSeen:
        """Where the cursor stands, made at the wanted offset if it was not there."""
        if not self._queue.subscription_exists(wanted.subscription):
            self._check_offset(wanted)
            options = SubscriptionOptions(
                retention_seconds=0, expiration_seconds=EXPIRATION_SECONDS, extras={MARK: wanted.consumer}
            )
            try:
                await self._queue.create_subscription_at(wanted.subscription, wanted.topic, wanted.offset, options)
                return self._seen(wanted, opened=True)
            except AlreadyExistsError:  # somebody else was faster, while the place was looked up
                pass
        self._check(wanted)
        await self._queue.commit()  # the one who made it may still wait for it to be durable
        return self._seen(wanted)

    async def advance(self, wanted: CursorAt) -> CursorSeen:
        if not self._queue.subscription_exists(wanted.subscription):
            return await self.open(wanted)
        self._check(wanted)
        self._check_offset(wanted)
        at = self._offset(wanted.subscription, wanted.topic)
        if wanted.offset > at:
            await self._queue.seek_to_offset(wanted.subscription, wanted.offset)
        elif wanted.offset == at:
            await self._queue.touch_subscription(wanted.subscription)  # its reader lives
        await self._queue.commit()
        return self._seen(wanted)

    def list(self, consumer: str) -> list[CursorSeen]:
        """The cursors of a consumer, or of all of them."""
        found = [each for each in self._queue.subscriptions() if MARK in each.options.extras and not each.detached]
        chosen = [each for each in found if consumer in ("", each.options.extras[MARK])]
        return [
            CursorSeen(
                each.options.extras[MARK],
                each.topic,
                self._offset(each.name, each.topic),
                self._queue.backlog(each.name).messages,
            )
            for each in sorted(chosen, key=lambda each: each.name)
        ]

    async def delete(self, consumer: str) -> int:
        names = [each.name for each in self._queue.subscriptions() if each.options.extras.get(MARK) == consumer]
        for name in names:
            await self._queue.delete_subscription(name)
        return len(names)

    # ------------------------------------------------------------------ parts

    def _check(self, wanted: CursorAt) -> None:
        """That the subscription of this name is the cursor that is meant."""
        found = self._queue.subscription(wanted.subscription)
        if MARK not in found.options.extras:
            raise FailedPreconditionError(f"Subscription {found.name} is not a cursor")
        if _is_elsewhere(found, wanted):
            raise FailedPreconditionError(f"Cursor {found.name} reads another topic: {found.topic}")

    def _check_offset(self, wanted: CursorAt) -> None:
        tail = self._queue.topic(wanted.topic).tail
        if not 0 <= wanted.offset <= tail:
            raise InvalidArgumentError(
                f"Topic {wanted.topic} ends at offset {tail}; a cursor cannot be at {wanted.offset}"
            )

    def _seen(self, wanted: CursorAt, *, opened: bool = False) -> CursorSeen:
        offset = self._offset(wanted.subscription, wanted.topic)
        lag = self._queue.backlog(wanted.subscription).messages
        return CursorSeen(wanted.consumer, wanted.topic, offset, lag, opened)

    def _offset(self, name: str, topic: str) -> int:
        """A cursor has nothing outstanding, so its backlog says where it is."""
        return self._queue.topic(topic).tail - self._queue.backlog(name).messages


def _is_elsewhere(found: SubscriptionMetadata, wanted: CursorAt) -> bool:
    return found.detached or found.topic != wanted.topic or found.options.extras[MARK] != wanted.consumer
