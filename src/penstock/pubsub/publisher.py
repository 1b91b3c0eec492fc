"""The publisher of a topic handle, which stores messages in batches.

Messages are stored in the order of the calls. After a failure, the ordering keys of the batch are paused until the
program calls resume_publishing, so that no message overtakes a lost one.
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
    """Messages that are stored together, with their sizes and the futures of their ids."""

    drafts: list[Draft]
    sizes: list[int]
    futures: list[asyncio.Future[str]]


class Publisher:
    def __init__(self, session: Session, topic: str, options: PublisherOptions) -> None:
        self._session = session
        self._topic = topic
        self.options = options
        self._batch = Batch([], [], [])
        self._bytes = 0  # size of the batch
        self.outbox = Outbox(session, self._send)
        self.outstanding_messages = 0  # not stored yet
        self.outstanding_bytes = 0
        self._queue_for_room: deque[asyncio.Future[None]] = deque()
        self._paused: set[str] = set()
        self._last_keyed: asyncio.Task[None] | None = None  # batches with ordering keys are stored one after the other

    # ------------------------------------------------------------------ adding

    def add(self, draft: Draft) -> asyncio.Future[str]:
        """Add a message to the batch. The future's result is its id, once it is stored."""
        loop = self._session.loop("publish()")
        size = check_draft(draft, self._session.queue.limits)
        if draft.ordering_key in self._paused:
            raise _paused_error(draft.ordering_key)
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
        """Return whether one more message exceeds the limits of flow control."""
        options = self.options
        if options.limit_exceeded_behavior == IGNORE or not self.outstanding_messages:
            return False
        if options.outstanding_messages and self.outstanding_messages >= options.outstanding_messages:
            return True
        return bool(options.outstanding_bytes) and self.outstanding_bytes + size > options.outstanding_bytes

    async def room(self, size: int) -> None:
        """Wait until one more message is within the limits, in the order of the calls."""
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

    async def _store(self, added: Batch, after: asyncio.Task[None] | None) -> None:
        batch = added
        try:
            if after is not None and not after.done():
                await asyncio.wait([after])  # it pauses its keys if it fails
            batch = self._without_paused(batch) if self._paused else batch
            appended = await self._session.queue.publish(self._topic, batch.drafts, sizes=batch.sizes)
        except PenstockError as error:
            self._fail(batch, error)
        except asyncio.CancelledError:
            self._fail(batch, InternalError("The event loop ended before the message was stored"))
            raise
        except Exception as error:  # noqa: BLE001 - a bug, reported to the callers
            log.error("publishing failed: %s", where(error))
            self._fail(batch, InternalError("The message was not stored; see the log"))
        else:
            for future, message_id in zip(batch.futures, appended.message_ids(), strict=True):
                if not future.done():
                    future.set_result(message_id)
        finally:
            self._release(len(added.drafts), sum(added.sizes))

    def _without_paused(self, batch: Batch) -> Batch:
        """Return the batch without messages whose key was paused meanwhile. These messages fail."""
        remaining = Batch([], [], [])
        for draft, size, future in zip(*batch, strict=True):
            if draft.ordering_key not in self._paused:
                remaining.drafts.append(draft)
                remaining.sizes.append(size)
                remaining.futures.append(future)
            elif not future.done():
                future.set_exception(_paused_error(draft.ordering_key))
        return remaining

    def _fail(self, batch: Batch, error: PenstockError) -> None:
        if self.options.ordering:
            self._paused.update(draft.ordering_key for draft in batch.drafts if draft.ordering_key)
        for future in batch.futures:
            if not future.done():
                future.set_exception(error)

    def _release(self, messages: int, size: int) -> None:
        self.outstanding_messages -= messages
        self.outstanding_bytes -= size
        while messages and self._queue_for_room:
            turn = self._queue_for_room.popleft()
            if not turn.done():
                turn.set_result(None)
                messages -= 1


def _paused_error(ordering_key: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"Publishing for ordering key {ordering_key!r} is paused after a failure: call resume_publishing"
    )
