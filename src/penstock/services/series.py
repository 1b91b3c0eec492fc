"""Series of samples: one row per second for 15 minutes, and one row per minute for 24 hours."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

SECONDS_KEPT = 900
MINUTES_KEPT = 1440
MINUTE = 60

MEAN, LAST, MOST = "mean", "last", "most"  # how a minute is computed from its seconds


class Field(NamedTuple):
    name: str
    of_minute: str = MEAN


class Rows(NamedTuple):
    start: int  # of the first row, in seconds since 1970
    rows: list[list[float]]


class Ring:
    """The last rows, all of one width. Memory grows with the rows up to a limit."""

    def __init__(self, width: int, most: int) -> None:
        self._width = width
        self._most = most * width
        self._values = array("d")
        self._next = 0  # index of the next row in a full ring

    def append(self, row: Sequence[float]) -> None:
        if len(self._values) < self._most:
            self._values.extend(row)
        else:
            self._values[self._next : self._next + self._width] = array("d", row)
            self._next = (self._next + self._width) % self._most

    def last(self, count: int) -> list[list[float]]:
        values, width = self._values, self._width
        rows = min(count, len(values) // width)
        starts = [(self._next - back * width) % len(values) for back in range(rows, 0, -1)] if rows else []
        return [list(values[start : start + width]) for start in starts]


class Series:
    """The samples of one resource."""

    def __init__(self, fields: Sequence[Field], at: int) -> None:
        self.fields = fields
        self._seconds = Ring(len(fields), SECONDS_KEPT)
        self._minutes = Ring(len(fields), MINUTES_KEPT)
        self._at = at  # the second of the last row, since 1970
        self._minute: list[Sequence[float]] = []  # rows of the current minute

    def add(self, at: int, row: Sequence[float]) -> None:
        """Add the row of a second. A late row also stands for the seconds it missed."""
        missed = at - self._at
        if missed > SECONDS_KEPT:  # the machine slept: there are no samples of that time
            self._at, missed = at - 1, 1
        for _ in range(missed):
            self._at += 1
            self._seconds.append(row)
            self._minute.append(row)
            if self._at % MINUTE == 0:
                self._minutes.append([_minute(field, column, self._minute) for column, field in enumerate(self.fields)])
                self._minute = []

    def rows(self, step: int, count: int) -> Rows:
        ring = self._seconds if step == 1 else self._minutes
        rows, last = ring.last(count), self._at - self._at % step
        return Rows(last - (len(rows) - 1) * step, rows)


def _minute(field: Field, column: int, rows: Sequence[Sequence[float]]) -> float:
    values = [row[column] for row in rows]
    if field.of_minute == LAST:
        return values[-1]
    return max(values) if field.of_minute == MOST else sum(values) / len(values)
