"""A batch reader that applies the query's filters and reads only where they can match.

A filter on `offset` or `topic` selects the exact rows to read. A filter on `publish_time` narrows the ranges, and Spark
applies it as well. Spark applies all other filters.

The option pushFilters turns this on, and it is off by default for two reasons. While Spark's own switch for filter
pushdown is off, Spark refuses every read of such a reader. While the switch is on, Spark 4.3 reuses the plan with the
last filters for every use of a DataFrame, so a DataFrame that is used twice or joined with itself reads wrong rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter, In, IsNotNull

from pyspark_penstock.batch_reader import PenstockReader
from pyspark_penstock.client import BrokerClient, Span
from pyspark_penstock.options import Options

MICROSECONDS_MAX = (1 << 53) - 1


class Narrowing(NamedTuple):
    """The ranges a filter needs: topics for which `matches`, or values from `low` to before `high` (None: no bound)."""

    column: str
    matches: Callable[[str], bool] | None = None
    low: int | None = None
    high: int | None = None


class FilteringReader(PenstockReader):
    """The reader of `spark.read.format("penstock").option("pushFilters", True).load(...).where(...)`."""

    def __init__(self, options: Options, columns: Sequence[str], *, text: bool = False) -> None:
        super().__init__(options, columns, text=text)
        self.narrowings: list[Narrowing] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for condition in filters:
            narrowing, is_exact = _narrowing(condition)
            if narrowing is not None:
                self.narrowings.append(narrowing)
            if not is_exact:
                yield condition

    def _narrow(self, broker: BrokerClient, spans: list[Span]) -> list[Span]:
        for column, matches, low, high in self.narrowings:
            if matches is not None:
                spans = [span for span in spans if matches(span.topic)]
            elif column == "offset":
                spans = [_cut(span, low, high) for span in spans]
            else:
                spans = _cut_by_time(broker, spans, low, high)
        return spans


# For a comparison with a number: the lowest matching value, and the first value above the match. None: no bound.
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
    """Return the ranges a filter needs, and whether they match it exactly, so that Spark need not apply it."""
    kind = type(condition)
    path: Sequence[str] = getattr(condition, "attribute", ())
    value: Any = getattr(condition, "value", None)
    column = path[0] if len(path) == 1 else ""
    if kind is IsNotNull:
        return None, column in ("topic", "offset", "publish_time")  # these columns are never null
    if column == "topic" and kind is In and all(isinstance(name, str) for name in value):
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
    """Return microseconds since 1970. A time without a zone is in this machine's zone, as in Spark."""
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, min((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds, MICROSECONDS_MAX))


def _cut(span: Span, low: int | None, high: int | None) -> Span:
    first = span.first if low is None else min(max(span.first, low), span.until)
    until = span.until if high is None else max(min(span.until, high), first)
    return span._replace(first=first, until=until)


def _cut_by_time(broker: BrokerClient, spans: list[Span], low: int | None, high: int | None) -> list[Span]:
    """Return the parts published from `low` to before `high`. Publish times in a topic never decrease."""
    names = [span.topic for span in spans]
    lows = broker.find(dict.fromkeys(names, low)) if low is not None else {}
    highs = broker.find(dict.fromkeys(names, high)) if high is not None else {}
    return [_cut(span, lows.get(span.topic), highs.get(span.topic)) for span in spans]
