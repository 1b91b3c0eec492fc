"""Readers of messages, for any thread, while the writer goes on.

An answer is complete or an error: every row is checked, and a missing message above the topic's floor is damage. A
reader holds its view of the database only while it fetches, never while it decodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import apsw

from penstock.broker.model import Message
from penstock.broker.names import MAX_OFFSET, log_key
from penstock.errors import DamagedStoreError
from penstock.journal.codec import Row, check_batch, first_of, open_batch, require_between
from penstock.journal.floors import Floors
from penstock.journal.sqlite.connection import SQL


class Readers:
    def __init__(self, connect: Callable[[], apsw.Connection], floors: Floors) -> None:
        self._connect, self._floors = connect, floors
        self._idle: list[apsw.Connection] = []  # at most the greatest number of readers at one time
        self._lock = Lock()
        self._closed = False

    def read(self, topic: int, first: int, until: int, whole: bool, max_bytes: int = 0) -> list[Message]:
        keys = {"topic": log_key(topic, 0), "first": log_key(topic, first), "last": log_key(topic, until - 1)}
        with self.connection() as reader:
            cursor = reader.execute(SQL["read_batches"], keys)
            rows, cut = _first_rows(cursor, max_bytes) if max_bytes else (cursor.fetchall(), False)
        floor = self._floors[topic]  # asked after the fetch: messages forgotten meanwhile may be missing
        if cut and floor > first:
            return self.read(topic, floor, until, whole, max_bytes) if floor < until else []
        return _pick(rows, topic, max(first, floor), until, whole, cut)

    def find(self, topic: int, at: int) -> int | None:
        floor = self._floors[topic]
        with self.connection() as reader:
            row = _first_ending_at_or_after(reader, topic, floor, at)
        if row is None:
            return None
        index = bisect_left(open_batch(row), at, key=lambda message: message.publish_time)
        return max(floor, first_of(row[0]) + index)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close(True)

    @contextmanager
    def connection(self) -> Iterator[apsw.Connection]:
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        reader = reader or self._connect()
        try:
            yield reader
        finally:
            with self._lock:
                self._idle.append(reader)
            if self._closed:  # the journal was closed meanwhile
                self.close()


def _first_rows(rows: apsw.Cursor, max_bytes: int) -> tuple[list[Row], bool]:
    """Return the rows that together reach this number of bytes, and whether more may follow."""
    taken: list[Row] = []
    for row in rows:
        taken.append(row)
        max_bytes -= len(row[-1]) if isinstance(row[-1], bytes) else 0  # damage is found later
        if max_bytes <= 0:
            rows.close(True)  # or the reader would hold its view of the database
            return taken, True
    return taken, False


def _pick(rows: list[Row], topic: int, first: int, until: int, whole: bool, cut: bool) -> list[Message]:
    """Return the messages of a range. With `cut`, rows may be missing at the end, but not in between."""
    picked: list[Message] = []
    wanted = first
    for row in rows:
        messages = open_batch(row)  # first, because an unchecked row may hold anything
        require_between(row[0], log_key(topic, 0), log_key(topic, MAX_OFFSET))
        start, end = first_of(row[0]), row[1]
        if end <= wanted:  # wholly before the range
            continue
        if start > wanted:
            cut = False
            break
        picked += messages[wanted - start : None if whole else until - start]
        wanted = min(end, until)
    if wanted < until and not (cut and picked):
        raise DamagedStoreError(
            f"The store is damaged: topic {topic} lacks messages from offset {wanted} on, expected up to {until}."
        )
    return picked


def _first_ending_at_or_after(reader: apsw.Connection, topic: int, floor: int, at: int) -> Row | None:
    """Find the first batch whose last message was published at or after `at`, by bisection over the keys."""
    start = last_between(reader, log_key(topic, 0), log_key(topic, floor))
    end = last_between(reader, log_key(topic, 0), log_key(topic, MAX_OFFSET))
    low = start[0] if start and start[1] > floor else log_key(topic, floor)
    high = end[0] if end else -1
    first: Row | None = None
    while low <= high:
        middle = (low + high) // 2
        row = last_between(reader, low, middle)
        if row is None or row[2] < at:
            low = middle + 1
        else:
            first, high = row, row[0] - 1
    return first


def last_between(reader: apsw.Connection, low: int, high: int) -> Row | None:
    rows: list[Row] = reader.execute(SQL["last_batch_between"], (low, high)).fetchall()
    for row in rows:
        check_batch(row)  # every row of the search is checked, because a wrong time would mislead it
        require_between(row[0], low, high)
        return row
    return None
