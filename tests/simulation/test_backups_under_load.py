"""Backups of a busy store: each one is exactly the store after one of its commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from penstock.broker.model import Draft
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.port import BackupReport
from penstock.journal.sqlite import journal as journal_module
from tests.simulation.backups import LIMITS, WatchedJournal, contents, restore
from tests.simulation.journal.workload import low_limits

PUBLISHERS, CONSUMERS, TOPICS = 4, 2, 3
BATCH = 20


class Load:
    """A thread that publishes and consumes as fast as the queue allows. Acked messages are forgotten at once."""

    def __init__(self, queue: AsyncMessageQueue) -> None:
        self._queue = queue
        self.answered = 0
        self._went_on = asyncio.Event()

    async def publish(self, number: int) -> None:
        count = 0
        while True:
            await self._queue.publish(f"t{count % TOPICS}", [Draft(b"%d-%d" % (number, count)) for _ in range(BATCH)])
            count += 1
            self.answered += 1
            self._went_on.set()

    async def consume(self, topic: str) -> None:
        while True:
            deliveries = await self._queue.pull(topic, BATCH, wait_seconds=1)
            await self._queue.ack([delivery.receipt for delivery in deliveries[1:]])  # one message stays leased

    async def more(self, count: int) -> None:
        goal = self.answered + count
        while self.answered < goal:
            self._went_on.clear()
            await self._went_on.wait()


@asynccontextmanager
async def loaded(journal: WatchedJournal) -> AsyncIterator[tuple[AsyncMessageQueue, Load]]:
    queue = AsyncMessageQueue(journal, limits=LIMITS)
    await queue.start()
    for topic in range(TOPICS):
        await queue.create_topic(f"t{topic}")
        await queue.create_subscription(f"t{topic}", f"t{topic}")
    load = Load(queue)
    tasks = [asyncio.create_task(load.publish(number)) for number in range(PUBLISHERS)]
    tasks += [asyncio.create_task(load.consume(f"t{number}")) for number in range(CONSUMERS)]
    try:
        yield queue, load
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await queue.close()


async def backed_up(queue: AsyncMessageQueue, folder: Path) -> BackupReport:
    *_, report = [news async for news in queue.backup(str(folder))]
    assert isinstance(report, BackupReport)
    return report


@pytest.mark.parametrize("snapshot_bytes", [4 << 20, 20_000])
def test_a_backup_under_load_is_a_prefix_of_the_commits(
    tmp_path: Path, rounds: Callable[[int, int], int], snapshot_bytes: int
) -> None:
    """With frequent snapshots, the facts that a backup is about to copy are often deleted during the backup."""
    asyncio.run(_take_backups(tmp_path, rounds(2, 20), snapshot_bytes))


async def _take_backups(tmp_path: Path, count: int, snapshot_bytes: int) -> None:
    reports: list[tuple[Path, int, int]] = []
    with low_limits(), patch.multiple(journal_module, SNAPSHOT_BYTES=snapshot_bytes, SNAPSHOT_FACTOR=0):
        journal = WatchedJournal(tmp_path / "data")
        async with loaded(journal) as (queue, load):
            for number in range(count):
                await load.more(100)
                began = len(journal.commits)
                folder = tmp_path / f"backup-{number % 3}"  # so that most backups continue an earlier one
                report = await backed_up(queue, folder)
                reports.append((tmp_path / f"restored-{number}", began, report.commit))
                await asyncio.to_thread(restore, folder, tmp_path / f"restored-{number}")
    for restored, began, commit in reports:
        assert began <= commit <= len(journal.commits), "everything that was answered before the backup is in it"
        assert contents(restored) == journal.contents_at(commit), "the contents are exactly the store after that commit"


def test_a_backup_without_its_caller_stops_and_leaves_nothing(tmp_path: Path) -> None:
    asyncio.run(_leave_a_backup(tmp_path))


async def _leave_a_backup(tmp_path: Path) -> None:
    async with loaded(WatchedJournal(tmp_path / "data")) as (queue, load):
        await load.more(50)
        backup = queue.backup(str(tmp_path / "backup"))
        begun = asyncio.ensure_future(anext(backup))
        await load.more(10)
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        await backup.aclose()
        report = await backed_up(queue, tmp_path / "backup")
    assert report.messages
    names = {path.name for path in (tmp_path / "backup").iterdir()}
    assert len(names) == report.files + 2, "the files of the backup, its manifest and its lock"
