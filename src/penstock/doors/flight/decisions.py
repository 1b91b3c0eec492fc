"""Which staged rows of a query count: one decision for each epoch, kept as a document until the next.

The rule kept here: the first decision of an epoch is the decision, however often and by whomever it is made again.
Looking and writing happen in one turn of the loop, so there is nothing in between.
"""

from __future__ import annotations

from penstock.doors.flight.letters import Decided, Decision, unpack
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import FailedPreconditionError

KIND = "flight.decision"


class Decisions:
    def __init__(self, queue: AsyncMessageQueue) -> None:
        self._queue = queue

    async def put(self, decision: Decision) -> Decided:
        known = self.get(decision.query)
        if known is not None and known.epoch > decision.epoch:
            raise FailedPreconditionError(
                f"Query {decision.query} is at epoch {known.epoch}; epoch {decision.epoch} is over"
            )
        if known is not None and known.epoch == decision.epoch:
            await self._queue.commit()
            return Decided(known, repeated=True)
        if known is not None and not known.finished:
            raise FailedPreconditionError(f"Epoch {known.epoch} of query {decision.query} is still being published")
        await self._queue.put_document(KIND, decision.query, decision.packed())
        return Decided(decision, repeated=False)

    def get(self, query: str) -> Decision | None:
        body = self._queue.document(KIND, query)
        return unpack(body, Decision) if body is not None else None

    async def finish(self, query: str, epoch: int) -> None:
        """All rows of a decision are copied."""
        known = self.get(query)
        if known is not None and known.epoch == epoch and not known.finished:
            finished = Decision(query, epoch, known.ranges, finished=True)
            await self._queue.put_document(KIND, query, finished.packed())

    def unfinished(self) -> list[str]:
        bodies = self._queue.documents(KIND)
        return [query for query, body in bodies.items() if not unpack(body, Decision).finished]
