"""Cutting the rows of a task into requests, the same way every time.

Where a request ends depends on the number and sizes of the rows alone, not on how Spark batches them. So a task that
runs again sends the same rows under the same numbers, and the broker publishes them once. Arrow adds the sizes up; no
row is touched in Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

REQUEST_BYTES = 1 << 20  # larger ones are a little faster, and hold up other publishers
ROW_BYTES = 32  # what a row counts for beside its columns, so that empty ones count too


def chunks(
    batches: Iterable[pa.RecordBatch], rows_max: int, bytes_max: int = REQUEST_BYTES
) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches that are as large as the limits allow."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        ends = _running_sizes(batch)
        at = before = 0
        while at < batch.num_rows:
            fitting = bisect_right(range(batch.num_rows), before + bytes_max - size, key=lambda row: ends[row].as_py())
            until = min(at + rows_max - rows, fitting)
            if until <= at and not held:
                until = at + 1  # a row that is too large goes alone
            if until <= at:
                yield _joined(held)
                held, rows, size = [], 0, 0
                continue
            held.append(batch.slice(at, until - at))
            rows += until - at
            end = ends[until - 1].as_py()
            size += end - before
            at, before = until, end
    if held:
        yield _joined(held)


def _running_sizes(batch: pa.RecordBatch) -> pa.Array:
    """The bytes of the rows up to and including each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def lengths(column: pa.Array) -> pa.Array:
        return pc.cast(pc.fill_null(pc.binary_length(column), 0), pa.int64())

    total = pa.repeat(pa.scalar(ROW_BYTES, pa.int64()), batch.num_rows)
    for column in batch.columns:
        if pa.types.is_map(column.type):
            entries = pc.cumulative_sum(pc.add(lengths(column.keys), lengths(column.items)))
            ends = pa.concat_arrays([pa.array([0], pa.int64()), entries])
            sizes = pc.subtract(pc.take(ends, column.offsets[1:]), pc.take(ends, column.offsets[:-1]))
        else:
            sizes = lengths(column)
        total = pc.add(total, sizes)
    return pc.cumulative_sum(total)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    if len(held) == 1:
        return held[0]
    return pa.Table.from_batches(held).combine_chunks().to_batches()[0]
