"""The data folder of the SQLite journal: private, used by one process at a time, and of a format that this release
reads.
"""

from __future__ import annotations

import builtins
import io
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from penstock.errors import DamagedStoreError, FailedPreconditionError, UnavailableError
from penstock.journal.port import Commit
from penstock.journal.sqlite import SqliteJournal, connection
from penstock.journal.sqlite.connection import require_engine
from tests.conformance.journal.samples import batch, fact, publish, settle

_HOLDER = """
import sys
from pathlib import Path
from penstock.journal.sqlite import SqliteJournal
journal = SqliteJournal(Path(sys.argv[1]), reserve_bytes=0)
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_with_a_sentence_that_names_the_first(folder: Path) -> None:
    command = [sys.executable, "-c", _HOLDER, str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(FailedPreconditionError, match=f"{folder} is in use by process {holder.pid}"):
            SqliteJournal(folder)
        holder.kill()  # a lock ends with its process
    SqliteJournal(folder, reserve_bytes=0).close()


def test_a_removed_lock_file_does_not_unlock_the_folder(folder: Path) -> None:
    """An operator may delete the lock file. A second writer was then accepted, and damaged the store."""
    command = [sys.executable, "-c", _HOLDER, str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        (folder / "lock").unlink()
        for _ in range(2):  # the first attempt creates the file again
            with pytest.raises(FailedPreconditionError, match=f"{folder} is in use by process"):
                SqliteJournal(folder)
        holder.kill()
    SqliteJournal(folder, reserve_bytes=0).close()


def test_the_same_process_is_refused_a_second_time_too(folder: Path) -> None:
    first = SqliteJournal(folder, reserve_bytes=0)
    with pytest.raises(FailedPreconditionError, match=f"process {os.getpid()}"):
        SqliteJournal(folder, reserve_bytes=0)
    first.commit(Commit([fact(1)], []))
    first.close()
    SqliteJournal(folder, reserve_bytes=0).close()


def test_folder_and_files_are_for_their_owner_only(folder: Path) -> None:
    before = os.umask(0o000)  # the least restrictive umask
    try:
        journal = SqliteJournal(folder, reserve_bytes=1 << 20)
        journal.commit(Commit([fact(1)], [batch(1, 0, 5)]))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        journal.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == dict.fromkeys(
        ["lock", "mark", "penstock.db", "penstock.db-shm", "penstock.db-wal", "reserve"], 0o600
    )


def test_an_existing_folder_is_closed_to_others_only_if_nothing_else_is_in_it(tmp_path: Path) -> None:
    for name, mode in (("empty", 0o700), ("shared", 0o755)):
        (tmp_path / name).mkdir(mode=0o755)
        if name == "shared":
            (tmp_path / name / "notes.txt").write_text("of somebody else")
        SqliteJournal(tmp_path / name, reserve_bytes=0).close()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnavailableError, match="cannot be used"):
        SqliteJournal(tmp_path / "file" / "data")


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.50.4", "3.51.2"])
def test_an_engine_with_the_wal_reset_bug_is_refused(version: str) -> None:
    with pytest.raises(FailedPreconditionError, match=f"SQLite {version} can corrupt the journal"):
        require_engine(version)


def test_an_engine_without_the_bug_is_accepted() -> None:
    for version in ("3.51.3", "3.54.1", "4.0.0", apsw.sqlite_lib_version()):
        require_engine(version)


def test_a_setting_the_engine_did_not_take_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_set", lambda *_: None)
    with pytest.raises(FailedPreconditionError):
        SqliteJournal(folder, reserve_bytes=0)


def _alter(folder: Path, statement: str) -> None:
    database = apsw.Connection(str(folder / "penstock.db"))
    database.execute(statement).fetchall()
    database.close()


def test_a_later_format_is_refused_with_a_sentence(folder: Path) -> None:
    SqliteJournal(folder, reserve_bytes=0).close()
    _alter(folder, "PRAGMA user_version=2")
    with pytest.raises(FailedPreconditionError, match="has format 2, and this release reads up to 1"):
        SqliteJournal(folder)


def test_a_database_of_something_else_is_refused(folder: Path) -> None:
    SqliteJournal(folder, reserve_bytes=0).close()
    _alter(folder, "PRAGMA application_id=7")
    with pytest.raises(FailedPreconditionError, match="not a Penstock journal"):
        SqliteJournal(folder)


def test_a_file_that_is_no_database_is_reported(folder: Path) -> None:
    folder.mkdir()
    (folder / "penstock.db").write_bytes(b"something else entirely, and long enough" * 400)
    with pytest.raises(DamagedStoreError, match="damaged"):
        SqliteJournal(folder)


def test_only_the_engine_opens_the_database(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a second handle in the same process would release the engine's locks (sqlite.org/howtocorrupt)."""
    opened: list[str] = []
    for module, name in ((builtins, "open"), (io, "open"), (os, "open")):
        original = getattr(module, name)

        def spy(path: Any, *rest: Any, original: Any = original, **options: Any) -> Any:
            opened.append(str(path))
            return original(path, *rest, **options)

        monkeypatch.setattr(module, name, spy)
    for _ in range(2):
        journal = SqliteJournal(folder, reserve_bytes=1 << 20)
        journal.recover()
        publish(journal, 1, *((0, 5) if not opened.count("x") else ()))
        opened.append("x")
        journal.read(1, 0, 5)
        settle(journal)
        journal.close()
    assert any(path.endswith("mark") for path in opened)
    assert not [path for path in opened if "penstock.db" in path]
