"""The write-ahead log, whose pages are moved into the database in time, so that it stays small."""

from __future__ import annotations

import apsw

from penstock.journal.sqlite.connection import PAGE_BYTES

IDLE_PAGES = (4 << 20) // PAGE_BYTES  # maintain() checkpoints a log of this length
BUSY_PAGES = (16 << 20) // PAGE_BYTES  # a commit does, if maintain() was not called
LIMIT_PAGES = (40 << 20) // PAGE_BYTES  # from here on a commit waits for the readers, to restart the log
TIGHT_PAGES = (1 << 20) // PAGE_BYTES  # on a full disk, a log of this length gives its space back


class WriteAheadLog:
    def __init__(self, writer: apsw.Connection, reserve_bytes: int) -> None:
        self._writer = writer
        # A checkpoint may make the database grow by the size of the log, so the log must fit the reserve. Otherwise a
        # full disk could neither take another commit nor give back the log.
        room = max(reserve_bytes // 4 // PAGE_BYTES, TIGHT_PAGES) if reserve_bytes else BUSY_PAGES
        self._busy_pages = min(BUSY_PAGES, room)
        self._limit_pages = min(LIMIT_PAGES, 2 * room) if reserve_bytes else LIMIT_PAGES
        self._pages = 0
        self._moved = 0  # pages that are in the database already
        writer.set_wal_hook(self._on_growth)

    @property
    def waiting(self) -> int:
        """The number of pages that are only in the log."""
        return self._pages - self._moved

    def relieve(self, *, tight: bool) -> None:
        """Checkpoint after a commit if that cannot wait. `tight`: the disk is full."""
        if tight and self._pages >= TIGHT_PAGES:
            self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        elif self._pages >= self._limit_pages:
            self.checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
        elif self.waiting >= self._busy_pages:
            self.checkpoint()

    def checkpoint(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> None:
        try:
            self._pages, self._moved = self._writer.wal_checkpoint(mode=mode)
        except apsw.BusyError:  # a reader was in the way for long; the next commit tries again
            self._moved = 0

    def _on_growth(self, connection: apsw.Connection, database: str, pages: int) -> int:
        if pages < self._pages:  # the log was restarted
            self._moved = 0
        self._pages = pages
        return apsw.SQLITE_OK
