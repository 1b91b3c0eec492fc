"""A move that is interrupted after any of its commits and then requested again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from penstock import Draft
from penstock.assembly import SERVER_LIMITS
from penstock.doors.google import dead_letters
from penstock.doors.resources import QUEUE_OPTIONS
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.port import Commit
from penstock.services.moves import move
from penstock.services.moves.registry import Moves
from penstock.services.moves.scan import Choice
from tests.unit.engine.journals import ToldJournal

HOME, HOME_READER = "projects/p/topics/q", "projects/p/subscriptions/q"
POISON, POISON_READER = "projects/p/topics/q-poison", "projects/p/subscriptions/q-poison"
MESSAGES = 12


async def opened(commits: Sequence[Commit]) -> tuple[ToldJournal, AsyncMessageQueue]:
    """Return a queue that recovered from these commits."""
    journal = ToldJournal()
    for commit in commits:
        journal.commit(commit)
    queue = AsyncMessageQueue(journal, limits=SERVER_LIMITS)
    await queue.start()
    return journal, queue


async def redrive(queue: AsyncMessageQueue) -> None:
    started = await Moves(queue, dead_letters).start(POISON_READER, Choice(HOME, restored=True), None)
    await started.wait()
    assert (started.state, started.unknown) == (move.DONE, 0), started.reason


async def commits_of_a_move() -> tuple[list[Commit], int]:
    """Return the commits of a store, and the number of those before the move."""
    journal, queue = await opened([])
    for topic, reader in ((HOME, HOME_READER), (POISON, POISON_READER)):
        await queue.provide_queue(topic, reader, QUEUE_OPTIONS)
    await queue.publish(POISON, [Draft(b"%d" % number, {"n": str(number)}, "key") for number in range(MESSAGES)])
    await queue.commit()
    before = len(journal.commits)
    await redrive(queue)
    await queue.commit()
    commits = list(journal.commits)
    await queue.close()
    return commits, before


def test_a_crash_after_any_commit_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "BATCH_MESSAGES", 3)
    monkeypatch.setattr(move, "BLOCK", 5)

    async def scenario() -> None:
        commits, before = await commits_of_a_move()
        assert len(commits) - before >= 2 * MESSAGES // 3, "each step publishes, and then acks"
        for count in range(before, len(commits) + 1):
            _, queue = await opened(commits[:count])
            await redrive(queue)
            came: Counter[int] = Counter()
            for delivery in await queue.pull(HOME_READER, 2 * MESSAGES):
                assert dict(delivery.message.attributes) == {"n": delivery.message.data.decode()}
                came[int(delivery.message.data)] += 1
            assert came == Counter(range(MESSAGES)), f"after commit {count}"
            assert (await queue.backlog(POISON_READER)).messages == 0
            await queue.close()

    asyncio.run(scenario())
