"""Repeatable cuts of a task's rows into publish requests.

The end of a request depends only on the number and sizes of the rows, not on how Spark batches them. So a task that
runs again sends the same rows under the same sequence numbers, and the broker publishes them once. Arrow computes the
sizes; Python touches no row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

REQUEST_BYTES = 1 << 20  # larger requests are a little faster, but delay other publishers
ROW_BYTES = 32  # added to the size of each row's columns, so that empty rows count too


def chunks(
    batches: Iterable[pa.RecordBatch], rows_max: int, bytes_max: int = REQUEST_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order, in batches as large as the limits allow. A larger row gets a batch of its own."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        ends = _running_sizes(batch)
        at = before = 0
        while at < batch.num_rows:
            fitting = bisect_right(range(batch.num_rows), before + bytes_max - size, key=lambda row: ends[row].as_py())
            until = min(at + rows_max - rows, fitting)
            if until <= at and not pending:
                until = at + 1
            if until <= at:
                yield _concatenate(pending)
                pending, rows, size = [], 0, 0
                continue
            pending.append(batch.slice(at, until - at))
            rows += until - at
            end = ends[until - 1].as_py()
            size += end - before
            at, before = until, end
    if pending:
        yield _concatenate(pending)


def _running_sizes(batch: pa.RecordBatch) -> pa.Array:
    """Return the running total of row sizes in bytes."""
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


def _concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
