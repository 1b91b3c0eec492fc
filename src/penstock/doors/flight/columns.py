"""Stored messages as Arrow record batches, with one schema, and only the columns that the reader chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.fast_columns import FastColumns, fast_columns
from penstock.doors.flight.slow_columns import TIME, SlowColumns
from penstock.doors.flight.stored_rows import stored_rows
from penstock.journal.port import StoredBatch

T = TypeVar("T")

ROWS_MAX = 10_000
BYTES_MAX = 4 << 20
COUNTED = frozenset({"topic", "offset", "message_id"})  # columns computed from the offset, without reading the store
COUNTED_ROWS = 50_000
AFTER_DATA = frozenset({"attributes", "publish_time", "ordering_key"})  # columns of fields stored after the data

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
    batch_bytes: Callable[[], int] = lambda: BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one topic with first <= offset < until. The stored batches have no gap."""
    schema = select_schema(columns)
    data_only = not AFTER_DATA & set(schema.names)
    for batches in _join_stored(stored, batch_bytes):
        start, end = batches[0].first, batches[-1].until
        rows = stored_rows(batches)
        source = fast_columns(rows, data_only=data_only) or SlowColumns.of(rows)
        row_bytes = len(rows.body) / len(rows.rows)
        for low, high in _split(max(start, first), min(end, until), row_bytes, batch_bytes()):
            # Made piece by piece, so that each piece is sent while it is in the processor's cache.
            messages = MessageRange(topic, first_id, low, high - low, source.slice(low - start, high - low))
            yield pa.RecordBatch.from_arrays([_COLUMNS[name](messages) for name in schema.names], schema=schema)


def counted_batches(
    topic: str,
    first_id: int,
    first: int,
    until: int,
    columns: Sequence[str],
    batch_bytes: Callable[[], int] = lambda: BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range with the columns of COUNTED only, without reading the log."""
    schema = select_schema(columns)
    row_bytes = len(topic) + 40  # more than the size of an offset and an id
    while first < until:
        length = min(COUNTED_ROWS, until - first, max(batch_bytes() // row_bytes, 1))
        messages = MessageRange(topic, first_id, first, length, SlowColumns([]))
        first += length
        yield pa.RecordBatch.from_arrays([_COLUMNS[name](messages) for name in schema.names], schema=schema)


def join_small(
    batches: Iterable[tuple[pa.RecordBatch, T]], batch_bytes: Callable[[], int]
) -> Iterator[tuple[pa.RecordBatch, T]]:
    """Join small batches, such as those of many topics. A joined batch has the place of its last part."""
    waiting: list[tuple[pa.RecordBatch, T]] = []
    rows = size = 0
    for batch, place in batches:
        if waiting and (rows + batch.num_rows > ROWS_MAX or size + batch.nbytes > batch_bytes()):
            yield _join([part for part, _ in waiting]), waiting[-1][1]
            waiting, rows, size = [], 0, 0
        waiting.append((batch, place))
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _join([part for part, _ in waiting]), waiting[-1][1]


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def select_schema(columns: Sequence[str] | None) -> pa.Schema:
    """Return the chosen columns, in the order of the schema. None means all columns."""
    return SCHEMA if columns is None else pa.schema([field for field in SCHEMA if field.name in columns])


def _join_stored(stored: Iterable[StoredBatch], batch_bytes: Callable[[], int]) -> Iterator[list[StoredBatch]]:
    """Join small stored batches, so that a reader gets record batches of a useful size."""
    waiting: list[StoredBatch] = []
    size = 0
    for batch in stored:
        waiting.append(batch)
        size += len(batch.body)
        if batch.until - waiting[0].first >= ROWS_MAX or size >= batch_bytes():
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _split(first: int, until: int, row_bytes: float, batch_bytes: int) -> Iterator[tuple[int, int]]:
    most = max(min(ROWS_MAX, int(batch_bytes / row_bytes)), 1)
    pieces = max(-(-(until - first) // most), 1)
    length = max(-(-(until - first) // pieces), 1)
    for low in range(first, until, length):
        yield low, min(low + length, until)


def _count_up(first: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


_COLUMNS: dict[str, Callable[[MessageRange], pa.Array]] = {
    "topic": lambda messages: pa.repeat(pa.scalar(messages.topic, pa.string()), messages.length),
    "offset": lambda messages: _count_up(messages.first, messages.length),
    "message_id": lambda messages: _count_up(messages.first_id + messages.first, messages.length).cast(pa.string()),
    "data": lambda messages: messages.stored.data(),
    "attributes": lambda messages: messages.stored.attributes(),
    "publish_time": lambda messages: messages.stored.publish_time(),
    "ordering_key": lambda messages: messages.stored.ordering_key(),
}
