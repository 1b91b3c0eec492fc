"""Decisions: which staged rows of a query are published in an epoch. A document keeps the last decision of a query.

The first decision of an epoch is final. It is read and written in one turn of the event loop, so nothing comes in
between. A cursor holds the decided rows until they are copied.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from penstock.broker.model import SECOND, TopicOptions
from penstock.doors.flight import codec
from penstock.doors.flight.cursors import Cursor, Cursors
from penstock.doors.flight.ipc import Decided, Decision, pack, unpack
from penstock.engine.port import Queue
from penstock.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError

KIND = "flight.decision"
TOPIC_ID = "penstock-staging"
KEEP_SECONDS = 86400  # rows without a decision are kept for this time, whatever the server's retention
JOB = "job-"  # prefix of the names of batch jobs, each of which makes a single decision
JOB_SECONDS = 86400  # the decision of a finished job is kept for this time, for a client that repeats its request


class Decisions:
    def __init__(self, queue: Queue, names: codec.Names, cursors: Cursors) -> None:
        self._queue = queue
        self._cursors = cursors
        self.topic = names.topic(TOPIC_ID)

    async def open_topic(self, _: bytes) -> str:
        """Return the topic of staged rows, and create it if it is missing."""
        with suppress(AlreadyExistsError):
            # A limit in bytes must not drop rows that wait for a decision.
            options = TopicOptions(retention_seconds=KEEP_SECONDS, retention_bytes=1 << 62)
            await self._queue.create_topic(self.topic, options)
        return self.topic

    async def put(self, body: bytes) -> Decided:
        """Record a decision. Return it, or the earlier decision for the same epoch."""
        asked = codec.read(body, codec.StageDecide, "stage.decide")
        if not asked.query or len(asked.query) > 200:
            raise InvalidArgumentError("stage.decide: a query has a name of 1 to 200 characters")
        ranges = [(part.first, part.first + part.rows) for parts in asked.parts for part in parts if part.rows]
        await self._check_staged(ranges)
        known = await self._get(asked.query)
        if known is not None and known.epoch > asked.epoch:
            raise FailedPreconditionError(f"Query {asked.query} is at epoch {known.epoch}; epoch {asked.epoch} is over")
        if known is not None and known.epoch == asked.epoch:
            await self._queue.commit()
            return Decided(await self._hold(known), repeated=True)
        if known is not None and not known.finished:
            raise FailedPreconditionError(f"Epoch {known.epoch} of query {asked.query} is still being published")
        decision = Decision(asked.query, asked.epoch, ranges, at=self._queue.clock.now())
        await self._queue.put_document(KIND, asked.query, pack(decision))
        return Decided(await self._hold(decision), repeated=False)

    async def unfinished(self, body: bytes) -> Decision | None:
        """Return the decision of a query, if its rows are not all copied yet."""
        decision = await self._get(unpack(body, str))
        return await self._hold(decision) if decision is not None and not decision.finished else None

    async def finish(self, body: bytes) -> None:
        """Mark a decision whose rows are all copied as finished."""
        query, epoch = unpack(body, tuple[str, int])
        decision = await self._get(query)
        if decision is not None and decision.epoch == epoch and not decision.finished:
            await self._queue.put_document(KIND, query, pack(msgspec.structs.replace(decision, finished=True)))
        await self._cursors.release(self._cursor(query).consumer)
        if query.startswith(JOB):
            await self._forget_jobs()

    async def _forget_jobs(self) -> None:
        """Remove old decisions of batch jobs. A stream needs its last decision to continue."""
        oldest = self._queue.clock.now() - JOB_SECONDS * SECOND
        for query, body in (await self._queue.documents(KIND)).items():
            if query.startswith(JOB):
                decision: Decision = unpack(body, Decision)
                if decision.finished and decision.at < oldest:
                    await self._queue.remove_document(KIND, query)

    async def last(self, asked: codec.StageLast) -> dict[str, Any]:
        decision = await self._get(asked.query)
        return {"epoch": None if decision is None else decision.epoch}

    async def unfinished_queries(self) -> list[str]:
        bodies = await self._queue.documents(KIND)
        return [query for query, body in bodies.items() if not unpack(body, Decision).finished]

    async def _get(self, query: str) -> Decision | None:
        body = await self._queue.document(KIND, query)
        return unpack(body, Decision) if body is not None else None

    async def _check_staged(self, ranges: list[tuple[int, int]]) -> None:
        topic = await self._queue.find_topic(self.topic) if ranges else None
        head, tail = (topic.head, topic.tail) if topic is not None else (0, 0)
        for first, until in ranges:
            if not head <= first < until <= tail:
                raise InvalidArgumentError(f"stage.decide: no rows are staged from {first} to {until}")

    async def _hold(self, decision: Decision) -> Decision:
        """Let a cursor hold the rows of a decision that is not finished."""
        if decision.ranges and not decision.finished:
            await self._cursors.hold(self._cursor(decision.query), min(first for first, _ in decision.ranges))
        return decision

    def _cursor(self, query: str) -> Cursor:
        name = f"{self.topic.replace('/topics/', '/subscriptions/')}-{query}"
        return Cursor(f"staging-{query}", self.topic, name)
