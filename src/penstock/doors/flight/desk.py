"""The server's side of every request: what the reader process asks becomes one call of the queue.

The rule kept here: nothing of Flight, Arrow or JSON is known here, and an answer is given when what it rests on is
durable: whatever offset a client was told of, it can read, also after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from penstock.broker.model import Draft, Message, TopicOptions
from penstock.broker.publishing import Once
from penstock.doors.flight.cursors import Cursors
from penstock.doors.flight.decisions import Decisions
from penstock.doors.flight.letters import (
    BoundsAsked,
    CursorAt,
    Decision,
    Drafts,
    FindAsked,
    PublishDrafts,
    Published,
    ReadAsked,
    Slice,
    TopicBounds,
    pack,
    unpack,
)
from penstock.doors.flight.link import Frame
from penstock.doors.flight.pieces import Pieces
from penstock.doors.flight.tidings import Tidings
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.views import TopicMetadata
from penstock.errors import AlreadyExistsError, InternalError, PenstockError, where
from penstock.journal.codec import encode_messages
from penstock.wire.budget import Budget

WAIT_SECONDS_MAX = 30.0
SLICE_ROWS = 5_000
SLICE_BYTES = 4 << 20

_publish = msgspec.msgpack.Decoder(PublishDrafts)
_rows = msgspec.msgpack.Decoder(Drafts)


class Desk:
    """Answers one reader process; what it left half said goes with it."""

    def __init__(self, queue: AsyncMessageQueue, tidings: Tidings, log: logging.Logger, budget: Budget) -> None:
        self._queue = queue
        self._tidings = tidings
        self._log = log
        self._cursors = Cursors(queue)
        self._decisions = Decisions(queue)
        self.pieces = Pieces(budget)  # of publishes that are still coming
        self._verbs: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "bounds": self._bounds,
            "find": self._find,
            "read": self._read,
            "topic.ensure": self._ensure_topic,
            "cursor.open": self._open_cursors,
            "cursor.advance": self._advance_cursors,
            "cursor.list": self._list_cursors,
            "cursor.delete": self._delete_cursors,
            "decision.put": self._decide,
            "decision.get": self._decision,
            "decision.finish": self._finish,
        }

    async def answer(self, frame: Frame) -> bytes | None:
        try:
            if frame.word == "rows":
                self.pieces.add(frame.number, _rows.decode(frame.body), len(frame.body))
                return None
            if frame.word == "publish":
                with self.pieces.taken(frame.number, len(frame.body)) as earlier:
                    return await self._publish(earlier, frame.body)
            return await self._verbs[frame.word](frame.body)
        except (PenstockError, asyncio.CancelledError):
            raise
        except Exception as error:
            self._log.error("%s failed: %s", frame.word, where(error))
            raise InternalError("The server failed to do this; its log says more") from error

    # ------------------------------------------------------------------ the log

    async def _bounds(self, body: bytes) -> bytes:
        asked = unpack(body, BoundsAsked)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(asked.wait_seconds, WAIT_SECONDS_MAX)
        while True:
            found = [bounds(topic) for topic in self._topics(asked.names, missing_ok=asked.missing_ok)]
            left = until - loop.time()
            if (
                left <= 0
                or self._tidings.closed
                or any(each.tail > asked.after.get(each.name, each.tail) for each in found)
            ):
                break
            await self._tidings.wait({each.number for each in found}, left)
        await self._queue.commit()
        return pack(found)

    def _topics(self, names: list[str] | None, *, missing_ok: bool) -> list[TopicMetadata]:
        if names is None:
            return self._queue.topics()
        return [self._queue.topic(name) for name in names if not missing_ok or self._queue.topic_exists(name)]

    async def _find(self, body: bytes) -> bytes:
        asked = unpack(body, FindAsked)
        return pack(await self._queue.first_offset_at(asked.topic, asked.at))

    async def _read(self, body: bytes) -> bytes:
        """The first slice of a range: as much as one frame should carry."""
        asked = unpack(body, ReadAsked)
        name = self._queue.topic_name(asked.topic)
        messages = await self._queue.read(name, asked.first, min(asked.until, asked.first + SLICE_ROWS))
        chosen = _front(messages)
        if not chosen:
            return pack(None)
        return Slice(chosen[0].offset, chosen[-1].offset + 1, encode_messages(chosen)).packed()

    async def _ensure_topic(self, body: bytes) -> bytes:
        name, retention_seconds = unpack(body, tuple[str, float])
        # Rows that wait for a decision are not to be dropped by a cap in bytes.
        options = TopicOptions(retention_seconds=retention_seconds, retention_bytes=1 << 62 if retention_seconds else 0)
        try:
            await self._queue.create_topic(name, options)
        except AlreadyExistsError:
            return pack(False)
        return pack(True)

    # ------------------------------------------------------------------ publishing

    async def _publish(self, earlier: list[Drafts], body: bytes) -> bytes:
        asked = _publish.decode(body)
        drafts, sizes = _joined([*earlier, asked.rows]) if earlier else (asked.rows.drafts, asked.rows.sizes)
        once = Once(asked.producer, asked.epoch, asked.sequence) if asked.producer else None
        appended = self._queue.decide_publish(asked.topic, drafts, once, sizes)
        await self._queue.committed()
        # The time of a publish is known only to the one that was stored.
        return Published(appended.first, appended.total, bool(appended.total) and not appended.at).packed()

    # ------------------------------------------------------------------ cursors and decisions

    async def _open_cursors(self, body: bytes) -> bytes:
        return pack([await self._cursors.open(each) for each in unpack(body, list[CursorAt])])

    async def _advance_cursors(self, body: bytes) -> bytes:
        moved = [await self._cursors.advance(each) for each in unpack(body, list[CursorAt])]
        return pack([each for each in moved if each is not None])

    async def _list_cursors(self, body: bytes) -> bytes:
        return pack(self._cursors.list(unpack(body, str)))

    async def _delete_cursors(self, body: bytes) -> bytes:
        return pack(await self._cursors.delete(unpack(body, str)))

    async def _decide(self, body: bytes) -> bytes:
        return pack(await self._decisions.put(unpack(body, Decision)))

    async def _decision(self, body: bytes) -> bytes:
        return pack(self._decisions.get(unpack(body, str)))

    async def _finish(self, body: bytes) -> bytes:
        await self._decisions.finish(*unpack(body, tuple[str, int]))
        return b""


def bounds(topic: TopicMetadata) -> TopicBounds:
    return TopicBounds(
        topic.name,
        topic.number,
        topic.identity,
        topic.first_id,
        topic.head,
        topic.tail,
        topic.head_position,
        topic.position,
    )


def _front(messages: list[Message]) -> list[Message]:
    """The messages before a slice is full, at least one if there is one."""
    if not messages or messages[-1].position - messages[0].position < SLICE_BYTES:
        return messages
    end = messages[0].position + SLICE_BYTES
    return messages[: next(i for i, message in enumerate(messages, 1) if message.position + message.size >= end)]


def _joined(pieces: list[Drafts]) -> tuple[list[Draft], list[int]]:
    drafts: list[Draft] = []
    sizes: list[int] = []
    for piece in pieces:
        drafts += piece.drafts
        sizes += piece.sizes
    return drafts, sizes
