"""Ascending ranges of offsets, searched by bisection because there may be many."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TypeAlias

from penstock.broker.names import MAX_OFFSET

Ranges: TypeAlias = list[tuple[int, int]]  # (first, until)


def add_range(ranges: Ranges, first: int, until: int) -> None:
    """Add a range. It is joined with the last one if that ends where it begins."""
    if ranges and ranges[-1][1] == first:
        ranges[-1] = (ranges[-1][0], until)
    else:
        insort(ranges, (first, until))


def is_inside(ranges: Ranges, offset: int) -> bool:
    return find_outside(ranges, offset) != offset


def find_outside(ranges: Ranges, offset: int) -> int:
    """Return the first offset from `offset` on that is in no range."""
    index = max(0, bisect_right(ranges, (offset, MAX_OFFSET)) - 1)
    while index < len(ranges) and ranges[index][0] <= offset:
        offset = max(offset, ranges[index][1])
        index += 1
    return offset
