"""Stored messages in, Arrow record batches out: the fast path of every scan.

The rule kept here: one schema, the canonical one, for every reader and for ever. A column is made at once, by Arrow
where messages are alike (`cut`), from messages decoded one by one where they are not (`decoded`); a column nobody asked
for is not made at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.cut import cut
from penstock.doors.flight.decoded import Decoded
from penstock.doors.flight.packed import packed
from penstock.journal.port import StoredBatch

ROWS_MAX = 10_000
BYTES_MAX = 4 << 20
COUNTED = frozenset({"topic", "offset", "message_id"})  # columns that follow from where a message is
COUNTED_ROWS = 50_000
FOLLOWING = frozenset({"attributes", "publish_time", "ordering_key"})  # columns of what is stored after the data

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("data", pa.binary()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("publish_time", pa.timestamp("us", "UTC")),
        ("ordering_key", pa.string()),
    ]
)


class Rows(Protocol):
    """What the columns of consecutive messages are made from."""

    def slice(self, place: int, length: int) -> Rows: ...

    def data(self) -> pa.Array: ...

    def attributes(self) -> pa.Array: ...

    def publish_time(self) -> pa.Array: ...

    def ordering_key(self) -> pa.Array: ...


class Run(NamedTuple):
    """Consecutive messages of a topic."""

    topic: str
    first_id: int  # of the topic
    first: int
    length: int
    rows: Rows


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
    data_only = not FOLLOWING & set(schema.names)
    for batches in _runs(stored):
        start, end = batches[0].first, batches[-1].until
        body = packed(batches)
        rows: Rows = cut(body, data_only=data_only) or Decoded.of(body)
        for low, high in _pieces(max(start, first), min(end, until), len(body.body) / len(body.rows)):
            # Made piece by piece: what was just made is sent while it is in the processor's cache.
            run = Run(topic, first_id, low, high - low, rows.slice(low - start, high - low))
            yield pa.RecordBatch.from_arrays([_COLUMNS[name](run) for name in schema.names], schema=schema)


def needs_messages(columns: Sequence[str]) -> bool:
    """Whether these columns say anything that a range does not say already."""
    return not set(columns) <= COUNTED


def counted_batches(
    topic: str, first_id: int, first: int, until: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The messages of a range that is kept, by what follows from their places alone: the log is not read."""
    schema = chosen_schema(columns)
    for low in range(first, until, COUNTED_ROWS):
        run = Run(topic, first_id, low, min(COUNTED_ROWS, until - low), NO_ROWS)
        yield pa.RecordBatch.from_arrays([_COLUMNS[name](run) for name in schema.names], schema=schema)


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
    """And large ones are cut."""
    most = max(min(ROWS_MAX, int(BYTES_MAX / row_bytes)), 1)
    pieces = max(-(-(until - first) // most), 1)
    length = max(-(-(until - first) // pieces), 1)
    for low in range(first, until, length):
        yield low, min(low + length, until)


# ---------------------------------------------------------------------- one function a column


def _topic(run: Run) -> pa.Array:
    return pa.repeat(pa.scalar(run.topic, pa.string()), run.length)


def _offset(run: Run) -> pa.Array:
    return _counted(run.first, run.length)


def _message_id(run: Run) -> pa.Array:
    return _counted(run.first_id + run.first, run.length).cast(pa.string())


def _counted(first: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


NO_ROWS = Decoded([])
_COLUMNS: dict[str, Callable[[Run], pa.Array]] = {
    "topic": _topic,
    "offset": _offset,
    "message_id": _message_id,
    "data": lambda run: run.rows.data(),
    "attributes": lambda run: run.rows.attributes(),
    "publish_time": lambda run: run.rows.publish_time(),
    "ordering_key": lambda run: run.rows.ordering_key(),
}
