"""Scans of the log at full speed, in a process beside the writer's.

A scan holds no view of the database while its results are consumed, so the writer can checkpoint its log during the
longest scan. Every row is checked before it is handed out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from penstock.broker.names import MAX_OFFSET, log_key
from penstock.errors import DamagedStoreError
from penstock.journal.codec import Row, check_batch, first_of, require_between
from penstock.journal.floors import Floors
from penstock.journal.port import StoredBatch
from penstock.journal.sqlite.connection import SQL, open_reader
from penstock.journal.sqlite.errors import Translation
from penstock.journal.sqlite.folder import database_in
from penstock.journal.sqlite.readers import Readers

FETCH_BYTES = 4 << 20  # read under one view
PLACES_KEPT = 64  # cutting a range asks for the same batches repeatedly


class Places(NamedTuple):
    """The byte positions of the messages of a stored batch, and of the end of the last one."""

    first: int
    positions: array[int]


class Sized(msgspec.Struct, array_like=True, gc=False):
    """The first fields of a stored message, up to its position and size."""

    data: msgspec.Raw
    attributes: msgspec.Raw
    ordering_key: msgspec.Raw
    publish_time: int
    offset: int
    position: int
    size: int


_sized = msgspec.msgpack.Decoder(list[Sized])


class LogScanner:
    def __init__(self, folder: Path) -> None:
        database = database_in(folder)
        self._reading = Translation(writing=False)
        self._readers = Readers(lambda: open_reader(database, None), Floors())
        self._known: dict[int, Places] = {}  # by the id of the batch; a stored batch never changes
        self._lock = Lock()

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        wanted = first
        while wanted < until:
            batches = self._fetch(topic, wanted, until)
            if not batches or (wanted > first and batches[0].first > wanted):
                raise _gap(topic, wanted, until)
            yield from batches
            wanted = batches[-1].until

    def position_of(self, topic: int, offset: int) -> int:
        if offset == 0:
            return 0
        places = self._places_at(topic, offset)
        return places.positions[offset - places.first]

    def offset_of(self, topic: int, position: int, low: int, high: int) -> int:
        """Guess from the mean size between two known offsets, and halve the range when a guess was far off."""
        start, end = self.position_of(topic, low), self.position_of(topic, high)
        halve = False
        while low < high and start < position:
            guess = (low + high) // 2 if halve else _interpolate(low, high, start, end, position)
            first, positions = self._places_at(topic, guess)
            if positions[0] <= position <= positions[-1]:
                return min(first + bisect_left(positions, position), high)
            span = high - low
            if positions[-1] < position:
                low, start = first + len(positions) - 1, positions[-1]
            else:
                high, end = first, positions[0]
            halve = high - low > span // 2
        return min(low, high)

    def close(self) -> None:
        self._readers.close()

    def _fetch(self, topic: int, first: int, until: int) -> list[StoredBatch]:
        keys = {"topic": log_key(topic, 0), "first": log_key(topic, first), "last": log_key(topic, until - 1)}
        batches: list[StoredBatch] = []
        with self._reading:
            rows = self._rows(keys)
        for row in rows:
            check_batch(row)
            require_between(row[0], keys["topic"], log_key(topic, MAX_OFFSET))
            batch = StoredBatch(first_of(row[0]), row[1], row[4])
            if batches and batch.first != batches[-1].until:
                raise _gap(topic, batches[-1].until, batch.first)
            if batch.until > first:
                batches.append(batch)
        return batches

    def _rows(self, keys: dict[str, int]) -> list[Row]:
        rows: list[Row] = []
        size = 0
        with self._readers.connection() as reader:
            cursor = reader.cursor()
            try:
                for row in cursor.execute(SQL["read_batches"], keys):
                    rows.append(row)
                    size += len(row[4])
                    if size >= FETCH_BYTES:
                        break
            finally:
                cursor.close(True)
        return rows

    def _places_at(self, topic: int, offset: int) -> Places:
        """Return the places of the batch that holds an offset, or ends right before it."""
        span = (log_key(topic, 0), log_key(topic, offset))
        with self._reading, self._readers.connection() as reader:
            keys: list[Row] = reader.execute(SQL["last_id_between"], span).fetchall()
            places = self._known.get(keys[0][0]) if keys else None
            rows: list[Row] = reader.execute(SQL["last_batch_between"], span).fetchall() if places is None else []
        if rows:
            places = _places(rows[0], *span)
            with self._lock:
                if len(self._known) >= PLACES_KEPT:
                    del self._known[next(iter(self._known))]
                self._known[rows[0][0]] = places
        if places is None or offset - places.first >= len(places.positions):
            raise _gap(topic, offset, offset + 1)
        return places


def _places(row: Row, low: int, high: int) -> Places:
    check_batch(row)
    require_between(row[0], low, high)
    try:
        messages = _sized.decode(row[4])
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"A batch of messages cannot be decoded: {error}.") from error
    positions = array("q", [message.position for message in messages])
    positions.append(messages[-1].position + messages[-1].size)
    return Places(first_of(row[0]), positions)


def _interpolate(low: int, high: int, start: int, end: int, position: int) -> int:
    if end <= start:
        return low
    return min(low + (high - low) * (position - start) // (end - start), high - 1)


def _gap(topic: int, first: int, until: int) -> DamagedStoreError:
    return DamagedStoreError(f"The store is damaged: topic {topic} lacks messages from offset {first} to {until}.")
