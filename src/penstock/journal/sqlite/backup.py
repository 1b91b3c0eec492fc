"""Backup and restore of a store in a folder. As a module, it is the process that copies a store for a server.

    python -m penstock.journal.sqlite.backup DATA FOLDER        started by the server that has DATA open

The process prints lines of JSON: {"progress": [...]} now and then, at the end {"backup": [...]} or {"error": {...}}.
It has a lower priority than the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from penstock.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PenstockError,
    ResourceExhaustedError,
    where,
)
from penstock.journal.backup.checking import check_backup
from penstock.journal.backup.disk import Disk
from penstock.journal.backup.folder import reading
from penstock.journal.backup.manifest import read_manifest, report_of
from penstock.journal.backup.pacing import Pace
from penstock.journal.backup.restoring import restored_rows
from penstock.journal.backup.writing import write_backup
from penstock.journal.codec import BATCH_ROW, FACTS_ROW, Row
from penstock.journal.port import BackupProgress, BackupReport, JournalFullError
from penstock.journal.sqlite.connection import SQL, open_writer
from penstock.journal.sqlite.errors import Translation
from penstock.journal.sqlite.folder import UNFINISHED, Folder, database_in
from penstock.journal.sqlite.journal import SqliteJournal
from penstock.journal.sqlite.mark import read_mark
from penstock.journal.sqlite.rows import SqliteRows

NICENESS = 10  # with the highest niceness the process would make no progress on a busy machine
LINE_SECONDS = 0.25  # between two lines of progress
TRANSACTION_BYTES = 16 << 20

OnProgress: TypeAlias = Callable[[BackupProgress], None]
StoredRows: TypeAlias = Iterator[tuple[bytes, Row]]


def back_up(data: Path, folder: Path, *, now: int, progress: OnProgress) -> BackupReport:
    """Back up a store that no process has open."""
    if not database_in(data).exists():
        raise NotFoundError(f"There is no store in {data}.")
    held = Folder(data)
    try:
        return _copy(data, folder, now, progress, require_mark=True)
    finally:
        held.release()


def _copy(
    data: Path,
    folder: Path,
    now: int,
    progress: OnProgress,
    *,
    beside_server: bool = False,
    require_mark: bool = False,
) -> BackupReport:
    if folder.resolve().is_relative_to(data.resolve()):
        raise InvalidArgumentError("The backup of a store cannot be inside its own folder.")
    rows = SqliteRows(data)
    try:
        if require_mark:
            _require_mark(data, rows.last_commit())
        rest = Pace(rows.last_commit).rest if beside_server else _no_rest
        return write_backup(rows, folder, now=now, progress=progress, rest=rest)
    finally:
        rows.close()


def _no_rest() -> None:
    pass


def _require_mark(data: Path, commit: int) -> None:
    marked = read_mark(data / "mark")
    if marked is not None and marked.seq > commit:
        raise FailedPreconditionError(
            f"The store in {data} has lost its last {marked.seq - commit} commits; restore a backup, or go on without "
            "them: penstock serve --accept-loss."
        )


# ---------------------------------------------------------------------- restore


def restore(
    folder: Path, data: Path, *, keep_identity: bool, progress: OnProgress, disk: Disk | None = None
) -> BackupReport:
    """Restore a backup into a new or empty folder. After a power cut there is the whole store, or none."""
    disk = disk or Disk()
    require_empty(data)
    with reading(folder):
        manifest = read_manifest(folder)
        total, done = sum(file.bytes for file in manifest.files), 0

        def report_checked(size: int) -> None:
            nonlocal done
            done += size
            progress(BackupProgress("checking", done, total))

        checked = check_backup(manifest, folder, progress=report_checked)
        held = Folder(data, unfinished=True)
        try:
            require_empty(data)
            rows = restored_rows(checked, folder, keep_identity=keep_identity)
            _place(data, held, rows, lambda size: progress(BackupProgress("writing", size, total)), disk)
        finally:
            held.release()
    return report_of(manifest, total)


def _place(data: Path, held: Folder, rows: StoredRows, progress: Callable[[int], None], disk: Disk) -> None:
    """Build the store in a subfolder, and move it out in one step. A failure leaves nothing behind."""
    staging = data / UNFINISHED
    try:
        shutil.rmtree(staging, ignore_errors=True)
        disk.make_folder(staging)
        _build(database_in(staging), rows, progress)
        _open_once(staging)
        disk.sync_path(database_in(staging))
        disk.sync_path(staging)
        disk.rename(database_in(staging), database_in(data))  # from here on it is a store
        disk.sync_path(data)
        disk.rename(staging / "mark", data / "mark")
        shutil.rmtree(staging)
        disk.sync_path(data)
    except BaseException as error:
        if not database_in(data).exists():
            shutil.rmtree(staging, ignore_errors=True)
            held.remove()
        if isinstance(error, JournalFullError):
            raise ResourceExhaustedError(f"There is no room for the store on the disk of {data}.") from error
        if isinstance(error, OSError):
            raise FailedPreconditionError(f"The backup cannot be restored: {error.strerror}.") from error
        raise


def require_empty(data: Path) -> None:
    if data.is_dir() and any(entry.name not in ("lock", "lost+found", UNFINISHED) for entry in data.iterdir()):
        raise FailedPreconditionError(f"{data} is not empty: restore into a folder that is new or empty.")


def _build(database: Path, rows: StoredRows, progress: Callable[[int], None]) -> None:
    statements = {BATCH_ROW: SQL["add_batch"], FACTS_ROW: SQL["add_facts"]}
    with Translation(database.parent, writing=True):
        writer = open_writer(database, None)
        written = waiting = 0
        try:
            writer.execute(SQL["begin"])
            for kind, row in rows:
                writer.execute(statements.get(kind, SQL["add_snapshot"]), row)
                waiting += len(row[-1])
                if waiting >= TRANSACTION_BYTES:
                    writer.execute(SQL["commit"])
                    writer.wal_checkpoint()
                    writer.execute(SQL["begin"])
                    written, waiting = written + waiting, 0
                    progress(written)
            writer.execute(SQL["commit"])
        finally:
            writer.close(True)


def _open_once(folder: Path) -> None:
    """Open the new store as the server will, which checks it and writes its mark."""
    journal = SqliteJournal(folder, reserve_bytes=0)
    try:
        journal.recover()
    finally:
        journal.close()


# ---------------------------------------------------------------------- the process


def main() -> int:
    data, folder = Path(sys.argv[1]), Path(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server, which ends this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.nice(NICENESS)
    reported_at = 0.0

    def report(progress: BackupProgress) -> None:
        nonlocal reported_at
        if (now := time.monotonic()) - reported_at >= LINE_SECONDS:
            reported_at = now
            _print_line(progress=progress)

    try:
        _print_line(backup=_copy(data, folder, time.time_ns(), report, beside_server=True))
    except PenstockError as error:
        _print_line(error={"kind": type(error).__name__, "message": error.message})
        return 1
    except BrokenPipeError:  # the server is gone
        return 1
    except Exception as error:  # noqa: BLE001 - a bug; the server logs it
        line = {"kind": "InternalError", "message": "The backup met an internal error.", "where": where(error)}
        _print_line(error=line)
        return 1
    return 0


def _print_line(**line: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
