"""Disk space: it is reclaimed, the log stays small, reads are fast, and a full disk has space for acks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Event

import apsw
import pytest

from penstock.broker.model import Batch
from penstock.journal import codec
from penstock.journal.port import Commit, JournalFullError, NotStorableError, Recovered
from penstock.journal.sqlite import SqliteJournal, chores, reserve
from penstock.journal.sqlite.connection import SQL
from tests.conformance.journal.samples import batch, dump, fact, message, messages, publish, settle
from tests.simulation.journal.faults import Fault, SmallDisk, faulty_disk

BODY = bytes(range(256)) * 4
LOG_LIMIT = 64 << 20


def _large(topic: int, first: int, count: int) -> Batch:
    return Batch(topic, first, [message(offset, BODY) for offset in range(first, first + count)])


def test_forgotten_messages_give_their_space_back_to_the_disk(folder: Path) -> None:
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    for first in range(0, 20_000, 100):
        journal.commit(Commit([], [_large(1, first, 100)]))
    settle(journal)
    before = (folder / "penstock.db").stat().st_size
    assert before > 20 << 20
    journal.forget(1, 19_900)
    assert settle(journal) > 5, "in slices, not at once"
    after = (folder / "penstock.db").stat().st_size
    assert after < chores.SPARE_PAGES * 8192 + (1 << 20)
    assert len(journal.read(1, 19_900, 20_000)) == 100
    journal.close()


def test_a_slice_of_forgetting_is_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice deletes a limited number of rows and bytes, so a commit never waits for a large deletion."""
    monkeypatch.setattr(chores, "SLICE_ROWS", 10)
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    for topic in range(30):
        publish(journal, topic, 0, 1, 2, 3)
        journal.forget(topic, 3)
    remaining = []
    while True:
        remaining.append(_count(folder))
        if not journal.maintain():
            break
    steps = [before - after for before, after in pairwise(remaining)]
    assert max(steps) <= 12
    assert remaining[-1] == 0
    journal.close()


def _count(folder: Path) -> int:
    reader = apsw.Connection(str(folder / "penstock.db"), flags=apsw.SQLITE_OPEN_READONLY)
    (rows,) = reader.execute("SELECT count(*) FROM batches").fetchall()
    reader.close()
    return int(rows[0])


def test_the_log_stays_small_in_a_long_run_without_maintenance(folder: Path) -> None:
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    largest = 0
    for first in range(0, 150_000, 500):  # about 150 MiB
        journal.commit(Commit([], [_large(1, first, 500)]))
        largest = max(largest, (folder / "penstock.db-wal").stat().st_size)
    assert largest <= LOG_LIMIT
    journal.close()
    assert not (folder / "penstock.db-wal").exists(), "closing leaves one file"


def test_the_log_stays_small_under_busy_readers(folder: Path) -> None:
    """Readers keep SQLite from reusing the log. Beyond its limit, the writer waits for the readers."""
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    journal.commit(Commit([], [_large(1, 0, 500)]))
    done = Event()

    def read() -> None:
        while not done.is_set():
            assert len(journal.read(1, 0, 500)) == 500

    largest = 0
    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        for first in range(500, 60_000, 500):
            journal.commit(Commit([], [_large(1, first, 500)]))
            largest = max(largest, (folder / "penstock.db-wal").stat().st_size)
        done.set()
        assert [reader.result() for reader in readers] == [None] * 3
    assert largest <= LOG_LIMIT
    journal.close()


def test_every_statement_finds_its_rows_by_rowid(folder: Path) -> None:
    """Law 6: the cost does not depend on depth. No statement scans, sorts or uses another index."""
    SqliteJournal(folder, reserve_bytes=0).close()
    database = apsw.Connection(str(folder / "penstock.db"))
    asked = 0
    for name, statement in SQL.items():
        if statement.startswith(("SELECT", "DELETE", "INSERT")):
            steps = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", _bindings(statement))]
            wrong = [step for step in steps if not _by_rowid(step, statement)]
            assert wrong == [], f"{name}: {wrong}"
            asked += 1
    database.close()
    assert asked >= 15


