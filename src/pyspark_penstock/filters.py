"""A batch read that knows what the query filters by, and reads only where it can match.

A condition on `offset` or `topic` says which ranges are read, to the row; one on `publish_time` narrows the ranges and
is left with Spark as well; all others are Spark's. It is offered only where the option pushFilters asks for it. Spark
refuses every read of a reader that offers it while its own switch is off; and with the switch on it keeps the last plan
for every use of a DataFrame, so that one which is used again, or joined with itself, reads what the last filter left
(Spark 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter, In, IsNotNull

from pyspark_penstock.client import BrokerClient, Span
from pyspark_penstock.options import Options
from pyspark_penstock.positions import find
from pyspark_penstock.reading import PenstockReader

MICROSECONDS_MAX = (1 << 53) - 1


class FilteringReader(PenstockReader):
    """`spark.read.format("penstock").load(...).where(...)`."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        self.filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            taken = _is_exact(each)
            if taken or _narrows(each):
                self.filters.append(each)
            if not taken:
                yield each

    def _narrowed(self, broker: BrokerClient, spans: list[Span]) -> list[Span]:
        for each in self.filters:
            column, _ = _parts(each)
            if column == "topic":
                spans = [span for span in spans if _matches(each, span.topic)]
            elif column == "offset":
                spans = [_cut(span, *_range(each)) for span in spans]
            else:
                spans = _between(broker, spans, *_range(each))
        return spans


def _is_exact(condition: Filter) -> bool:
    """Whether which ranges are read says all that this condition says."""
    column, value = _parts(condition)
    if isinstance(condition, IsNotNull):
        return column in ("topic", "offset", "publish_time")  # they never are
    if column == "offset":
        return type(condition) in _RANGES and _is_number(value)
    if column != "topic":
        return False
    if isinstance(condition, In):
        return all(isinstance(each, str) for each in value)
    return type(condition) in _TEXTS and isinstance(value, str)


def _narrows(condition: Filter) -> bool:
    """Whether this condition, which Spark looks at as well, says that parts need not be read."""
    column, value = _parts(condition)
    if column == "publish_time":
        return type(condition) in _RANGES and isinstance(value, datetime)
    return column == "offset" and isinstance(condition, In) and bool(value) and all(map(_is_number, value))


def _parts(condition: Filter) -> tuple[str, Any]:
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return (path[0] if len(path) == 1 else ""), getattr(condition, "value", None)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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


def _matches(condition: Filter, topic: str) -> bool:
    value = _parts(condition)[1]
    if isinstance(condition, IsNotNull):
        return True
    return topic in value if isinstance(condition, In) else _TEXTS[type(condition)](topic, value)


def _range(condition: Filter) -> tuple[int | None, int | None]:
    value = _parts(condition)[1]
    if isinstance(condition, In):
        return min(value), max(value) + 1
    if isinstance(condition, IsNotNull):
        return None, None
    return _RANGES[type(condition)](_microseconds(value) if isinstance(value, datetime) else int(value))


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
    lows = find(broker, dict.fromkeys(names, low)) if low is not None else {}
    highs = find(broker, dict.fromkeys(names, high)) if high is not None else {}
    return [_cut(span, lows.get(span.topic), highs.get(span.topic)) for span in spans]
