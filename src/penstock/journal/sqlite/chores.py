"""Idle-time work: deleting rows and giving their space back to the disk, a slice at a time.

A commit never waits for a big delete: each slice is one short transaction of bounded rows and bytes. After a crash,
`sweep` and the snapshots lead to the same rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from penstock.broker.names import MAX_OFFSET, MAX_TOPIC, log_key
from penstock.journal.codec import Row, require_between, topic_of
from penstock.journal.sqlite.connection import PAGE_BYTES, SQL, value
from penstock.journal.sqlite.wal import IDLE_PAGES, WriteAheadLog

SLICE_BYTES = 4 << 20
SLICE_ROWS = 256
SLICE_PAGES = 256
MAX_KEY = log_key(MAX_TOPIC, MAX_OFFSET)
SPARE_PAGES = (2 << 20) // PAGE_BYTES  # free pages kept in the file for the next commits to use


class Chores:
    def __init__(self, writer: apsw.Connection, log: WriteAheadLog) -> None:
        self._writer, self._log = writer, log
        self._forgotten: dict[int, int] = {}  # topic -> offset below which its batches may be deleted
        self._superfluous = 0  # facts up to this commit are covered by the older snapshot
        self._shrunk = False  # True: the next checkpoint makes the file shorter

    def forget(self, topic: int, until: int) -> None:
        self._forgotten[topic] = until

    def cover(self, seq: int) -> None:
        """Allow to delete the facts up to commit `seq`."""
        self._superfluous = max(self._superfluous, seq)

    def slice(self) -> bool:
        """Do a slice of the most urgent work. Return False if there is none."""
        return self._move_log() or self._forget_some() or self._drop_facts() or self._shrink()

    def stored_topics(self) -> list[int]:
        """Find the topics that have messages, with one seek per topic."""
        topics: list[int] = []
        start = 0
        while (key := value(self._writer, SQL["next_id"], (start,))) is not None:
            require_between(key, start, MAX_KEY)
            topics.append(topic_of(key))
            start = log_key(topics[-1] + 1, 0)
        return topics

    def _move_log(self) -> bool:
        if self._log.waiting < IDLE_PAGES and not (self._shrunk and not self._forgotten):
            return False
        self._shrunk = False
        self._log.checkpoint()
        return True

    def _forget_some(self) -> bool:
        if not self._forgotten:
            return False
        rows = size = 0
        finished: list[tuple[int, int]] = []
        with self._transaction():
            for topic, until in list(self._forgotten.items())[:SLICE_ROWS]:
                taken, length, all_gone = self._forget_batches(topic, until)
                rows, size = rows + taken, size + length
                if all_gone:
                    finished.append((topic, until))
                if rows >= SLICE_ROWS or size >= SLICE_BYTES:
                    break
        for topic, until in finished:  # known only after the commit
            if self._forgotten[topic] == until:
                del self._forgotten[topic]
        return True

    def _forget_batches(self, topic: int, until: int) -> tuple[int, int, bool]:
        """Delete the first batches wholly below `until`. Return (rows, bytes, whether these were all)."""
        first, last = log_key(topic, 0), log_key(topic, min(until, MAX_OFFSET))
        batches = list(self._writer.execute(SQL["batches_between"], (first, last)))
        size, taken = 0, 0
        for key, end, length in batches:
            require_between(key, first, last)
            if end > until or size >= SLICE_BYTES:
                break
            size, taken = size + length, taken + 1
        if taken:
            self._writer.execute(SQL["drop_batches_between"], (first, batches[taken - 1][0]))
        return taken, size, taken < SLICE_ROWS and size < SLICE_BYTES

    def _drop_facts(self) -> bool:
        if not self._superfluous:
            return False
        last, size = 0, 0
        rows: list[Row] = self._writer.execute(SQL["facts_until"], (self._superfluous,)).fetchall()
        for seq, length in rows:
            last, size = seq, size + length
            if size >= SLICE_BYTES:
                break
        with self._transaction():
            self._writer.execute(SQL["drop_facts_until"], (last,))
        if last in (0, self._superfluous):
            self._superfluous = 0
        return True

    def _shrink(self) -> bool:
        free = value(self._writer, "PRAGMA freelist_count")
        if free <= SPARE_PAGES:
            return False
        for _ in self._writer.execute(f"PRAGMA incremental_vacuum({min(SLICE_PAGES, free - SPARE_PAGES)})"):
            pass  # the engine frees one page per step
        self._shrunk = True
        return True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute(SQL["begin"])
        try:
            yield
            self._writer.execute(SQL["commit"])
        finally:
            if self._writer.in_transaction:
                self._writer.execute(SQL["rollback"])
