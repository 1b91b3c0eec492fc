"""Decisions of batch jobs, which are forgotten a day after their jobs, and those of streams, which stay."""

from __future__ import annotations

import asyncio

from penstock.assembly import SERVER_LIMITS
from penstock.doors.flight import codec
from penstock.doors.flight.cursors import Cursors
from penstock.doors.flight.decisions import JOB_SECONDS, KIND, Decisions
from penstock.doors.flight.ipc import Decision, pack
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import ManualClock
from penstock.journal.memory import MemoryJournal


async def decide(decisions: Decisions, query: str) -> None:
    asked = codec.StageDecide(query, 0, [])
    decided = await decisions.put(codec.write(asked))
    assert not decided.repeated
    assert (await decisions.put(codec.write(asked))).repeated  # a client that repeats its request
    await decisions.finish(pack((query, 0)))


def test_decisions_of_jobs_expire() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS, clock=clock)
        await queue.start()
        names = codec.Names("p")
        decisions = Decisions(queue, names, Cursors(queue, names))
        # The records of an older release have no time.
        await queue.put_document(KIND, "job-old", pack(Decision("job-old", 0, [], finished=True)))
        await queue.put_document(KIND, "job-unfinished", pack(Decision("job-unfinished", 0, [])))
        for query in ("stream", "txn-app", "job-1"):
            await decide(decisions, query)
        assert set(await queue.documents(KIND)) == {"stream", "txn-app", "job-1", "job-unfinished"}
        clock.advance(JOB_SECONDS - 1)
        await decide(decisions, "job-2")
        assert "job-1" in await queue.documents(KIND)
        clock.advance(2)
        await decide(decisions, "job-3")
        assert set(await queue.documents(KIND)) == {"stream", "txn-app", "job-2", "job-3", "job-unfinished"}
        await queue.close()

    asyncio.run(scenario())
