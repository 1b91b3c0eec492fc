"""Answers to the reader process: to its own requests, and to the actions of Flight clients that it forwards.

An answer waits until everything it depends on is durable, so an offset that a client has seen can be read after a
crash too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec

from penstock.broker.facts import Published, TopicDeleted
from penstock.broker.model import SECOND, Draft, Message
from penstock.doors.consumers import Consumer
from penstock.doors.flight import codec
from penstock.doors.flight.cursor_leases import CursorLeases
from penstock.doors.flight.cursors import Cursors, existing_topic
from penstock.doors.flight.decisions import Decisions
from penstock.doors.flight.ipc import Publish, PublishResult, Rows, TopicBounds, pack, unpack
from penstock.doors.flight.link import Frame
from penstock.doors.flight.partial_publishes import PartialPublishes
from penstock.engine.port import Once, Queue, SubscriptionMetadata, TopicMetadata
from penstock.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OtherMessagesError,
    PenstockError,
    where,
)
from penstock.journal.codec import encode_messages
from penstock.journal.port import StoredBatch
from penstock.names import TOPICS, check_pubsub_name
from penstock.wire.budget import Budget

WAIT_SECONDS_MAX = 30
SLICE_ROWS = 5_000
SLICE_BYTES = 4 << 20
MICROSECOND = SECOND // 1_000_000
INSTANT_MAX = 2**63 // MICROSECOND - 1

_publish = msgspec.msgpack.Decoder(Publish[Draft])
_rows = msgspec.msgpack.Decoder(Rows[Draft])
_bounds_fields = attrgetter(*TopicBounds.__struct_fields__)


class Requests:
    def __init__(self, queue: Queue, project: str, log: logging.Logger, budget: Budget) -> None:
        self._queue = queue
        self._names = codec.Names(project)
        self._log = log
        self._cursors = Cursors(queue, self._names)
        leases = CursorLeases(self._names)
        self.decisions = Decisions(queue, self._names, self._cursors)
        self.partial = PartialPublishes(budget)
        self.waiters = TopicWaiters()
        self._actions: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {  # JSON, as in codec
            "bounds": self._bounds,
            "find": self._find,
            "topic.ensure": self._ensure_topic,
            "cursor.open": self._cursors.open,
            "cursor.advance": self._cursors.advance,
            "cursor.hold": leases.hold,
            "cursor.release": leases.release,
            "cursor.list": self._cursors.list,
            "cursor.delete": self._cursors.delete,
            "stage.last": self.decisions.last,
            "publish.end": self._end_publish,
        }
        self._own: dict[str, Callable[[bytes], Awaitable[Any]]] = {  # of the reader process, as in ipc
            "topics": self._topic_bounds,
            "read": self._read,
            "staging.open": self.decisions.open_topic,
            "decision.put": self.decisions.put,
            "decision.unfinished": self.decisions.unfinished,
            "decision.finish": self.decisions.finish,
        }

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return self._cursors.consumers(subscription)

    async def answer(self, frame: Frame) -> bytes | None:
        try:
            if frame.word == "rows":
                self._add_rows(frame)
                return None
            if frame.word == "publish":
                with self.partial.complete(frame.number, len(frame.body)) as earlier:
                    return await self._publish(earlier, frame.body)
            if (action := self._actions.get(frame.word)) is not None:
                asked = codec.read(frame.body, codec.ACTIONS[frame.word].request, frame.word)
                return codec.write(await action(asked))
            return pack(await self._own[frame.word](frame.body))
        except (PenstockError, asyncio.CancelledError):
            raise
        except Exception as error:
            self._log.error("%s failed: %s", frame.word, where(error))
            raise InternalError("The server failed to do this; its log says more") from error

    def _add_rows(self, frame: Frame) -> None:
        """Keep the rows of a publish until its last frame comes.

        Only the last frame is answered. If the rows cannot be kept, that frame is refused.
        """
        try:
            self.partial.add(frame.number, _rows.decode(frame.body), len(frame.body))
        except Exception as error:  # noqa: BLE001 - a bug: the whole publish is refused
            self._log.error("rows of a publish could not be kept: %s", where(error))
            self.partial.refuse(frame.number)

    # ------------------------------------------------------------------ topics

    async def _bounds(self, asked: codec.Bounds) -> dict[str, Any]:
        """Return the bounds of topics. Wait until a tail is beyond its `after`. The reader process matches patterns."""
        if asked.topics is not None and asked.pattern is not None:
            raise InvalidArgumentError("bounds: topics and pattern exclude each other")
        if not 0 <= asked.wait_seconds <= WAIT_SECONDS_MAX:
            raise InvalidArgumentError(f"bounds: wait_seconds is from 0 to {WAIT_SECONDS_MAX}")
        names = None if asked.topics is None else [self._names.topic(name) for name in asked.topics]
        after = self._names.topics(asked.after)
        loop = asyncio.get_running_loop()
        until = loop.time() + (asked.wait_seconds if after else 0)
        while True:
            topics = await self._topics(names, missing_ok=asked.missing_ok)
            left = until - loop.time()
            if (
                left <= 0
                or self.waiters.closed
                or any(topic.tail > after.get(topic.name, topic.tail) for topic in topics)
            ):
                break
            await self.waiters.wait({topic.number for topic in topics}, left)
        await self._queue.commit()
        bounds = {}
        for topic in topics:
            if names is not None or topic.name != self.decisions.topic:  # staged rows belong to other topics
                size = topic.position - topic.head_position
                bounds[topic.name] = {"head": topic.head, "tail": topic.tail, "bytes": size, "identity": topic.identity}
        return {"topics": bounds}

    async def _topic_bounds(self, body: bytes) -> list[TopicBounds]:
        names, missing_ok = unpack(body, tuple[list[str] | None, bool])
        bounds = [TopicBounds(*_bounds_fields(topic)) for topic in await self._topics(names, missing_ok=missing_ok)]
        await self._queue.commit()
        return bounds

    async def _topics(self, names: list[str] | None, *, missing_ok: bool) -> list[TopicMetadata]:
        if names is None:
            return await self._queue.topics()
        if not missing_ok:
            return [await existing_topic(self._queue, name) for name in names]
        topics = [await self._queue.find_topic(name) for name in names]
        return [topic for topic in topics if topic is not None]

    async def _find(self, asked: codec.Find) -> dict[str, Any]:
        offsets = {}
        for name, time in self._names.topics(asked.times).items():
            at = max(0, min(time, INSTANT_MAX)) * MICROSECOND
            offsets[name] = await self._queue.first_offset_at(name, at)
        await self._queue.commit()
        return {"offsets": offsets}

    async def _ensure_topic(self, asked: codec.TopicEnsure) -> dict[str, Any]:
        name = self._names.topic(asked.topic)
        if await self._queue.find_topic(name) is not None:
            return {"topic": name, "created": False}
        try:
            await self._queue.create_topic(check_pubsub_name(name, TOPICS))  # the name may come from data
        except AlreadyExistsError:
            return {"topic": name, "created": False}
        return {"topic": name, "created": True}

    async def _read(self, body: bytes) -> StoredBatch | None:
        """Return the first messages of a range, with a size that fits into one frame."""
        topic, first, until = unpack(body, tuple[int, int, int])
        name = (await existing_topic(self._queue, topic)).name
        messages = await self._queue.read(name, first, min(until, first + SLICE_ROWS))
        chosen = _first_bytes(messages, SLICE_BYTES)
        return StoredBatch(chosen[0].offset, chosen[-1].offset + 1, encode_messages(chosen)) if chosen else None

    # ------------------------------------------------------------------ publishing

    async def _publish(self, earlier: list[Rows[Draft]], body: bytes) -> bytes:
        asked = _publish.decode(body)
        drafts, sizes = asked.rows.drafts, asked.rows.sizes
        if earlier:
            drafts = [draft for rows in (*earlier, asked.rows) for draft in rows.drafts]
            sizes = [size for rows in (*earlier, asked.rows) for size in rows.sizes]
        once = Once(asked.producer, asked.epoch, asked.sequence, asked.digest) if asked.producer else None
        appended = await self._queue.publish(asked.topic, drafts, once, sizes=sizes)
        # Only a stored publish has a time, so a publish without a time is a repeat.
        return pack(PublishResult(appended.first, appended.total, bool(appended.total) and not appended.at))

    async def _end_publish(self, asked: codec.PublishEnd) -> dict[str, Any]:
        """Refuse a repeat with fewer requests than were stored, because the rows of the other requests would stay.

        If the rows name their topics, the rows of an earlier run may be in any topic.
        """
        requests, stored = self._names.topics(asked.requests), {}
        others = await self._queue.topics_of_producer(asked.producer) if asked.topic is None else ()
        for topic in sorted({*requests, *others}):
            with suppress(NotFoundError):  # the topic was deleted meanwhile
                stored[topic] = len(await self._queue.sequences(topic, asked.producer, asked.epoch))
        for topic, count in stored.items():
            if count > requests.get(topic, 0):
                raise OtherMessagesError(
                    f"{count} requests were stored in {topic}, and the repeat has {requests.get(topic, 0)}"
                )
        return {"requests": stored}


def _first_bytes(messages: list[Message], size: int) -> list[Message]:
    """Return the first messages with about `size` bytes, at least one if there is one."""
    if not messages or messages[-1].position - messages[0].position < size:
        return messages
    end = messages[0].position + size
    return messages[: next(i for i, message in enumerate(messages, 1) if message.position + message.size >= end)]


class TopicWaiters:
    """The requests that wait until a topic has more messages."""

    def __init__(self) -> None:
        self._topics: dict[asyncio.Future[None], set[int]] = {}  # numbers of topics, by waiter
        self.closed = False

    async def wait(self, topics: set[int], seconds: float) -> None:
        """Wait until one of the topics may have more messages, or the time is over."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._topics[woken] = topics
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await woken
        finally:
            del self._topics[woken]

    def on_fact(self, fact: Published | TopicDeleted) -> None:
        for woken, topics in self._topics.items():
            if fact.topic in topics and not woken.done():
                woken.set_result(None)

    def close(self) -> None:
        self.closed = True
        for woken in self._topics:
            if not woken.done():
                woken.set_result(None)
