"""Equal rows of a column of maps, which are found, and no others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.limits import Limits
from penstock.doors.flight import drafts
from penstock.doors.flight.repeated_maps import repeated_maps
from penstock.errors import InvalidArgumentError

MAP = pa.map_(pa.string(), pa.string())
words = st.sampled_from(["", "a", "b", "ab", "é"])
rows_of_one_width = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.tuples(words, words), min_size=width, max_size=width), min_size=1, max_size=40)
)


@given(rows_of_one_width, st.integers(1, 4), st.integers(0, 5))
def test_expanded_rows_are_unchanged(kinds: list[list[tuple[str, str]]], times: int, skipped: int) -> None:
    column = pa.array(kinds * times, MAP).slice(skipped)
    found = repeated_maps(column)
    if found is not None:
        different = found.different.to_pylist()
        assert [different[index] for index in found.indices] == column.to_pylist()
        assert len({tuple(each) for each in different}) == len(different)


def test_rows_that_repeat_are_found() -> None:
    found = repeated_maps(pa.array([[("k", "a"), ("l", "b")], [("k", "b"), ("l", "a")]] * 100, MAP))
    assert found is not None
    assert len(found.different) == 2


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[]] * 10,
        [[("k", str(n))] for n in range(100)],
        [[("k", "v")], [("k", "v"), ("l", "v")]] * 50,
        [[("k", None)]] * 100,
    ],
    ids=["none", "empty", "all different", "of different lengths", "without values"],
)
def test_columns_that_do_not_repeat_are_left(rows: list[list[tuple[str, str | None]]]) -> None:
    assert repeated_maps(pa.array(rows, MAP)) is None


@given(rows_of_one_width)
def test_drafts_have_the_same_attributes_and_sizes_either_way(kinds: list[list[tuple[str, str]]]) -> None:
    rows = [[(f"k{key}", value) for key, value in row] for row in kinds] * 3
    batch = pa.record_batch({"data": pa.array([b"x"] * len(rows)), "attributes": pa.array(rows, MAP)})
    rows_read = drafts.read_batch(batch, Limits()).rows
    assert [draft[1] for draft in rows_read.drafts] == [dict(row) for row in rows]
    one_by_one = [drafts.read_batch(batch.slice(n, 1), Limits()).rows.sizes[0] for n in range(len(rows))]
    assert rows_read.sizes == one_by_one


def test_a_value_that_is_null_among_equal_rows_is_refused() -> None:
    rows = [[("k", "v")]] * 99 + [[("k", None)]]
    batch = pa.record_batch({"data": pa.array([b"x"] * 100), "attributes": pa.array(rows, MAP)})
    with pytest.raises(InvalidArgumentError, match="null value"):
        drafts.read_batch(batch, Limits())
