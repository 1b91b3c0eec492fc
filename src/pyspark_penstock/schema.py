"""The columns of a message as Spark sees them, and the columns the sink takes.

Spark compares the first batch of a partition with this schema to the letter (string and not large_string, microseconds
in UTC, every field nullable), so batches come off the wire in it already.
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

# What a sink takes; `data` is the only one it needs.
SINK_TYPES = {
    "data": "binary or string",
    "topic": "string",
    "attributes": "map<string,string>",
    "ordering_key": "string",
}
# What only a read gives: rows that have one of these were read, and then `topic` says where from, not where to.
READ_COLUMNS = ("offset", "message_id", "publish_time")
SINK_HINTS = {
    "key": "the broker calls it ordering_key",
    "value": "the broker calls it data",
    "headers": "the broker calls them attributes, a map<string,string>",
    "partition": "a topic has no partitions",
    "offset": "the broker gives offsets",
    "message_id": "the broker gives ids",
    "publish_time": "the broker gives the time",
}


def struct(columns: Sequence[str] = COLUMNS) -> StructType:
    """The Spark schema of the chosen columns."""
    return StructType([StructField(name, TYPES[name]) for name in columns])


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema Spark asks for; one given with `.schema(...)` may leave columns out."""
    for field in schema.fields:
        if field.name not in TYPES:
            raise PenstockError(f"there is no column {field.name!r} to read; there are {', '.join(COLUMNS)}")
        asked, real = field.dataType.simpleString(), TYPES[field.name].simpleString()
        if asked != real:
            raise PenstockError(f"column {field.name} is {real}, not {asked}; read it as it is and cast it")
    return tuple(schema.fieldNames())


def left_out(names: Sequence[str]) -> frozenset[str]:
    """The columns of rows that were read which are not published."""
    there = {name for name in READ_COLUMNS if name in names}
    return frozenset(there | {"topic"} if there else there)


def without_read_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    dropped = left_out(batch.schema.names)
    return batch.select([name for name in batch.schema.names if name not in dropped]) if dropped else batch


def check_sink(schema: StructType, topic: str | None) -> None:
    """Refuse what cannot be published, before any task runs."""
    dropped = {name for name in left_out(schema.fieldNames()) if name in schema.fieldNames()}
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
        raise PenstockError(f"a column named data (binary or string) is needed; there are {', '.join(names) or 'none'}")
    if topic is None and "topic" in dropped:
        raise PenstockError(
            "nothing says where to publish: beside offset, message_id or publish_time the column topic says where "
            "a row was read; give the option topic, or select the columns of the sink"
        )
    if topic is None and "topic" not in names:
        raise PenstockError("nothing says where to publish: give the option topic, or a column named topic")


def _fits(name: str, kind: DataType) -> bool:
    text, binary = isinstance(kind, sql.StringType), isinstance(kind, sql.BinaryType)
    if isinstance(kind, sql.MapType):  # whether values may be null does not matter
        return (
            name == "attributes"
            and isinstance(kind.keyType, sql.StringType)
            and isinstance(kind.valueType, sql.StringType)
        )
    return (text and name != "attributes") or (binary and name == "data")