def _bindings(statement: str) -> dict[str, int] | tuple[int, ...]:
    return {"topic": 1, "first": 1, "last": 1} if ":topic" in statement else (1,) * statement.count("?")


def _by_rowid(step: str, statement: str) -> bool:
    """Return whether the plan is a search by rowid.

    A walk that starts at the last row is one, too, if it ends after one or two rows.
    """
    if step.startswith("SCAN"):
        return statement.endswith(("ORDER BY seq DESC LIMIT 1", "ORDER BY seq DESC LIMIT 2"))
    return "USING INTEGER PRIMARY KEY (rowid" in step or step.startswith("SCALAR SUBQUERY")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_on_a_full_disk_the_reserve_lets_the_commit_through(folder: Path) -> None:
    """The disk counts as full while the reserve takes up its space. The test sets the time."""
    clock, log = Clock(), list[str]()
    with faulty_disk(Fault("write", apsw.FullError, lasting=True, while_exists=folder / "reserve")) as fault:
        SqliteJournal(folder, reserve_bytes=0).close()
        journal = SqliteJournal(folder, vfs=fault.vfs, reserve_bytes=1 << 20, clock=clock, log=log.append)
        journal.recover()
        assert (folder / "reserve").stat().st_blocks * 512 >= 1 << 20
        assert not journal.full
        journal.commit(Commit([fact(1)], [batch(1, 0, 3)]))
        assert journal.full, "new messages are refused"
        assert not (folder / "reserve").exists()
        journal.commit(Commit([fact(2)], []))
        assert journal.read(1, 0, 3) == messages(0, 3)
        fault.heal()
        journal.maintain()
        assert journal.full, "the disk is checked again too soon"
        clock.now = reserve.CHECK_SECONDS
        journal.maintain()
        assert not journal.full
        assert (folder / "reserve").stat().st_size == 1 << 20
        journal.close()
    assert ["is full" in line for line in log] == [True, False]
    assert "has space again" in log[1]
    again = SqliteJournal(folder, reserve_bytes=0)
    assert again.recover().facts == [fact(1), fact(2)]
    again.close()


def test_without_room_for_the_reserve_the_journal_stays_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with faulty_disk(Fault("write", apsw.FullError, lasting=True, while_exists=folder / "reserve")) as fault:
        SqliteJournal(folder, reserve_bytes=0).close()
        journal = SqliteJournal(folder, vfs=fault.vfs, reserve_bytes=1 << 20, clock=clock)
        journal.recover()
        journal.commit(Commit([fact(1)], []))
        monkeypatch.setattr(reserve, "_available", lambda _: (1 << 20) + reserve.SLACK_BYTES - 1)
        for _ in range(3):
            clock.now += reserve.CHECK_SECONDS
            journal.maintain()
            assert journal.full
        monkeypatch.setattr(reserve, "_available", lambda _: (1 << 20) + reserve.SLACK_BYTES)
        fault.heal()
        clock.now += reserve.CHECK_SECONDS
        journal.commit(Commit([fact(2)], []))
        assert not journal.full, "a commit checks the disk, too"
        journal.close()


def test_when_even_the_reserve_does_not_help_nothing_is_written(folder: Path) -> None:
    SqliteJournal(folder, reserve_bytes=0).close()
    with faulty_disk(Fault("write", apsw.FullError, lasting=True)) as fault:
        journal = SqliteJournal(folder, vfs=fault.vfs, reserve_bytes=1 << 20)
        journal.recover()
        for _ in range(2):
            with pytest.raises(JournalFullError, match="The disk is full"):
                journal.commit(Commit([fact(1)], [batch(1, 0, 3)]))
            assert journal.full
        fault.heal()
        journal.commit(Commit([fact(2)], [batch(1, 0, 2)]))
        journal.close()
    again = SqliteJournal(folder, reserve_bytes=0)
    assert again.recover().facts == [fact(2)]
    assert again.read(1, 0, 2) == messages(0, 2)
    again.close()


