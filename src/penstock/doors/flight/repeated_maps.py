"""Equal maps in a column, found by Arrow, so that Python converts each different map once."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE = 64  # rows that show whether the others repeat
ENTRIES_MAX = 16  # with more entries in a map, comparing costs more than it saves


class RepeatedMaps(NamedTuple):
    different: pa.MapArray
    indices: list[int]  # index into `different`, by row


def repeated_maps(column: pa.MapArray) -> RepeatedMaps | None:
    """Return the different maps. None if most rows differ, or have different numbers of entries, or null values."""
    sample = _codes(column.slice(0, SAMPLE))
    if sample is None or len(sample.dictionary) > len(sample) // 2:
        return None
    codes = _codes(column)
    if codes is None or len(codes.dictionary) > len(column) // 2:
        return None
    indices = numbers(codes.indices)
    firsts = dict(zip(reversed(indices), range(len(indices) - 1, -1, -1), strict=True))
    different = column.take(pa.array([firsts[code] for code in range(len(codes.dictionary))], pa.int64()))
    return RepeatedMaps(different, indices)


def _codes(column: pa.MapArray) -> pa.DictionaryArray | None:
    """Return a number for each row, equal for equal rows. None if they cannot be compared."""
    edges = numbers(column.offsets)
    first, last, rows = edges[0], edges[-1], len(column)
    width = (last - first) // rows if rows else 0
    if (
        column.items.null_count
        or not 0 < width <= ENTRIES_MAX
        or edges != list(range(first, first + width * rows + 1, width))
    ):
        return None
    keys, items = (values[first:last].dictionary_encode() for values in (column.keys, column.items))
    pairs = pc.add(pc.multiply(keys.indices.cast(pa.int64()), len(items.dictionary)), items.indices.cast(pa.int64()))
    pairs = pairs.dictionary_encode()
    lists = pa.FixedSizeListArray.from_arrays(pairs.indices.cast(pa.int64()), width)
    codes = None
    for index in range(width):
        pair = pc.list_element(lists, index)
        if codes is not None:  # numbered again each time, so that the product stays small
            pair = pc.add(pc.multiply(codes.indices.cast(pa.int64()), len(pairs.dictionary)), pair)
        codes = pair.dictionary_encode()
    return codes


def numbers(column: pa.Array) -> list[int]:
    """Return the integers of a 32-bit column without nulls. Arrow's own conversion makes a scalar for each."""
    view = memoryview(column.buffers()[1]).cast("i")
    found: list[int] = view[column.offset : column.offset + len(column)].tolist()
    return found
