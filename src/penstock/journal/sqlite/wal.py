"""The write-ahead log: how long it is, and when its pages move into the database, so that it stays small."""

from __future__ import annotations

import apsw

from penstock.journal.sqlite.connection import PAGE_BYTES

IDLE_PAGES = (4 << 20) // PAGE_BYTES  # maintain() moves a log of this length along
BUSY_PAGES = (16 << 20) // PAGE_BYTES  # a commit does, if maintain() was not called
LIMIT_PAGES = (40 << 20) // PAGE_BYTES  # and from here on it waits for the readers, to start again from the front
TIGHT_PAGES = (1 << 20) // PAGE_BYTES  # on a full disk the log gives its own space back as well


class WriteAheadLog:
    def __init__(self, writer: apsw.Connection, reserve_bytes: int) -> None:
        self._writer = writer
        # Moving the log may make the database grow by as much, so it must fit the reserve: otherwise a disk that
        # filled up could neither take another commit nor be relieved of the log.
        room = max(reserve_bytes // 4 // PAGE_BYTES, TIGHT_PAGES) if reserve_bytes else BUSY_PAGES
        self._busy_pages = min(BUSY_PAGES, room)
        self._limit_pages = min(LIMIT_PAGES, 2 * room) if reserve_bytes else LIMIT_PAGES
        self._pages = 0
        self._moved = 0  # how many of them are in the database already
        writer.set_wal_hook(self._grown)

    @property
    def waiting(self) -> int:
        """Pages that are in the log only."""
        return self._pages - self._moved

    def relieve(self, *, tight: bool) -> None:
        """After a commit: do what cannot wait; `tight`: the disk is full."""
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

    def _grown(self, connection: apsw.Connection, database: str, pages: int) -> int:
        if pages < self._pages:  # it started again from the front
            self._moved = 0
        self._pages = pages
        return apsw.SQLITE_OK
