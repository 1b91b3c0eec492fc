"""Messages as Parquet, with the columns of the Spark data source. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO

from penstock.commands.batch_publisher import draft
from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.templates import body
from penstock.errors import FailedPreconditionError, InvalidArgumentError

ROWS = 1000


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FailedPreconditionError("Parquet needs pyarrow: pip install 'penstock-broker[flight]'") from None
    return pyarrow


@contextmanager
def parquet_writer(out: BinaryIO) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    arrow = _arrow()
    schema = arrow.schema(
        [
            ("topic", arrow.string()),
            ("offset", arrow.int64()),
            ("message_id", arrow.string()),
            ("publish_time", arrow.timestamp("us", "UTC")),
            ("data", arrow.binary()),
            ("attributes", arrow.map_(arrow.string(), arrow.string())),
            ("ordering_key", arrow.string()),
        ]
    )
    with arrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        yield lambda rows: writer.write_batch(arrow.RecordBatch.from_pylist([_row(row) for row in rows], schema))


def _row(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": message["topic"],
        "offset": message["offset"],
        "message_id": message["id"],
        "publish_time": datetime.fromisoformat(message["publish_time"]),
        "data": body(message),
        "attributes": list(message["attributes"].items()),
        "ordering_key": message["ordering_key"],
    }


def parquet_drafts(file: str) -> Iterator[dict[str, Any]]:
    if file == "-":
        raise WrongUsageError("Parquet cannot be read from standard input, because its index is at the end of the file")
    arrow = _arrow()
    try:
        table = arrow.parquet.ParquetFile(file)
        columns = [name for name in ("data", "attributes", "ordering_key") if name in table.schema_arrow.names]
        if "data" not in columns:
            raise InvalidArgumentError(f"{file} has no column named data")
        for batch in table.iter_batches(ROWS, columns=columns):
            yield from (_draft(row) for row in batch.to_pylist())
    except (arrow.ArrowInvalid, OSError) as error:
        raise InvalidArgumentError(f"{file} cannot be read as Parquet: {str(error).splitlines()[0][:200]}") from None


def _draft(row: dict[str, Any]) -> dict[str, Any]:
    data = row["data"] if row["data"] is not None else b""
    attributes = {str(key): str(value) for key, value in row.get("attributes") or []}
    return draft(data.encode() if isinstance(data, str) else bytes(data), attributes, row.get("ordering_key") or "")
