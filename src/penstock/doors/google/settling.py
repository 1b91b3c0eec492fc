"""Acks and deadlines of a stream without exactly-once delivery, decided and waiting for their commit.

The client gets no confirmation of them, so the stream reads its next request while the journal commits.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence

from penstock.doors.google.calls import StreamingCall
from penstock.doors.google.pulling import refuse_malformed
from penstock.engine.port import Settled

SETTLING_MAX = 100  # of one stream; after that its next request waits for a commit


class Settling:
    """The settlements of one stream, oldest first. Commits keep the order of decisions, so this is their order too."""

    def __init__(self, call: StreamingCall) -> None:
        self._call = call
        self._budget = call.budget
        self._account = call.budget.account(None)
        self._room = asyncio.Semaphore(SETTLING_MAX)
        self._pending: asyncio.Queue[tuple[Future[Settled], int, int]] = asyncio.Queue()

    async def begin(
        self, verb: Callable[..., Future[Settled]], receipts: Sequence[str], *args: int, acks: int = 0
    ) -> None:
        """Call the verb of the queue as soon as there is room. `acks` is added to the count of the call when committed.

        A verb that answers with a task may not have decided yet. It is awaited here, because the next request may name
        the same message. Receipts for which the memory budget has no room are awaited here as well.
        """
        await self._room.acquire()
        settled, size = verb(receipts, *args, strict=False), sum(map(len, receipts))
        has_memory = self._budget.in_use_bytes + size <= self._budget.most_bytes
        if settled.done() or isinstance(settled, asyncio.Task) or not has_memory:
            self._finish(await settled, acks)
            self._room.release()
        else:
            self._account.charge(size)
            self._pending.put_nowait((settled, acks, size))
            await asyncio.sleep(0)  # let other connections work before the next request, which may be here already

    async def run(self) -> None:
        """Await the commits. Raise the error of the first settlement that failed."""
        while True:
            settled, acks, size = await self._pending.get()
            self._finish(await settled, acks)
            self._account.release(size)
            self._room.release()
            self._pending.task_done()

    async def done(self) -> None:
        """Wait until everything that began is committed."""
        await self._pending.join()

    def close(self) -> None:
        """Stop waiting. Decisions are committed all the same."""
        self._account.close()
        while not self._pending.empty():
            settled = self._pending.get_nowait()[0]
            if not settled.cancel() and not settled.cancelled():
                settled.exception()  # retrieved, so that asyncio does not log it

    def _finish(self, settled: Settled, acks: int) -> None:
        refuse_malformed(settled.malformed)
        self._call.acks += acks
