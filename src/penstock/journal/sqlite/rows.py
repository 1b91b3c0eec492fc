"""The rows of a store for backups, read by a process beside the writer, or while no process has the store open.

A view is held for one slice, so that the writer can checkpoint its log between slices. Closing changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.broker.names import MAX_OFFSET, log_key
from penstock.journal.codec import Row, first_of, require_between, topic_of
from penstock.journal.port import BatchSeal
from penstock.journal.sqlite.chores import MAX_KEY
from penstock.journal.sqlite.connection import SQL, close_untouched, open_reader, value
from penstock.journal.sqlite.errors import Translation
from penstock.journal.sqlite.folder import database_in

SLICE_BYTES = 1 << 20


class SqliteRows:
    def __init__(self, folder: Path) -> None:
        self._reading = Translation(writing=False)
        database = database_in(folder)
        self._has_log = database.with_name(f"{database.name}-wal").exists()
        with self._reading:
            self._reader = open_reader(database, None)

    @contextmanager
    def view(self) -> Iterator[None]:
        with self._reading:
            self._reader.execute("BEGIN")
        try:
            yield
        finally:
            with self._reading:
                self._reader.execute("ROLLBACK")

    def last_commit(self) -> int:
        with self._reading:
            return value(self._reader, SQL["last_seq"]) or 0

    def snapshot(self) -> Row | None:
        rows = self._slice(SQL["snapshots_newest"], (), 1)
        return rows[0] if rows else None

    def facts(self, after: int) -> list[Row]:
        return self._slice(SQL["facts_after"], (after,))

    def batches(self, topic: int, first: int) -> list[Row]:
        low, high = log_key(topic, first), log_key(topic, MAX_OFFSET)
        rows = self._slice(SQL["batches_from"], (low, high))
        for row in rows:
            require_between(row[0], low, high)
        return rows

    def end(self, topic: int) -> int:
        span = log_key(topic, 0), log_key(topic, MAX_OFFSET)
        with self._reading:
            return value(self._reader, SQL["last_until_between"], span) or 0

    def next_batch(self, topic: int, first: int) -> BatchSeal | None:
        start = log_key(topic, first)
        with self._reading:
            rows: list[Row] = self._reader.execute(SQL["next_seal"], (start,)).fetchall()
        for key, until, crc in rows:
            require_between(key, start, MAX_KEY)
            return BatchSeal(topic_of(key), first_of(key), until, crc)
        return None

    def size_bytes(self) -> int:
        with self._reading:
            return int(value(self._reader, "PRAGMA page_count") * value(self._reader, "PRAGMA page_size"))

    def quick_check(self) -> str:
        """Return `ok` or the fault in the structure of the database. Takes one view, 0.2 s per GiB."""
        with self._reading:
            return str(value(self._reader, "PRAGMA quick_check(1)"))

    def close(self) -> None:
        """Close the store. A log that existed before stays as it is. An empty one, created by reading, is removed."""
        if self._has_log:
            close_untouched(self._reader)
        else:
            self._reader.close(True)

    def _slice(self, sql: str, bindings: tuple[Any, ...], rows_max: int = 1 << 30) -> list[Row]:
        rows: list[Row] = []
        size = 0
        with self._reading:
            cursor = self._reader.cursor()
            try:
                for row in cursor.execute(sql, bindings):
                    rows.append(row)
                    size += len(row[-1]) if isinstance(row[-1], bytes) else 0  # damage is found later
                    if size >= SLICE_BYTES or len(rows) >= rows_max:
                        break
            finally:
                cursor.close(True)
        return rows
