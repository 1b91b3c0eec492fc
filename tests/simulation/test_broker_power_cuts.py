"""A power cut under the whole broker loses nothing that was answered (law 1; reliability bars 1 and 2).

The journal has cuts of its own. These go through MessageQueue: publishes, leases, acks, returns, dead letters,
snapshots of the state and restarts. To repeat a failing cut: `python -m tests.simulation.test_broker_power_cuts SEED
PLACE`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock import DamagedStoreError, ManualClock, MessageQueue
from penstock.broker.log import Sizes
from penstock.broker.model import SECOND
from penstock.journal.sqlite import SqliteJournal, connection, journal
from tests.simulation.checker import check
from tests.simulation.journal import powercut
from tests.simulation.journal.workload import low_limits
from tests.simulation.workload import SUBSCRIPTIONS, Workload

CUTS_PER_LIFE = 50
STEPS = 40
CACHE_BYTES = 3000  # so small that messages are sometimes read from the journal


@contextmanager
def small_store() -> Iterator[None]:
    """Write snapshots after a few commits, and checkpoint and delete all the time."""
    with low_limits(), patch.multiple(journal, SNAPSHOT_BYTES=3000, SNAPSHOT_FACTOR=0):
        yield


class Cuts:
    """The workload and the check of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._attempted: dict[bytes, str] = {}

    def run(self, cuts: int = CUTS_PER_LIFE, only: Sequence[int] = ()) -> int:
        try:
            return powercut.run(self.seed, self.workload, self.check, cuts=cuts, only=only)
        except AssertionError as error:
            error.add_note(f"to repeat it: python -m {__name__} {self.seed} (and the number after only=)")
            raise

    def workload(self, disk: powercut.Disk) -> None:
        clock = ManualClock()
        workload = Workload(clock, disk.random, disk.acknowledge)
        with small_store():
            for life in range(2):
                queue = open_queue(disk, clock)
                workload.set_up(queue)
                for _ in range(STEPS):
                    workload.step(queue)
                if life == 0:
                    queue.close()
        self._attempted = dict(workload.published)
        queue.engine.journal.close()  # without the snapshot that closing a queue writes

    def check(self, folder: Path, told: list[Any]) -> None:
        check_cut(folder, told, self._attempted)


def open_queue(disk: powercut.Disk, clock: ManualClock) -> MessageQueue:
    journal = SqliteJournal(disk.folder, vfs=disk.vfs, reserve_bytes=0)
    return MessageQueue(journal, clock=clock, sizes=Sizes(cache_bytes=CACHE_BYTES))


def check_cut(folder: Path, told: list[Any], attempted: dict[bytes, str]) -> None:
    clock = ManualClock(told[-1].at) if told else ManualClock()
    queue = MessageQueue(SqliteJournal(folder, reserve_bytes=0), clock=clock)
    try:
        check(queue, clock, told, attempted)
    finally:
        queue.close()


def test_a_power_cut_breaks_no_promise(rounds: Callable[[int, int], int]) -> None:
    """Law 1; 004 BR-006, BR-008, BR-010, BR-016: lost, ack_durable, lease_exclusive, attempts, key_order all hold."""
    wanted, done = rounds(1_000, 100_000), 0
    while done < wanted:
        done += Cuts(done // CUTS_PER_LIFE).run()


def test_leases_that_end_before_a_queue_is_closed_have_ended_after_the_cut() -> None:
    """The store knows when it was closed. Its leases end by that time, even if it is the last record."""
    attempted: dict[bytes, str] = {}

    def wait_and_close(disk: powercut.Disk) -> None:
        clock = ManualClock()
        workload, queue = Workload(clock, disk.random, disk.acknowledge), open_queue(disk, clock)
        workload.set_up(queue)
        workload.publish(queue)
        while not workload.held:
            workload.pull(queue)
        end = clock.now() + max(options.lease_seconds for _, options in SUBSCRIPTIONS.values()) * SECOND
        while clock.now() < end:
            workload.wait(queue)
        attempted.update(workload.published)
        queue.close()

    powercut.run(1, wait_and_close, lambda folder, told: check_cut(folder, told, attempted), only=range(100))


def test_the_same_cuts_find_the_losses_of_a_store_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness can fail: with synchronous=NORMAL promises are broken, reported by the mark or silently."""
    monkeypatch.setattr(connection, "SYNCHRONOUS", 1)
    assert broken_promises(range(4)) > 10


def broken_promises(seeds: range) -> int:
    """Return the number of cuts for which a check fails."""
    found = 0
    for seed in seeds:
        cuts = Cuts(seed)

        def tolerant(folder: Path, told: list[Any], cuts: Cuts = cuts) -> None:
            nonlocal found
            try:
                cuts.check(folder, told)
            except (AssertionError, DamagedStoreError):
                found += 1

        powercut.run(seed, cuts.workload, tolerant, cuts=CUTS_PER_LIFE)
    return found


if __name__ == "__main__":
    Cuts(int(sys.argv[1])).run(only=[int(place) for place in sys.argv[2:]])
