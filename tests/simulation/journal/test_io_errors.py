"""A failing disk is never hidden: every read, write, sync and truncation fails once, in turn (law 1, law 8).

After an I/O error the journal refuses every call, and acknowledged commits are there after a restart. After "disk
full" nothing of the refused commit is stored, and the journal continues as soon as there is space.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest

from penstock.errors import PenstockError, UnavailableError
from penstock.journal.port import Commit, JournalFailedError, JournalFullError
from penstock.journal.sqlite import SqliteJournal
from tests.simulation.journal.faults import Fault, faulty_disk
from tests.simulation.journal.powercut import FAST_DISK
from tests.simulation.journal.workload import (
    Committed,
    Event,
    Life,
    check_messages,
    count_recovered,
    floors_of,
    live,
    low_limits,
)

STEPS = 14


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=FAST_DISK if FAST_DISK.is_dir() else None) as folder:
        yield Path(folder)


class Run:
    """A run of the workload on a disk that fails once."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._random = folder, Random(seed)
        self.life = Life(Random(seed))
        self.events: list[Event] = []

    def live(self, vfs: str) -> None:
        with low_limits():
            journal = SqliteJournal(self._folder, vfs=vfs, reserve_bytes=0)
            try:
                journal.recover()
                live(self.life, journal, self._random, STEPS, self.events.append)
            except JournalFailedError:
                _refuses_everything(journal)
                raise
            finally:
                journal.close()

    def live_on(self, fault: Fault) -> None:
        """Handle a full disk: check that reading works, and continue when there is space."""
        try:
            journal = SqliteJournal(self._folder, vfs=fault.vfs, reserve_bytes=0)
        except JournalFullError:
            return  # not even the empty database fits
        journal.recover()
        try:
            live(self.life, journal, self._random, STEPS, self.events.append)
        except JournalFullError:
            assert journal.full
            check_messages(self.life, journal, len(self.life.commits) - 1, floors_of(self.events))
            fault.heal()
            journal.commit(self.life.commits[-1])
        fault.heal()
        live(self.life, journal, self._random, 2, self.events.append)
        journal.close()

    @property
    def told(self) -> int:
        return max((event.number for event in self.events if isinstance(event, Committed)), default=0)

    def recovered(self) -> int:
        journal = SqliteJournal(self._folder, reserve_bytes=0)
        recovered = count_recovered(self.life, journal.recover())
        check_messages(self.life, journal, recovered, floors_of(self.events))
        journal.close()
        return recovered


def _refuses_everything(journal: SqliteJournal) -> None:
    calls: list[Callable[[], object]] = [
        lambda: journal.commit(Commit([], [])),
        lambda: journal.read(1, 0, 1),
        lambda: journal.find(1, 0),
        lambda: journal.forget(1, 1),
        lambda: journal.sweep({}),
        journal.maintain,
        journal.recover,
    ]
    for call in calls:
        with pytest.raises(JournalFailedError):
            call()


@pytest.mark.parametrize("call", ["read", "write", "sync", "truncate"])
def test_after_an_io_error_the_journal_stops_and_acknowledged_commits_are_there(
    call: str, folder: Path, rounds: Callable[[int, int], int]
) -> None:
    for seed in range(rounds(1, 50)):
        for place in count(1):
            run = Run(folder / f"{seed}-{place}", seed)
            with faulty_disk(Fault(call, apsw.IOError, at=place)) as fault:
                try:
                    run.live(fault.vfs)
                except PenstockError:
                    assert fault.fired
            recovered = run.recovered()
            assert run.told <= recovered <= run.told + 1, (
                f"{call} {place}: {run.told} acknowledged, {recovered} recovered"
            )
            if not fault.fired:
                break


def test_a_commit_refused_by_a_full_disk_is_not_there(folder: Path, rounds: Callable[[int, int], int]) -> None:
    for seed in range(rounds(1, 50)):
        for place in count(1):
            run = Run(folder / f"{seed}-{place}", seed)
            with faulty_disk(Fault("write", apsw.FullError, at=place, lasting=True)) as fault:
                try:
                    run.live(fault.vfs)
                except JournalFullError:
                    assert fault.fired
            assert run.recovered() == run.told, f"write {place}"
            if not fault.fired:
                break


@pytest.mark.parametrize("lasting", [True, False])
def test_a_journal_continues_after_a_full_disk(lasting: bool, folder: Path, rounds: Callable[[int, int], int]) -> None:
    """After JournalFullError reads work at once, and the same commit succeeds when there is space."""
    for seed in range(rounds(1, 50)):
        for place in count(1):
            run = Run(folder / f"{seed}-{place}", seed)
            with low_limits(), faulty_disk(Fault("write", apsw.FullError, at=place, lasting=lasting)) as fault:
                run.live_on(fault)
            assert run.recovered() == len(run.life.commits), f"write {place}"
            if not fault.fired:
                break


def test_a_closed_journal_says_so(folder: Path) -> None:
    journal = SqliteJournal(folder / "data", reserve_bytes=0)
    journal.close()
    with pytest.raises(UnavailableError, match="closed"):
        journal.commit(Commit([], []))
    journal.close()
