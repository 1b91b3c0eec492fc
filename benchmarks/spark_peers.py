"""Peers of the Spark source and sink: Arrow data that the worker generates, and a sink that counts.

They do the same as Penstock's without a broker. The generator returns batches that were created once, with the same
schema and the same rows. The counting sink accepts the same Arrow batches and drops them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from benchmarks.flight import Kind
from pyspark_penstock import schema as columns


@cache
def canonical_batch(kind: Kind) -> pa.RecordBatch:
    """Return a batch as it comes from the server."""
    sent, rows = kind.batch(), kind.batch_rows
    names = sent.schema.names
    empty = pa.MapArray.from_arrays([0] * (rows + 1), pa.array([], pa.string()), pa.array([], pa.string()))
    made = {
        "topic": pa.repeat("projects/bench/topics/generated", rows),
        "offset": pa.array(range(rows), pa.int64()),
        "message_id": pa.array(range(1 << 40, (1 << 40) + rows), pa.int64()).cast(pa.string()),
        "data": sent.column("data"),
        "attributes": sent.column("attributes") if "attributes" in names else empty,
        "publish_time": pa.repeat(pa.scalar(1_700_000_000_000_000, pa.int64()), rows).cast(pa.timestamp("us", "UTC")),
        "ordering_key": pa.repeat("", rows),
    }
    schema = to_arrow_schema(columns.struct(), timezone="UTC")
    return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)


class Rows(InputPartition):
    def __init__(self, rows: int) -> None:
        super().__init__(None)
        self.rows = rows


def generated(kind: Kind, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Rows), "the partitions come from this source"
    batch, left = canonical_batch(kind), partition.rows
    while left > 0:
        yield batch if left >= batch.num_rows else batch.slice(0, left)
        left -= batch.num_rows


def _halves(rows: int) -> Sequence[InputPartition]:
    return [Rows(rows // 2), Rows(rows - rows // 2)]


class GeneratorReader(DataSourceReader):
    def __init__(self, kind: Kind, rows: int) -> None:
        self.kind, self.rows = kind, rows

    def partitions(self) -> Sequence[InputPartition]:
        return _halves(self.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return generated(self.kind, partition)


class GeneratorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, kind: Kind, rows: int, limit: int) -> None:
        self.kind, self.rows, self.limit = kind, rows, limit

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing, because the generator always has the same rows."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"at": min(start["at"] + self.limit, self.rows)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return _halves(end["at"] - start["at"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return generated(self.kind, partition)


class Generator(DataSource):
    """A data source with the options `size`, `attributes`, `rows` and, for a stream, `limit`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(dict(options))
        self.kind = Kind(int(options["size"]), options["attributes"])
        self.rows, self.limit = int(options["rows"]), int(options.get("limit", options["rows"]))

    @classmethod
    def name(cls) -> str:
        return "generator"

    def schema(self) -> StructType:
        return columns.struct()

    def reader(self, schema: StructType) -> DataSourceReader:
        return GeneratorReader(self.kind, self.rows)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return GeneratorStreamReader(self.kind, self.rows, self.limit)


class CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        assert sum(batch.num_rows for batch in iterator), "there are rows"
        return WriterCommitMessage()


class CountingSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "counting"

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:
        return CountingWriter()
