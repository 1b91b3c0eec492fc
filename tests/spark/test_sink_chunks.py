"""The division of rows into requests, which does not depend on Spark's batches."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_penstock.chunks import ROW_BYTES, chunks

ROW = st.fixed_dictionaries(
    {
        "data": st.binary(max_size=40),
        "attributes": st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=20), max_size=3),
        "ordering_key": st.none() | st.text(max_size=5),
    }
)
SCHEMA = pa.schema(
    [("data", pa.binary()), ("attributes", pa.map_(pa.string(), pa.string())), ("ordering_key", pa.string())]
)


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    ready = [row | {"attributes": list(row["attributes"].items()) if row["attributes"] else None} for row in rows]  # type: ignore[attr-defined]
    return pa.RecordBatch.from_pylist(ready, schema=SCHEMA)


def sliced(batch: pa.RecordBatch, lengths: list[int]) -> list[pa.RecordBatch]:
    found, at = [], 0
    for length in lengths:
        found.append(batch.slice(at, length))
        at += length
    return [*found, batch.slice(at)]


@given(st.lists(ROW, max_size=40), st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12), st.integers(1, 400))
def test_requests_depend_on_the_rows_alone(
    rows: list[dict[str, object]], lengths: list[int], rows_max: int, bytes_max: int
) -> None:
    whole = batch_of(rows)
    one_way = [each.to_pylist() for each in chunks([whole], rows_max, bytes_max)]
    another = [each.to_pylist() for each in chunks(sliced(whole, lengths), rows_max, bytes_max)]
    assert one_way == another
    assert [row for request in one_way for row in request] == whole.to_pylist()
    assert all(0 < len(request) <= rows_max for request in one_way)


@given(st.lists(ROW, min_size=1, max_size=40), st.integers(1, 400))
def test_a_request_is_full_before_the_next_begins(rows: list[dict[str, object]], bytes_max: int) -> None:
    requests = [each.to_pylist() for each in chunks([batch_of(rows)], 1000, bytes_max)]
    for request, following in pairwise(requests):
        size = sum(map(size_of, request))
        assert size <= bytes_max or len(request) == 1
        assert size + size_of(following[0]) > bytes_max


def size_of(row: dict[str, object]) -> int:
    pairs = row["attributes"] or []
    texts = [text for pair in pairs for text in pair] + [row["ordering_key"] or ""]  # type: ignore[attr-defined]
    return ROW_BYTES + len(row["data"]) + sum(len(text.encode()) for text in texts)  # type: ignore[arg-type]


def test_no_rows_make_no_request() -> None:
    assert list(chunks([], 10)) == []
    assert list(chunks([batch_of([])], 10)) == []
