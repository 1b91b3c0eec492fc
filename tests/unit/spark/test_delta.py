"""Delta tables read by delta-rs, DuckDB and pyarrow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types

from penstock.spark.delta import DeltaSink, DeltaWriter, PartFiles, commit_files
from tests.spark.delta_tables import by_duckdb, files_in_log

NASTY = ["projects/p/topics/t", "a b", "50%", "%2F", "x=y", "é", "q?*#[]{}:;&+", "new\nline", "'\"\\"]


LONG = types.LongType()
TEXT = types.StringType()


def struct(**kinds: types.DataType) -> types.StructType:
    return types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])


def write(folder: Path, schema: types.StructType, **columns: pa.Array) -> None:
    """Write a table with one commit, partitioned by its first column, as a task and the driver write it."""
    writer = DeltaWriter({"path": str(folder), "partitionBy": next(iter(columns))}, schema)
    parts = PartFiles(writer.path, writer.partition_by, "part-0")
    parts.add(pa.record_batch(columns))
    assert commit_files(writer, "query", 0, parts.close())


def test_partition_values_that_need_escaping_are_read_back(tmp_path: Path) -> None:
    numbers = list(range(len(NASTY)))
    write(tmp_path, struct(topic=TEXT, n=LONG), topic=pa.array(NASTY), n=pa.array(numbers, pa.int64()))
    wanted = list(zip(NASTY, numbers, strict=True))
    found = DeltaTable(tmp_path).to_pyarrow_table()
    assert sorted(zip(*(found.column(name).to_pylist() for name in ("topic", "n")), strict=True)) == sorted(wanted)
    assert all(path.is_file() for path, _ in files_in_log(tmp_path))
    assert sorted((values["topic"], row["n"]) for values, row in by_duckdb(tmp_path)) == sorted(wanted)
    assert "duckdb" not in sys.modules, "otherwise it reports objects of other threads at the end of the tests"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (types.IntegerType(), pa.array([1, -2, None], pa.int32())),
        (types.BooleanType(), pa.array([True, False, None])),
        (types.DateType(), pa.array([date(2026, 1, 2), None])),
        (types.TimestampType(), pa.array([datetime(2026, 1, 2, 3, 4, 5, 678, UTC), None], pa.timestamp("us", "UTC"))),
        (types.TimestampNTZType(), pa.array([datetime(2026, 1, 2, 3, 4, 5, 678), None], pa.timestamp("us"))),  # noqa: DTZ001
        (types.DecimalType(10, 2), pa.array([Decimal("1.20"), None], pa.decimal128(10, 2))),
        (types.DoubleType(), pa.array([1.5, -1e300, None])),
    ],
    ids=str,
)
def test_partition_values_of_every_kind_are_read_back(tmp_path: Path, kind: types.DataType, values: pa.Array) -> None:
    write(tmp_path, struct(part=kind, n=LONG), part=values, n=pa.array(range(len(values)), pa.int64()))
    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("n")
    assert found.column("part").to_pylist() == values.to_pylist()


def test_timestamps_and_empty_strings_have_the_format_of_the_delta_log(tmp_path: Path) -> None:
    moments = pa.array([datetime(2026, 1, 2, 3, 4, 5, 678, UTC)], pa.timestamp("us", "UTC"))
    write(tmp_path / "times", struct(at=types.TimestampType(), n=LONG), at=moments, n=pa.array([1], pa.int64()))
    assert [values for _, values in files_in_log(tmp_path / "times")] == [{"at": "2026-01-02T03:04:05.000678Z"}]
    write(tmp_path / "texts", struct(part=TEXT, n=LONG), part=pa.array(["", None]), n=pa.array([1, 2], pa.int64()))
    assert [values for _, values in files_in_log(tmp_path / "texts")] == [{"part": None}]
    assert DeltaTable(tmp_path / "texts").to_pyarrow_table().column("part").to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("partition_by", "text"),
    [
        ("data", "the partition_by column data is binary"),
        ("attributes", "the partition_by column attributes is map<string,string>"),
        ("gone", "partition_by has an unknown column gone; the columns are topic, data, attributes"),
    ],
)
def test_invalid_partition_columns_are_refused(tmp_path: Path, partition_by: str, text: str) -> None:
    sink = DeltaSink({"path": str(tmp_path), "partitionBy": partition_by})
    schema = struct(topic=TEXT, data=types.BinaryType(), attributes=types.MapType(TEXT, TEXT))
    with pytest.raises(ValueError, match=f"penstock: {text}"):
        sink.streamWriter(schema, overwrite=False)


# ---------------------------------------------------------------------- columns that change

LEAVES = [TEXT, LONG, types.IntegerType(), types.DoubleType(), types.BinaryType(), types.DateType(),
          types.TimestampType(), types.DecimalType(10, 2), types.DecimalType(12, 2), types.BooleanType()]  # fmt: skip
NAMES = ["a", "b", "c", "element", "key"]


def nest(inner: st.SearchStrategy[types.DataType]) -> st.SearchStrategy[types.DataType]:
    structs = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3).map(lambda kinds: struct(**kinds))
    arrays = st.builds(types.ArrayType, inner)
    return st.one_of(structs, arrays, st.builds(types.MapType, st.sampled_from([TEXT, LONG]), inner))


KINDS = st.recursive(st.sampled_from(LEAVES), nest, max_leaves=6)


def changed(kind: types.DataType) -> list[types.DataType]:
    """Return every type that differs from `kind` in one place: a leaf, a field's name, one field more or less."""
    if isinstance(kind, types.ArrayType):
        return [types.ArrayType(inner) for inner in changed(kind.elementType)]
    if isinstance(kind, types.MapType):
        keys = [types.MapType(inner, kind.valueType) for inner in changed(kind.keyType)]
        return keys + [types.MapType(kind.keyType, inner) for inner in changed(kind.valueType)]
    if not isinstance(kind, types.StructType):
        return [leaf for leaf in LEAVES if leaf != kind][:2]
    fields = {field.name: field.dataType for field in kind}
    results: list[types.DataType] = [struct(**fields, extra=LONG)]
    for name, held in fields.items():
        others = {other: each for other, each in fields.items() if other != name}
        results += [struct(**{**fields, name: inner}) for inner in changed(held)]
        results.append(struct(**others, renamed=held))
        results += [struct(**others)] if others else []
    return results


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_change_at_any_depth_is_refused_and_the_same_columns_are_not(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    with TemporaryDirectory() as folder:
        assert commit_files(DeltaWriter({"path": folder}, struct(n=LONG, body=kind)), "query", 0, [])
        assert commit_files(DeltaWriter({"path": folder}, struct(body=kind, n=LONG)), "query", 1, [])
        for other in changed(kind):
            with pytest.raises(ValueError, match=r"has other columns than the flow: body.* in the table, "):
                commit_files(DeltaWriter({"path": folder}, struct(n=LONG, body=other)), "query", 2, [])
        assert DeltaTable(folder).version() == 1


def test_a_refusal_names_the_nested_field(tmp_path: Path) -> None:
    def kind(leaf: types.DataType) -> types.StructType:
        return struct(body=types.ArrayType(types.MapType(TEXT, struct(n=leaf))))

    assert commit_files(DeltaWriter({"path": str(tmp_path)}, kind(LONG)), "query", 0, [])
    with pytest.raises(ValueError, match=r"body\.element\.value\.n is long in the table, string in the flow$"):
        commit_files(DeltaWriter({"path": str(tmp_path)}, kind(TEXT)), "query", 1, [])


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("", lambda nullable: LONG),
        (".n", lambda nullable: types.StructType([types.StructField("n", LONG, nullable)])),
        (".element", lambda nullable: types.ArrayType(LONG, nullable)),
        (".value", lambda nullable: types.MapType(TEXT, LONG, nullable)),
    ],
    ids=["column", "field", "element", "value"],
)
def test_a_nullable_type_is_refused_where_the_table_is_not_null(
    tmp_path: Path, place: str, kind: Callable[[bool], types.DataType]
) -> None:
    def commit(folder: str, batch: int, nullable: bool) -> bool:
        schema = types.StructType([types.StructField("body", kind(nullable), nullable or place != "")])
        return commit_files(DeltaWriter({"path": str(tmp_path / folder)}, schema), "query", batch, [])

    assert commit("strict", 0, nullable=False)
    assert commit("strict", 1, nullable=False)
    with pytest.raises(ValueError, match=rf"body{place} is long not null in the table, long in the flow$"):
        commit("strict", 2, nullable=True)
    assert commit("lax", 0, nullable=True)
    assert commit("lax", 1, nullable=False)


def test_nested_fields_in_another_order_are_read_back_by_name(tmp_path: Path) -> None:
    for batch, body in enumerate([{"a": 1, "b": "x"}, {"b": "y", "a": 2}]):
        kinds = {name: LONG if name == "a" else TEXT for name in body}
        writer = DeltaWriter({"path": str(tmp_path)}, struct(body=struct(**kinds)))
        parts = PartFiles(writer.path, [], f"part-{batch}")
        parts.add(pa.record_batch({"body": pa.array([body])}))
        assert commit_files(writer, "query", batch, parts.close())
    rows = DeltaTable(tmp_path).to_pyarrow_table().column("body").to_pylist()
    assert sorted((row["a"], row["b"]) for row in rows) == [(1, "x"), (2, "y")]
