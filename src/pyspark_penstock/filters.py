"""A batch read that applies the conditions of the query, and reads only where they can match.

A condition on `offset` or `topic` selects the ranges that are read, to the row; one on `publish_time` narrows them and
is left with Spark as well; all others are Spark's. It is offered only with the option pushFilters. Spark refuses every
read of a reader that offers it while its own switch is off; and with the switch on it keeps the last plan for every use
of a DataFrame, so that one which is used again, or joined with itself, reads what the last filter left (Spark 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter, In, IsNotNull

from pyspark_penstock.client import BrokerClient, Span
from pyspark_penstock.options import Options
from pyspark_penstock.reading import PenstockReader

MICROSECONDS_MAX = (1 << 53) - 1


class Narrowing(NamedTuple):
    """Which ranges a condition needs: of topics that match, or from `low` to before `high`; None: no such end."""

    column: str
    matches: Callable[[str], bool] | None = None
    low: int | None = None
    high: int | None = None


class FilteringReader(PenstockReader):
    """`spark.read.format("penstock").load(...).where(...)`."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        self.narrowings: list[Narrowing] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            narrowing, is_all = _narrowing(each)
            if narrowing is not None:
                self.narrowings.append(narrowing)
            if not is_all:
                yield each

    def _narrowed(self, broker: BrokerClient, spans: list[Span]) -> list[Span]:
        for column, matches, low, high in self.narrowings:
            if matches is not None:
                spans = [span for span in spans if matches(span.topic)]
            elif column == "offset":
                spans = [_cut(span, low, high) for span in spans]
            else:
                spans = _between(broker, spans, low, high)
        return spans


# The least value that matches and the first beyond, for a comparison with a number; None where there is no such end.
_RANGES: dict[type[Filter], Callable[[int], tuple[int | None, int | None]]] = {
    spark.EqualTo: lambda number: (number, number + 1),
    spark.EqualNullSafe: lambda number: (number, number + 1),
    spark.GreaterThan: lambda number: (number + 1, None),
    spark.GreaterThanOrEqual: lambda number: (number, None),
    spark.LessThan: lambda number: (None, number),
    spark.LessThanOrEqual: lambda number: (None, number + 1),
}
_TEXTS: dict[type[Filter], Callable[[str, str], bool]] = {
    spark.EqualTo: str.__eq__,
    spark.EqualNullSafe: str.__eq__,
    spark.StringStartsWith: str.startswith,
    spark.StringEndsWith: str.endswith,
    spark.StringContains: str.__contains__,
}


def _narrowing(condition: Filter) -> tuple[Narrowing | None, bool]:
    """What a condition means for ranges, and whether that is all it means: then Spark need not look at it."""
    kind = type(condition)
    path: Sequence[str] = getattr(condition, "attribute", ())
    value: Any = getattr(condition, "value", None)
    column = path[0] if len(path) == 1 else ""
    if kind is IsNotNull:
        return None, column in ("topic", "offset", "publish_time")  # they never are null
    if column == "topic" and kind is In and all(isinstance(each, str) for each in value):
        return Narrowing(column, value.__contains__), True
    if column == "topic" and kind in _TEXTS and isinstance(value, str):
        return Narrowing(column, lambda topic: _TEXTS[kind](topic, value)), True
    if column == "offset" and kind is In and value and all(map(_is_number, value)):
        return Narrowing(column, None, min(value), max(value) + 1), False
    if column == "offset" and kind in _RANGES and _is_number(value):
        return Narrowing(column, None, *_RANGES[kind](value)), True
    if column == "publish_time" and kind in _RANGES and isinstance(value, datetime):
        return Narrowing(column, None, *_RANGES[kind](_microseconds(value))), False
    return None, False


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _microseconds(moment: datetime) -> int:
    """Since 1970; a time without a zone is in that of this machine, as Spark's are."""
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, min((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds, MICROSECONDS_MAX))


def _cut(span: Span, low: int | None, high: int | None) -> Span:
    first = span.first if low is None else min(max(span.first, low), span.until)
    until = span.until if high is None else max(min(span.until, high), first)
    return span._replace(first=first, until=until)


def _between(broker: BrokerClient, spans: list[Span], low: int | None, high: int | None) -> list[Span]:
    """The parts published from one time on and before another; the times of a topic never run backwards."""
    names = [span.topic for span in spans]
    lows = broker.find(dict.fromkeys(names, low)) if low is not None else {}
    highs = broker.find(dict.fromkeys(names, high)) if high is not None else {}
    return [_cut(span, lows.get(span.topic), highs.get(span.topic)) for span in spans]
