"""A Delta table as a sink, without a Java library: tasks write Parquet, the driver commits once per micro-batch.

A commit records the query's id and the batch number as an application transaction in the table. Before a commit, the
driver reads the last recorded number, so a repeated batch adds nothing.

This module is sent to executors by value. There it needs only the standard library, pyspark and pyarrow. The driver
also needs deltalake.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

FORMAT = "penstock_delta"
MISSING = "penstock: the Delta sink needs the deltalake package: pip install 'penstock-broker[delta]'"
DIFFERENCES_SHOWN = 3
NOT_NULL = " not null"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
FOLDER_BYTES_MAX = 255  # maximum length of a name in most file systems
ROWS_PER_GROUP = 131_072
BYTES_PER_GROUP = 32 << 20  # maximum that a task holds of one file


@dataclass(frozen=True)
class File:
    path: str  # on disk, relative to the table
    size: int
    rows: int
    partition: tuple[str | None, ...]


@dataclass
class Written(WriterCommitMessage):
    query: str
    files: list[File]


class DeltaSink(DataSource):
    """The sink `writeStream.format("penstock_delta")` with the options path and partitionBy (comma-separated)."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DeltaWriter:  # noqa: N802 - Spark's names
        if overwrite:
            raise ValueError("penstock: rows can only be appended to a Delta table; use mode append")
        writer = DeltaWriter(self.options, schema)
        check_partitions(schema, writer.partition_by)
        return writer


class DeltaWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.path = options["path"]
        self.partition_by = [name for name in options.get("partitionBy", "").split(",") if name]
        own = {"path", "partitionby", "checkpointlocation", "queryname", "outputmode"}
        self.storage = {key: value for key, value in options.items() if key.lower() not in own}
        self.schema = schema

    def write(self, iterator: Iterator[Any]) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        batch = context.getLocalProperty("streaming.sql.batchId") or "0"
        parts = PartFiles(self.path, self.partition_by, f"part-{int(batch):08d}-{context.partitionId():05d}")
        try:
            for batch_rows in iterator:
                parts.add(batch_rows)
            return Written(query, parts.close())
        except BaseException:
            parts.discard()
            raise

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [message for message in messages if isinstance(message, Written)]
        files = [file for message in written for file in message.files]
        query = next((message.query for message in written), "")
        if not commit_files(self, query, batchId, files):
            remove(self.path, files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        remove(self.path, [file for message in messages if isinstance(message, Written) for file in message.files])


class PartFiles:
    """The files of one task: one for each combination of partition values, none without rows."""

    def __init__(self, root: str, partition_by: list[str], stem: str) -> None:
        self.folder, self.root = file_system(root)
        self.partition_by = partition_by
        self.stem = stem
        self.open: dict[tuple[str | None, ...], PartFile] = {}

    def add(self, batch: Any) -> None:
        for values, rows in split(batch, self.partition_by):
            if values not in self.open:
                self.open[values] = PartFile(self.folder, self.root, self._path(values))
            self.open[values].add(rows)

    def _path(self, values: tuple[str | None, ...]) -> str:
        folders = [_folder(name, value) for name, value in zip(self.partition_by, values, strict=True)]
        return "/".join([*folders, f"{self.stem}-{uuid.uuid4().hex}.parquet"])

    def close(self) -> list[File]:
        return [File(part.path, *part.close(), values) for values, part in self.open.items()]

    def discard(self) -> None:
        for part in self.open.values():
            with suppress(Exception):
                part.close()
                self.folder.delete_file(f"{self.root}/{part.path}")


def _folder(name: str, value: str | None) -> str:
    """Return the folder of a partition value. A long name is replaced by a digest, as the table's log has the value."""
    folder = f"{quote(name, safe='')}={NULL_FOLDER if value is None else quote(value, safe='')}"
    if len(folder) <= FOLDER_BYTES_MAX or value is None:
        return folder
    return f"{quote(name, safe='')}={hashlib.sha256(value.encode()).hexdigest()}"


class PartFile:
    """One Parquet file, written in row groups of a bounded size."""

    def __init__(self, folder: Any, root: str, path: str) -> None:
        self.path = path
        self._target = f"{root}/{path}"
        self._folder = folder
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._bytes = self._rows = self._written = 0

    def add(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROWS_PER_GROUP or self._bytes >= BYTES_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(self._waiting)
        if self._writer is None:
            self._folder.create_dir(self._target.rpartition("/")[0], recursive=True)
            self._stream = self._folder.open_output_stream(self._target)
            self._writer = pq.ParquetWriter(self._stream, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._written += self._rows
        self._waiting, self._bytes, self._rows = [], 0, 0

    def close(self) -> tuple[int, int]:
        """Finish the file. Return its size in bytes and its rows."""
        if self._waiting or self._writer is None:
            self._flush()
        self._writer.close()
        self._stream.close()
        return self._folder.get_file_info(self._target).size, self._written


def split(batch: Any, partition_by: list[str]) -> Iterator[tuple[tuple[str | None, ...], Any]]:
    """Yield the rows of each combination of partition values, without these columns, which a Delta file leaves out."""
    import pyarrow as pa

    if batch.num_rows == 0:
        return
    if not partition_by:
        yield (), batch
        return
    texts = [as_text(batch.column(name)) for name in partition_by]
    rest = batch.drop_columns(partition_by)
    keys: dict[tuple[str | None, ...], list[int]] = {}
    for row, key in enumerate(zip(*(text.to_pylist() for text in texts), strict=True)):
        keys.setdefault(key, []).append(row)
    for key, rows in keys.items():
        yield key, rest.take(pa.array(rows))


def as_text(column: Any) -> Any:
    """Return partition values as texts of Delta's log: a timestamp as ISO 8601 in UTC, an empty string as null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
    texts = pc.cast(column, pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def check_partitions(schema: StructType, partition_by: list[str]) -> None:
    """Raise ValueError if the table cannot be partitioned by these columns."""
    for name in partition_by:
        if name not in schema.fieldNames():
            raise ValueError(
                f"penstock: partition_by has an unknown column {name}; the columns are {', '.join(schema.fieldNames())}"
            )
        kind = schema[name].dataType
        if isinstance(kind, BinaryType | MapType | ArrayType | StructType):
            raise ValueError(
                f"penstock: the partition_by column {name} is {kind.simpleString()}; it must be a string, number, date "
                "or timestamp"
            )
    if len(set(partition_by)) == len(schema.fieldNames()):
        raise ValueError("penstock: partition_by has every column; a table needs at least one other column")


def commit_files(writer: DeltaWriter, query: str, batch_id: int, files: list[File]) -> bool:
    """Commit these files. Return False if this batch was committed before."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        from deltalake import CommitProperties, DeltaTable, Schema, Transaction
        from deltalake.transaction import AddAction, create_table_with_add_actions
    except ImportError:
        raise ValueError(MISSING) from None
    once = CommitProperties(app_transactions=[Transaction(query, batch_id)])
    now = int(time.time() * 1000)
    # The path is the one on disk; deltalake encodes it as a URL in the log.
    actions: list[Any] = [
        AddAction(file.path, file.size, dict(zip(writer.partition_by, file.partition, strict=True)), now, True,
                  json.dumps({"numRecords": file.rows}))
        for file in files
    ]  # fmt: skip
    schema = Schema.from_arrow(to_arrow_schema(writer.schema, timezone="UTC"))
    if not DeltaTable.is_deltatable(writer.path, writer.storage or None):
        create_table_with_add_actions(
            writer.path, schema, actions, "error", writer.partition_by or None,
            storage_options=writer.storage or None, commit_properties=once,
        )  # fmt: skip
        return True
    table = DeltaTable(writer.path, storage_options=writer.storage or None)
    last = table.transaction_version(query)
    if last is not None and last >= batch_id:
        return False
    check_table(table, schema, writer)
    table.create_write_transaction(actions, "append", schema, writer.partition_by or None, commit_properties=once)
    return True


def check_table(table: Any, schema: Any, writer: DeltaWriter) -> None:
    """Raise ValueError if the table has other columns, nested fields or partitions than the flow."""
    existing, ours = (list_types(json.loads(side.to_json())) for side in (table.schema(), schema))
    paths = [path for path in {**existing, **ours} if not _fits(ours.get(path), existing.get(path))]
    if paths:
        first = [
            f"{'.'.join(path)} is {existing.get(path, 'missing')} in the table, {ours.get(path, 'missing')} in the flow"
            for path in paths[:DIFFERENCES_SHOWN]
        ]
        more = f", and {len(paths) - len(first)} more" if len(paths) > len(first) else ""
        raise ValueError(
            f"penstock: the Delta table {writer.path} has other columns than the flow: {', '.join(first)}{more}"
        )
    if table.metadata().partition_columns != writer.partition_by:
        columns = ", ".join(table.metadata().partition_columns) or "nothing"
        raise ValueError(f"penstock: the Delta table {writer.path} is partitioned by {columns}")


def _fits(ours: str | None, existing: str | None) -> bool:
    """Return whether values of our type may be added. Values that are never null fit a nullable column."""
    return ours in (existing, f"{existing}{NOT_NULL}")


def list_types(kind: Any, path: tuple[str, ...] = (), nullable: bool = True) -> dict[tuple[str, ...], str]:
    """Return the type at every path of a type in Delta's JSON, with containers and their elements.

    The order of fields does not count, because readers find fields by name.
    """
    suffix = "" if nullable else NOT_NULL
    if isinstance(kind, str):
        return {path: kind + suffix}
    if kind["type"] == "struct":
        inside = [(field["name"], field["type"], field["nullable"]) for field in kind["fields"]]
    elif kind["type"] == "array":
        inside = [("element", kind["elementType"], kind["containsNull"])]
    else:
        inside = [("key", kind["keyType"], True), ("value", kind["valueType"], kind["valueContainsNull"])]
    types = {path: kind["type"] + suffix}
    for name, inner, may_be_null in inside:
        types |= list_types(inner, (*path, name), may_be_null)
    return types


def remove(root: str, files: list[File]) -> None:
    """Delete files without a commit. A vacuum of the table finds files that cannot be deleted now."""
    folder, top = file_system(root)
    for file in files:
        with suppress(OSError):
            folder.delete_file(f"{top}/{file.path}")


def file_system(root: str) -> tuple[Any, str]:
    from pyarrow import fs

    if "://" in root:
        system, top = fs.FileSystem.from_uri(root)
        return system, top.rstrip("/")
    return fs.LocalFileSystem(), root.rstrip("/")