def test_a_disk_that_fills_up_takes_acks_and_recovers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk of 24 MiB is filled with messages.

    Then acks are stored, messages are forgotten, and publishing works again.
    """
    clock, tail, acks = Clock(), 0, 5_000
    with faulty_disk(SmallDisk(folder, 24 << 20)) as disk:
        monkeypatch.setattr(reserve, "_available", lambda _: disk.available)
        journal = SqliteJournal(folder, vfs=disk.vfs, clock=clock)
        journal.recover()
        while not journal.full:
            journal.commit(Commit([], [_large(1, tail, 100)]))
            tail += 100
        assert tail > 10_000
        for number in range(acks):
            journal.commit(Commit([fact(number, 100)], []))
        assert journal.full
        journal.forget(1, tail - 100)
        settle(journal)
        clock.now = reserve.CHECK_SECONDS
        journal.maintain()
        assert not journal.full
        journal.commit(Commit([], [_large(1, tail, 100)]))
        journal.close()
    again = SqliteJournal(folder, reserve_bytes=0)
    assert len(again.recover().facts) == acks
    assert len(again.read(1, tail - 100, tail + 100)) == 200
    again.close()


def test_a_small_disk_gets_a_small_reserve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserve, "_available", lambda _: 8 << 20)
    journal = SqliteJournal(folder)
    assert (folder / "reserve").stat().st_size == 2 << 20
    journal.close()


def test_after_a_restart_a_topic_with_nothing_left_has_no_gap(folder: Path) -> None:
    """Reads leave out the range that sweep() covers, even if no row of the topic is stored."""
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    publish(journal, 1, 0, 1)
    journal.forget(1, 1)
    settle(journal)
    journal.close()
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    journal.sweep({1: 1})
    assert journal.read(1, 0, 1) == []
    journal.close()


def test_a_large_commit_is_stored_in_several_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many publishes may share a commit, and a row of more than 1 GB stopped the server."""
    monkeypatch.setattr(codec, "PART_BYTES", 100 * len(BODY))
    monkeypatch.setattr(codec, "PART_MESSAGES", 150)
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    stored = [message(offset, BODY)._replace(position=offset * len(BODY)) for offset in range(1000)]
    small = [message(offset, b"") for offset in range(400)]
    journal.commit(Commit([], [Batch(1, 0, stored), Batch(2, 0, small), batch(3, 0, 150)]))
    assert journal.read(1, 0, 1000) == stored
    assert journal.read(2, 0, 400) == small
    assert journal.read(1, 99, 305) == stored[99:305]
    journal.close()
    assert _count(folder) == 10 + 3 + 1


def test_a_state_that_is_too_large_for_a_snapshot_stops_nothing(folder: Path) -> None:
    """It stopped the server, and would have stopped it again soon after each start."""
    lines: list[str] = []
    journal = SqliteJournal(folder, reserve_bytes=0, log=lines.append)
    journal.recover()
    journal._writer.limit(apsw.SQLITE_LIMIT_LENGTH, 1 << 20)
    journal.commit(Commit([fact(1)], [batch(1, 0, 2)], dump(1, 1 << 20)))
    journal.commit(Commit([fact(2)], [], dump(2)))
    journal.commit(Commit([fact(3)], [], dump(3, 1 << 20)))
    assert len(lines) == 2
    assert "too large for a snapshot" in lines[0]
    with pytest.raises(NotStorableError):
        journal.commit(Commit([fact(4, 1 << 20)], []))
    journal.commit(Commit([fact(5)], []))
    journal.close()
    again = SqliteJournal(folder, reserve_bytes=0)
    assert again.recover() == Recovered(dump(2), [fact(3), fact(5)])
    assert again.read(1, 0, 2) == messages(0, 2)
    again.close()
