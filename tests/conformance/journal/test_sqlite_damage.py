"""Damage to a SQLite store is reported with a helpful sentence, and opening the store changes nothing (law 8)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from penstock.errors import DamagedStoreError, PenstockError
from penstock.journal.port import Commit, Recovered
from penstock.journal.sqlite import SqliteJournal, opening
from tests.conformance.journal.samples import batch, dump, fact, messages, settle

Alter = Callable[[str], None]


@pytest.fixture
def store(folder: Path) -> Path:
    """Create a store with commits 1 to 6, messages in every commit, and snapshots at 2 and 4. It is closed in order."""
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    for number in range(1, 7):
        snapshot = dump(number) if number in (2, 4) else None
        journal.commit(Commit([fact(number)], [batch(1, number * 3 - 3, number * 3)], snapshot))
    journal.close()
    return folder


@pytest.fixture
def alter(store: Path) -> Alter:
    def alter(statement: str) -> None:
        database = apsw.Connection(str(store / "penstock.db"))
        database.execute(statement).fetchall()
        database.close()

    return alter


def _recover(store: Path, *, accept_loss: bool = False, log: list[str] | None = None) -> Recovered:
    lines = [] if log is None else log
    journal = SqliteJournal(store, reserve_bytes=0, accept_loss=accept_loss, log=lines.append)
    try:
        return journal.recover()
    finally:
        journal.close()


def test_the_store_of_these_tests_is_whole(store: Path) -> None:
    log: list[str] = []
    assert _recover(store, log=log) == Recovered(dump(4), [fact(5), fact(6)])
    assert log == []


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE facts SET body = zeroblob(length(body)) WHERE seq = 5", "the facts of commit 5 do not match"),
        ("UPDATE facts SET crc = crc + 1 WHERE seq = 6", "the facts of commit 6 do not match"),
        ("UPDATE facts SET body = 'text' WHERE seq = 5", "the facts of commit 5 do not match"),
        ("UPDATE facts SET (crc, body) = (SELECT crc, body FROM facts WHERE seq = 6) WHERE seq = 5", "commit 5 do not"),
        ("DELETE FROM facts WHERE seq = 5", "commit 5 of 6 is missing"),
        ("UPDATE snapshots SET body = x'00' WHERE seq = 4", "the snapshot of commit 4 do"),
        ("DELETE FROM facts WHERE seq > 4", "has lost its last 2 commits: it ends at 4, not at 6"),
        ("DELETE FROM facts", "has lost its last 6 commits: it ends at 0, not at 6"),
    ],
)
def test_a_changed_or_missing_row_of_the_state_is_reported(
    store: Path, alter: Alter, statement: str, sentence: str
) -> None:
    alter(statement)
    for _ in range(2):  # the damage stays, to be reported the next time
        with pytest.raises(DamagedStoreError, match=sentence):
            _recover(store)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE batches SET body = zeroblob(length(body)) WHERE until = 9",
        "UPDATE batches SET until = 10 WHERE until = 9",
        "UPDATE batches SET last_at = last_at + 1 WHERE until = 9",
        "UPDATE batches SET last_at = NULL WHERE until = 9",
        "UPDATE batches SET id = id + 1 WHERE until = 9",
        "UPDATE batches SET (crc, body) = (SELECT crc, body FROM batches WHERE until = 12) WHERE until = 9",
        "DELETE FROM batches WHERE until = 9",
    ],
)
def test_a_changed_or_missing_row_of_messages_is_reported(store: Path, alter: Alter, statement: str) -> None:
    if "NULL" in statement:
        without = "replace(sql, 'last_at INTEGER NOT NULL', 'last_at INTEGER')"
        alter(f"PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = {without}")
    alter(statement)
    journal = SqliteJournal(store, reserve_bytes=0)
    journal.recover()
    assert journal.read(1, 0, 6) == messages(0, 6), "undamaged messages can be read"
    with pytest.raises(DamagedStoreError, match="The store is damaged"):
        journal.read(1, 0, 18)
    journal.close()


def test_a_hidden_snapshot_changes_nothing(store: Path, alter: Alter) -> None:
    """The facts since the snapshot before are kept, so the state is the same."""
    alter("DELETE FROM snapshots WHERE seq = 4")
    assert _recover(store) == Recovered(dump(2), [fact(3), fact(4), fact(5), fact(6)])


def test_an_operator_may_use_the_snapshot_before_a_damaged_one(store: Path, alter: Alter) -> None:
    alter("UPDATE snapshots SET body = x'00' WHERE seq = 4")
    log: list[str] = []
    recovered = _recover(store, accept_loss=True, log=log)
    assert recovered == Recovered(dump(2), [fact(3), fact(4), fact(5), fact(6)])
    assert "The snapshot before it is used" in log[0]


def test_an_operator_may_accept_the_loss_of_commits(store: Path, alter: Alter) -> None:
    alter("DELETE FROM facts WHERE seq > 4")
    log: list[str] = []
    assert _recover(store, accept_loss=True, log=log) == Recovered(dump(4), [])
    assert "lost its last 2 commits" in log[0]
    assert "accepted" in log[0]
    log.clear()
    assert _recover(store, log=log) == Recovered(dump(4), []), "later starts need no confirmation"
    assert log == []


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "one slot"])
def test_a_damaged_mark_is_logged_and_rewritten(store: Path, damage: str) -> None:
    mark = store / "mark"
    content = mark.read_bytes()
    mark.unlink()
    if damage != "missing":
        mark.write_bytes({"empty": b"", "garbage": b"?" * 600, "one slot": b"?" * 8 + content[8:]}[damage])
    log: list[str] = []
    assert _recover(store, log=log).dump == dump(4)
    assert ["high-water mark" in line for line in log] == [True]
    log.clear()
    _recover(store, log=log)
    assert log == []


def _crashed(folder: Path, copy: Path) -> Path:
    """Copy a store as a crash leaves it, with everything still in the write-ahead log."""
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    for number in range(1, 7):
        journal.commit(Commit([fact(number)], [batch(1, number * 3 - 3, number * 3)]))
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm", "lock"))
    journal.close()
    return copy


def test_a_truncated_log_is_reported_and_not_changed(folder: Path, tmp_path: Path) -> None:
    """SQLite would drop the end of the log silently and then overwrite it (reliability finding 4)."""
    copy = _crashed(folder, tmp_path / "copy")
    log = copy / "penstock.db-wal"
    content = bytearray(log.read_bytes())
    content[-5000] ^= 1
    log.write_bytes(content)
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match="has lost its last 1 commit: it ends at 5, not at 6"):
            SqliteJournal(copy, reserve_bytes=0)
        assert log.read_bytes() == bytes(content)


def test_a_store_without_its_log_is_reported(folder: Path, tmp_path: Path) -> None:
    copy = _crashed(folder, tmp_path / "copy")
    (copy / "penstock.db-wal").unlink()
    with pytest.raises(DamagedStoreError, match="has lost its last 6 commits"):
        SqliteJournal(copy, reserve_bytes=0)


def test_a_store_without_its_log_and_its_mark_is_logged(folder: Path, tmp_path: Path) -> None:
    """All six commits are lost, and no file has their number. A warning is logged."""
    copy = _crashed(folder, tmp_path / "copy")
    for name in ("penstock.db-wal", "mark"):
        (copy / name).unlink()
    log: list[str] = []
    SqliteJournal(copy, reserve_bytes=0, log=log.append).close()
    assert ["ends at commit 0, and whether there were more cannot be told" in line for line in log] == [True]
    log.clear()
    SqliteJournal(tmp_path / "new", reserve_bytes=0, log=log.append).close()
    assert log == []


def test_error_texts_for_clients_do_not_name_the_folder(folder: Path) -> None:
    journal = SqliteJournal(folder, reserve_bytes=0)
    path = str(folder)
    for error in (apsw.FullError("full"), apsw.CorruptError("bad"), apsw.IOError("io"), OSError(5, "io error", path)):
        for translation in (journal._reading, journal._writing):
            with pytest.raises(PenstockError) as told, translation:
                raise error
            assert path not in told.value.message
    journal.close()


def test_a_crashed_store_is_whole(folder: Path, tmp_path: Path) -> None:
    copy = _crashed(folder, tmp_path / "copy")
    assert _recover(copy).facts == [fact(number) for number in range(1, 7)]


@pytest.mark.parametrize(("clean", "limit"), [(True, "CHECKED_BYTES"), (False, "CHECKED_UNCLEAN_BYTES")])
def test_the_structure_is_checked_at_the_start_unless_the_file_is_large(
    clean: bool, limit: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = _crashed(folder, tmp_path / "copy")
    if clean:
        _recover(copy)
    checks: list[str] = []
    monkeypatch.setattr(opening, limit, 1 << 20)
    for expected in (["PRAGMA quick_check(1)"], ["PRAGMA quick_check(facts)", "PRAGMA quick_check(snapshots)"]):
        store = shutil.copytree(copy, tmp_path / str(len(expected)))
        checks.clear()
        apsw.connection_hooks.append(lambda c: c.trace_v2(apsw.SQLITE_TRACE_STMT, lambda e: checks.append(e["sql"])))
        try:
            SqliteJournal(store, reserve_bytes=0).close()
        finally:
            apsw.connection_hooks.pop()
        assert [check for check in checks if "quick_check" in check] == expected
        monkeypatch.setattr(opening, limit, 1)


def test_a_torn_page_found_at_the_start_is_reported(store: Path) -> None:
    database = store / "penstock.db"
    content = bytearray(database.read_bytes())
    for page in range(2, len(content) // 8192):
        content[page * 8192 : page * 8192 + 16] = b"\xff" * 16
    database.write_bytes(content)
    with pytest.raises(DamagedStoreError, match="damaged"):
        SqliteJournal(store, reserve_bytes=0)


def test_facts_covered_by_the_older_snapshot_are_deleted_in_idle_time(store: Path) -> None:
    journal = SqliteJournal(store, reserve_bytes=0)
    journal.recover()
    settle(journal)
    journal.close()
    database = apsw.Connection(str(store / "penstock.db"))
    assert [seq for (seq,) in database.execute("SELECT seq FROM facts")] == [3, 4, 5, 6]
    assert [seq for (seq,) in database.execute("SELECT seq FROM snapshots")] == [2, 4]
    database.close()
    assert _recover(store) == Recovered(dump(4), [fact(5), fact(6)])
