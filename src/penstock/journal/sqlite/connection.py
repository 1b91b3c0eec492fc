"""Connections to the database: one that writes, any number that only read.

The settings for durability are read back. A setting that the engine did not accept, an engine with the WAL-reset bug,
and a file of another kind or a later format are refused before anything is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import apsw

from penstock.errors import DamagedStoreError, FailedPreconditionError
from penstock.journal.named_sql import load

SQL = load(__package__, "queries.sql")

OLDEST_ENGINE = (3, 51, 3)  # the first release in which two connections cannot corrupt a WAL that is being reset
APPLICATION = 0x50454E53  # "PENS"
FORMAT = 1
PAGE_BYTES = 8192  # measured: docs/decisions/0002-sqlite-journal.md
SYNCHRONOUS = 2  # FULL: every commit is synced. The power-cut simulation sets 1 (NORMAL) to prove that it can fail
WAL_BYTES = 64 << 20  # size of the log file after it was emptied, at most
_INCREMENTAL = 2

_Settings: TypeAlias = dict[str, int | str]
_EVERYWHERE: _Settings = {"trusted_schema": "OFF", "cell_size_check": "ON", "wal_autocheckpoint": 0}


def require_engine(version: str) -> None:
    if tuple(int(part) for part in version.split(".")) < OLDEST_ENGINE:
        raise FailedPreconditionError(
            f"SQLite {version} can corrupt the journal; install apsw with SQLite 3.51.3 or later."
        )


def open_writer(database: Path, vfs: str | None) -> apsw.Connection:
    """Open the only connection that commits, checkpoints and deletes."""
    connection = apsw.Connection(str(database), vfs=vfs)
    try:
        if not value(connection, "PRAGMA page_count"):
            # The query rolled back a creation that a power cut interrupted, and a connection keeps its first settings.
            connection.close()
            connection = apsw.Connection(str(database), vfs=vfs)
        connection.set_busy_timeout(5000)  # only readers of this server can be in the way, for a short time
        _set(connection, _EVERYWHERE)
        if not value(connection, "PRAGMA page_count"):  # these would write to a file not yet checked
            _set(connection, {"page_size": PAGE_BYTES, "auto_vacuum": _INCREMENTAL})
        _set(connection, {"journal_mode": "WAL", "synchronous": SYNCHRONOUS, "journal_size_limit": WAL_BYTES})
        _set(
            connection, {"fullfsync": "ON", "checkpoint_fullfsync": "ON"}
        )  # for systems whose fsync does not reach the disk
        _require_format(connection, database)
        _require_durability(connection)
    except BaseException:
        close_untouched(connection)
        raise
    return connection


def open_reader(database: Path, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    connection.set_busy_timeout(1000)
    _set(connection, _EVERYWHERE | {"query_only": "ON"})
    return connection


def close_untouched(connection: apsw.Connection) -> None:
    """Close without a checkpoint, so that a store in doubt stays as it is."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close(True)


def _set(connection: apsw.Connection, settings: _Settings) -> None:
    """Apply settings one by one, because a text of several statements stops after the first that returns a row."""
    for name, setting in settings.items():
        connection.execute(f"PRAGMA {name}={setting}").fetchall()


def _require_format(connection: apsw.Connection, database: Path) -> None:
    if not value(connection, "SELECT count(*) FROM sqlite_schema"):
        with connection:  # a power cut in here leaves an empty database, which is created again
            for name in ("create_facts", "create_batches", "create_snapshots"):
                connection.execute(SQL[name])
            _set(connection, {"application_id": APPLICATION, "user_version": FORMAT})
    if value(connection, "PRAGMA application_id") != APPLICATION:
        raise FailedPreconditionError(f"{database} is a database, but not a Penstock journal.")
    version = value(connection, "PRAGMA user_version")
    if version > FORMAT:
        raise FailedPreconditionError(
            f"{database} has format {version}, and this release reads up to {FORMAT}: use the release that wrote it."
        )
    if version < 1:
        raise DamagedStoreError(f"The store is damaged: {database} has the impossible format {version}.")


def _require_durability(connection: apsw.Connection) -> None:
    wanted: _Settings = {
        "journal_mode": "wal",
        "synchronous": SYNCHRONOUS,
        "auto_vacuum": _INCREMENTAL,
        "wal_autocheckpoint": 0,
        "journal_size_limit": WAL_BYTES,
    }
    for name, expected in wanted.items():
        actual = value(connection, f"PRAGMA {name}")
        if actual != expected:
            raise FailedPreconditionError(f"SQLite did not accept {name}={expected}: it reports {actual}.")


def value(connection: apsw.Connection, sql: str, bindings: tuple[Any, ...] = ()) -> Any:
    """Return the value of a statement with one column and at most one row. None: no row."""
    return connection.execute(sql, bindings).get
