"""Publisher: messages on their way to a topic, many in one step.

Messages are stored in the order they were handed in. After a failure the ordering keys concerned are paused until the
program says how to go on, so that nothing overtakes what was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import NamedTuple

from penstock.broker.limits import check_draft
from penstock.broker.model import Draft
from penstock.errors import FailedPreconditionError, InternalError, PenstockError, ResourceExhaustedError, where
from penstock.pubsub.options import BLOCK, IGNORE, PublisherOptions
from penstock.pubsub.session import Outbox, Session

log = logging.getLogger("penstock.pubsub")


class Batch(NamedTuple):
    """Messages that are stored together, with what is told of each."""

    drafts: list[Draft]
    sizes: list[int]
    futures: list[asyncio.Future[str]]


class Publisher:
    def __init__(self, session: Session, topic: str, options: PublisherOptions) -> None:
        self._session = session
        self._topic = topic
        self.options = options
        self._batch = Batch([], [], [])
        self._bytes = 0  # of it
        self.outbox = Outbox(session, self._send)
        self.outstanding_messages = 0  # handed in and not yet stored
        self.outstanding_bytes = 0
        self._queue_for_room: deque[asyncio.Future[None]] = deque()
        self._paused: set[str] = set()
        self._last_keyed: asyncio.Task[None] | None = None  # batches with ordering keys go one after the other

    # ------------------------------------------------------------------ handing in

    def add(self, draft: Draft) -> asyncio.Future[str]:
        """Take a message; the future gives its id once it is stored."""
        loop = self._session.loop("publish()")
        size = check_draft(draft, self._session.queue.limits)
        if draft.ordering_key in self._paused:
            raise _pause(draft.ordering_key)
        future: asyncio.Future[str] = loop.create_future()
        drafts, sizes, futures = self._batch
        if not drafts:
            self.outbox.hold_back(self.options.max_seconds)
        drafts.append(draft)
        sizes.append(size)
        futures.append(future)
        self._bytes += size
        self.outstanding_messages += 1
        self.outstanding_bytes += size
        if len(drafts) >= self.options.max_messages or self._bytes >= self.options.max_bytes:
            self.outbox.flush()
        return future

    def is_full(self, size: int) -> bool:
        """Whether a limit on what is outstanding speaks against one more message."""
        options = self.options
        if options.limit_exceeded_behavior == IGNORE or not self.outstanding_messages:
            return False
        if options.outstanding_messages and self.outstanding_messages >= options.outstanding_messages:
            return True
        return bool(options.outstanding_bytes) and self.outstanding_bytes + size > options.outstanding_bytes

    async def room(self, size: int) -> None:
        """Until one more message may be handed in, first come first served."""
        if self.options.limit_exceeded_behavior != BLOCK:
            self.refuse()
        while self.is_full(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue_for_room.append(turn)
            await turn

    def refuse(self) -> None:
        raise ResourceExhaustedError("Flow control limits exceeded")

    def resume(self, ordering_key: str) -> None:
        self._paused.discard(ordering_key)

    # ------------------------------------------------------------------ sending

    def _send(self) -> asyncio.Task[None]:
        batch, self._batch, self._bytes = self._batch, Batch([], [], []), 0
        keyed = any(draft.ordering_key for draft in batch.drafts)
        task = self._session.spawn(self._store(batch, self._last_keyed if keyed else None))
        self._last_keyed = task if keyed else self._last_keyed
        return task

    async def _store(self, handed_in: Batch, after: asyncio.Task[None] | None) -> None:
        batch = handed_in
        try:
            if after is not None and not after.done():
                await asyncio.wait([after])  # only then is it known whether the one before failed
            batch = self._without_paused(batch) if self._paused else batch
            appended = await self._session.queue.publish(self._topic, batch.drafts, sizes=batch.sizes)
        except PenstockError as error:
            self._fail(batch, error)
        except asyncio.CancelledError:
            self._fail(batch, InternalError("The event loop ended before the message was stored"))
            raise
        except Exception as error:  # noqa: BLE001 - a bug: whoever waits for the message hears of it
            log.error("publishing failed: %s", where(error))
            self._fail(batch, InternalError("The message was not stored; the log says more"))
        else:
            for future, message_id in zip(batch.futures, appended.message_ids(), strict=True):
                if not future.done():
                    future.set_result(message_id)
        finally:
            self._leave(len(handed_in.drafts), sum(handed_in.sizes))

    def _without_paused(self, batch: Batch) -> Batch:
        """Leave out messages whose key was paused while they waited for their turn, and say so."""
        left = Batch([], [], [])
        for draft, size, future in zip(*batch, strict=True):
            if draft.ordering_key not in self._paused:
                left.drafts.append(draft)
                left.sizes.append(size)
                left.futures.append(future)
            elif not future.done():
                future.set_exception(_pause(draft.ordering_key))
        return left

    def _fail(self, batch: Batch, error: PenstockError) -> None:
        if self.options.ordering:
            self._paused.update(draft.ordering_key for draft in batch.drafts if draft.ordering_key)
        for future in batch.futures:
            if not future.done():
                future.set_exception(error)

    def _leave(self, messages: int, size: int) -> None:
        self.outstanding_messages -= messages
        self.outstanding_bytes -= size
        while messages and self._queue_for_room:
            turn = self._queue_for_room.popleft()
            if not turn.done():
                turn.set_result(None)
                messages -= 1


def _pause(ordering_key: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"Publishing for ordering key {ordering_key!r} is paused after a failure: call resume_publishing"
    )
