"""Stored messages as Arrow record batches: one schema for every reader, and only the columns that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.fast_columns import FastColumns, fast_columns
from penstock.doors.flight.slow_columns import TIME, SlowColumns
from penstock.doors.flight.stored_rows import stored_rows
from penstock.journal.port import StoredBatch

ROWS_MAX = 10_000
BYTES_MAX = 4 << 20
COUNTED = frozenset({"topic", "offset", "message_id"})  # columns that follow from the offset: the store is not read
COUNTED_ROWS = 50_000
AFTER_DATA = frozenset({"attributes", "publish_time", "ordering_key"})  # columns of what is stored after the data

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("data", pa.binary()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("publish_time", TIME),
        ("ordering_key", pa.string()),
    ]
)


class MessageRange(NamedTuple):
    """Consecutive messages of a topic."""

    topic: str
    first_id: int  # of the topic
    first: int
    length: int
    stored: FastColumns | SlowColumns


def record_batches(
    topic: str,
    first_id: int,
    stored: Iterable[StoredBatch],
    first: int,
    until: int,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages with first <= offset < until of one topic, of whose stored batches there is no gap."""
    schema = chosen_schema(columns)
    data_only = not AFTER_DATA & set(schema.names)
    for batches in _runs(stored):
        start, end = batches[0].first, batches[-1].until
        rows = stored_rows(batches)
        source = fast_columns(rows, data_only=data_only) or SlowColumns.of(rows)
        for low, high in _pieces(max(start, first), min(end, until), len(rows.body) / len(rows.rows)):
            # Made piece by piece: what was just made is sent while it is in the processor's cache.
            messages = MessageRange(topic, first_id, low, high - low, source.slice(low - start, high - low))
            yield pa.RecordBatch.from_arrays([_COLUMNS[name](messages) for name in schema.names], schema=schema)


def counted_batches(
    topic: str, first_id: int, first: int, until: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The messages of a range that is kept, by what follows from their offsets alone: the log is not read."""
    schema = chosen_schema(columns)
    for low in range(first, until, COUNTED_ROWS):
        messages = MessageRange(topic, first_id, low, min(COUNTED_ROWS, until - low), SlowColumns([]))
        yield pa.RecordBatch.from_arrays([_COLUMNS[name](messages) for name in schema.names], schema=schema)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows; small batches of many topics are put together."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > ROWS_MAX or size + batch.nbytes > BYTES_MAX):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def chosen_schema(columns: Sequence[str] | None) -> pa.Schema:
    """The chosen columns, in canonical order."""
    return SCHEMA if columns is None else pa.schema([field for field in SCHEMA if field.name in columns])


def _runs(stored: Iterable[StoredBatch]) -> Iterator[list[StoredBatch]]:
    """Small batches are put together, so that a reader gets record batches of a useful size."""
    waiting: list[StoredBatch] = []
    size = 0
    for batch in stored:
        waiting.append(batch)
        size += len(batch.body)
        if batch.until - waiting[0].first >= ROWS_MAX or size >= BYTES_MAX:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _pieces(first: int, until: int, row_bytes: float) -> Iterator[tuple[int, int]]:
    """Large batches are cut."""
    most = max(min(ROWS_MAX, int(BYTES_MAX / row_bytes)), 1)
    pieces = max(-(-(until - first) // most), 1)
    length = max(-(-(until - first) // pieces), 1)
    for low in range(first, until, length):
        yield low, min(low + length, until)


def _counted(first: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


_COLUMNS: dict[str, Callable[[MessageRange], pa.Array]] = {
    "topic": lambda messages: pa.repeat(pa.scalar(messages.topic, pa.string()), messages.length),
    "offset": lambda messages: _counted(messages.first, messages.length),
    "message_id": lambda messages: _counted(messages.first_id + messages.first, messages.length).cast(pa.string()),
    "data": lambda messages: messages.stored.data(),
    "attributes": lambda messages: messages.stored.attributes(),
    "publish_time": lambda messages: messages.stored.publish_time(),
    "ordering_key": lambda messages: messages.stored.ordering_key(),
}
