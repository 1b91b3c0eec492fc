"""The log read by a process of its own, at full speed, while the writer's process goes on.

The rule kept here: a scan never holds a view of the database while somebody consumes what it found, so the writer's
log can be moved along under the longest scan; every row is checked before it is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.broker.model import Message
from penstock.broker.names import MAX_OFFSET, log_key
from penstock.errors import DamagedStoreError
from penstock.journal.floors import Floors
from penstock.journal.port import StoredBatch
from penstock.journal.sqlite.connection import SQL, open_reader
from penstock.journal.sqlite.errors import Translation
from penstock.journal.sqlite.folder import database_in
from penstock.journal.sqlite.readers import Readers, last_between
from penstock.journal.sqlite.rows import Row, check_batch, first_of, open_batch, require_between

FETCH_BYTES = 4 << 20  # read under one view


class LogScanner:
    def __init__(self, folder: Path) -> None:
        database = database_in(folder)
        self._reading = Translation(folder, writing=False)
        self._readers = Readers(lambda: open_reader(database, None), Floors())

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        wanted = first
        while wanted < until:
            found = self._fetch(topic, wanted, until)
            if not found or (wanted > first and found[0].first > wanted):
                raise _gap(topic, wanted, until)
            yield from found
            wanted = found[-1].until

    def position_of(self, topic: int, offset: int) -> int:
        if offset == 0:
            return 0
        messages = self._batch_at(topic, offset)
        place = offset - messages[0].offset
        if place < len(messages):
            return messages[place].position
        return messages[-1].position + messages[-1].size  # a message that is still to come

    def offset_of(self, topic: int, position: int, low: int, high: int) -> int:
        """By guessing from the mean size between two known places, and by halves where the guess is far off."""
        start, end = self.position_of(topic, low), self.position_of(topic, high)
        halve = False
        while low < high and start < position:
            guess = (low + high) // 2 if halve else _interpolated(low, high, start, end, position)
            messages = self._batch_at(topic, guess)
            first, last = messages[0], messages[-1]
            if first.position <= position <= last.position:
                return min(_first_at(messages, position), high)
            span = high - low
            if last.position < position:
                low, start = last.offset + 1, last.position + last.size
            else:
                high, end = first.offset, first.position
            halve = high - low > span // 2
        return min(low, high)

    def close(self) -> None:
        self._readers.close()

    def _fetch(self, topic: int, first: int, until: int) -> list[StoredBatch]:
        places = {"topic": log_key(topic, 0), "first": log_key(topic, first), "last": log_key(topic, until - 1)}
        found: list[StoredBatch] = []
        with self._reading:
            rows = self._rows(places)
        for row in rows:
            check_batch(row)
            require_between(row[0], places["topic"], log_key(topic, MAX_OFFSET))
            batch = StoredBatch(first_of(row[0]), row[1], row[4])
            if found and batch.first != found[-1].until:
                raise _gap(topic, found[-1].until, batch.first)
            if batch.until > first:
                found.append(batch)
        return found

    def _rows(self, places: dict[str, int]) -> list[Row]:
        rows: list[Row] = []
        size = 0
        with self._readers.connection() as reader:
            cursor = reader.cursor()
            try:
                for row in cursor.execute(SQL["read_batches"], places):
                    rows.append(row)
                    size += len(row[4])
                    if size >= FETCH_BYTES:
                        break
            finally:
                cursor.close(True)
        return rows

    def _batch_at(self, topic: int, offset: int) -> list[Message]:
        """The batch that holds an offset, or ends right before it."""
        with self._reading, self._readers.connection() as reader:
            row = last_between(reader, log_key(topic, 0), log_key(topic, offset))
        if row is None or row[1] < offset:
            raise _gap(topic, offset, offset + 1)
        return open_batch(row)


def _interpolated(low: int, high: int, start: int, end: int, position: int) -> int:
    if end <= start:
        return low
    return min(low + (high - low) * (position - start) // (end - start), high - 1)


def _first_at(messages: list[Message], position: int) -> int:
    return next(message.offset for message in messages if message.position >= position)


def _gap(topic: int, first: int, until: int) -> DamagedStoreError:
    return DamagedStoreError(f"The store is damaged: topic {topic} lacks messages from offset {first} to {until}.")
