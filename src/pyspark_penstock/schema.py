"""The columns of the source and of the sink.

Spark requires the first batch of a partition to match this schema exactly (string and not large_string, microseconds in
UTC, every field nullable), so the broker sends batches in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as sql
from pyspark.sql.types import DataType, StructField, StructType

from pyspark_penstock.errors import PenstockError

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: dict[str, DataType] = {
    "topic": sql.StringType(),
    "offset": sql.LongType(),
    "message_id": sql.StringType(),
    "data": sql.BinaryType(),
    "attributes": sql.MapType(sql.StringType(), sql.StringType()),
    "publish_time": sql.TimestampType(),
    "ordering_key": sql.StringType(),
}
COLUMNS = tuple(TYPES)

# The columns of the sink; only `data` is required.
SINK_TYPES = {
    "data": "binary or string",
    "topic": "string",
    "attributes": "map<string,string>",
    "ordering_key": "string",
}
# Columns that only the source sets. In rows with one of them, `topic` is the topic that was read, not a destination.
READ_COLUMNS = ("offset", "message_id", "publish_time")
SINK_HINTS = {
    "key": "the broker calls it ordering_key",
    "value": "the broker calls it data",
    "headers": "the broker calls them attributes, a map<string,string>",
    "partition": "topics have no partitions",
    "offset": "the broker assigns offsets",
    "message_id": "the broker assigns ids",
    "publish_time": "the broker sets the time",
}


def struct(columns: Sequence[str] = COLUMNS) -> StructType:
    """Return the Spark schema of these columns."""
    return StructType([StructField(name, TYPES[name]) for name in columns])


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """Return the columns of the schema to read. A schema given with `.schema(...)` may leave columns out."""
    for field in schema.fields:
        if field.name not in TYPES:
            raise PenstockError(f"unknown column {field.name!r}; the columns of a message are {', '.join(COLUMNS)}")
        declared, actual = field.dataType.simpleString(), TYPES[field.name].simpleString()
        if declared != actual and (field.name, declared) != ("data", "string"):
            raise PenstockError(f"column {field.name} is {actual}, not {declared}; cast it in the query")
    return tuple(schema.fieldNames())


def is_text(schema: StructType) -> bool:
    """Tell whether the schema declares the data column as a string."""
    return "data" in schema.fieldNames() and isinstance(schema["data"].dataType, sql.StringType)


def as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with their data as text. Raise PenstockError if it is not valid UTF-8."""
    import pyarrow as pa

    index = batch.schema.get_field_index("data")
    try:
        column = batch.column(index).cast(pa.string())
    except pa.ArrowInvalid:
        raise PenstockError("a message is not valid UTF-8; read the column data as binary") from None
    return batch.set_column(index, "data", column)


def dropped_columns(names: Sequence[str]) -> frozenset[str]:
    """Return the columns that the source set and the sink does not publish."""
    read = {name for name in READ_COLUMNS if name in names}
    return frozenset(read | {"topic"} if read else read)


def without_read_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    dropped = dropped_columns(batch.schema.names)
    return batch.select([name for name in batch.schema.names if name not in dropped]) if dropped else batch


def check_sink(schema: StructType, topic: str | None) -> None:
    """Raise PenstockError, before any task runs, if rows of this schema cannot be published."""
    dropped = {name for name in dropped_columns(schema.fieldNames()) if name in schema.fieldNames()}
    dropped = {name for name in dropped if name == "topic" or schema[name].dataType == TYPES[name]}
    for field in schema.fields:
        if field.name in dropped:
            continue
        name, given = field.name.lower(), field.dataType.simpleString()
        if field.name not in SINK_TYPES:
            hint = f"did you mean {name}?" if name in SINK_TYPES else SINK_HINTS.get(name)
            raise PenstockError(
                f"column {field.name} ({given}) cannot be published{f' ({hint})' if hint else ''}; "
                f"the columns of the sink are {', '.join(SINK_TYPES)}"
            )
        if not _fits(name, field.dataType):
            raise PenstockError(f"column {name} must be {SINK_TYPES[name]}, not {given}")
    names = [name for name in schema.fieldNames() if name not in dropped]
    if "data" not in names:
        raise PenstockError(
            f"the column data (binary or string) is missing; the columns are {', '.join(names) or 'none'}"
        )
    if topic is None and "topic" in dropped:
        raise PenstockError(
            "no topic to publish to: with offset, message_id or publish_time in the row, the column topic is the topic "
            "that was read; set the option topic, or select only the columns of the sink"
        )
    if topic is None and "topic" not in names:
        raise PenstockError("no topic to publish to: set the option topic, or add a column named topic")


def _fits(name: str, kind: DataType) -> bool:
    text, binary = isinstance(kind, sql.StringType), isinstance(kind, sql.BinaryType)
    if isinstance(kind, sql.MapType):  # null values are allowed or not, both fit
        return (
            name == "attributes"
            and isinstance(kind.keyType, sql.StringType)
            and isinstance(kind.valueType, sql.StringType)
        )
    return (text and name != "attributes") or (binary and name == "data")
