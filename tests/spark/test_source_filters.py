"""Filter pushdown: the ranges that are read, without losing rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pyspark_penstock.batch_reader import PenstockReader, RangePartition, group_parts
from pyspark_penstock.client import Span
from pyspark_penstock.filters import FilteringReader
from pyspark_penstock.options import parse
from pyspark_penstock.source import PenstockDataSource
from tests.spark.conftest import MakeTopic
from tests.spark.servers import Server

OFFSET, TIME, TOPIC = ("offset",), ("publish_time",), ("topic",)


def read(server: Server, filters: list[Filter], **options: Any) -> tuple[list[tuple[str, int]], list[Filter]]:
    """Return the rows that are read, by topic and offset, and the filters that are left to Spark."""
    raw = {"endpoint": server.endpoint} | {name: str(value) for name, value in options.items()}
    source = FilteringReader(parse(raw), ["topic", "offset"])
    left = list(source.pushFilters(filters))
    rows = [row for part in source.partitions() for found in source.read(part) for row in found.to_pylist()]
    return [(row["topic"], row["offset"]) for row in rows], left


@pytest.mark.parametrize(
    ("filters", "offsets"),
    [
        ([GreaterThan(OFFSET, 16)], [17, 18, 19]),
        ([GreaterThanOrEqual(OFFSET, 17)], [17, 18, 19]),
        ([LessThan(OFFSET, 2)], [0, 1]),
        ([LessThanOrEqual(OFFSET, 2)], [0, 1, 2]),
        ([EqualTo(OFFSET, 7)], [7]),
        ([GreaterThan(OFFSET, 3), LessThan(OFFSET, 6), IsNotNull(OFFSET)], [4, 5]),
        ([GreaterThan(OFFSET, 100)], []),
        ([LessThan(OFFSET, -1)], []),
        ([GreaterThan(OFFSET, 6), LessThan(OFFSET, 3)], []),
    ],
)
def test_a_filter_on_offsets_is_applied(
    server: Server, make_topic: MakeTopic, filters: list[Filter], offsets: list[int]
) -> None:
    topic = make_topic(*[b"x"] * 20)
    assert read(server, filters, topic=topic) == ([(topic, offset) for offset in offsets], [])


def test_other_filters_are_left_to_spark(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*[b"x"] * 20)
    theirs = [Not(EqualTo(OFFSET, 3)), EqualTo(("ordering_key",), "k"), EqualTo(("attributes", "a"), "b")]
    rows, left = read(server, theirs, topic=topic)
    assert (len(rows), left) == (20, theirs)
    some = In(OFFSET, (3, 5))
    assert read(server, [some], topic=topic) == ([(topic, 3), (topic, 4), (topic, 5)], [some])


def test_a_filter_on_topics_is_applied(server: Server, make_topic: MakeTopic) -> None:
    one, two = make_topic(b"x", name="choose-one"), make_topic(b"x", name="choose-two")
    both = {"topicPattern": "choose-.*"}
    for chosen in (
        EqualTo(TOPIC, one),
        In(TOPIC, (one, "elsewhere")),
        StringEndsWith(TOPIC, "-one"),
        StringContains(TOPIC, "e-o"),
        StringStartsWith(TOPIC, one),
    ):
        assert read(server, [chosen], **both) == ([(one, 0)], [])
    assert read(server, [IsNotNull(TOPIC), EqualTo(TOPIC, "one")], **both) == ([], [])
    assert read(server, [StringStartsWith(TOPIC, "projects/")], **both) == ([(one, 0), (two, 0)], [])


def test_a_filter_on_times_narrows_and_is_left_to_spark(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for number in range(4):
        server.publish(topic, [b"%d" % number])
    times = [row["publish_time"] for row in server.rows(topic)]
    assert len(set(times)) == 4
    tick = timedelta(microseconds=1)
    for condition, offsets in (
        (GreaterThanOrEqual(TIME, times[2]), [2, 3]),
        (GreaterThan(TIME, times[2]), [3]),
        (GreaterThan(TIME, times[2] - tick), [2, 3]),
        (LessThan(TIME, times[2]), [0, 1]),
        (LessThanOrEqual(TIME, times[2]), [0, 1, 2]),
        (EqualTo(TIME, times[1]), [1]),
        (LessThan(TIME, datetime(1960, 1, 1, tzinfo=UTC)), []),
        (GreaterThan(TIME, datetime(9999, 1, 1, tzinfo=UTC)), []),
    ):
        assert read(server, [condition], topic=topic) == ([(topic, offset) for offset in offsets], [condition])


def test_filters_are_pushed_only_with_the_option() -> None:
    """Spark refuses all reads of a source that offers filters while its switch is off."""
    for raw, kind in (({}, PenstockReader), ({"pushFilters": "true"}, FilteringReader)):
        source = PenstockDataSource({"topic": "t"} | raw)
        assert type(source.reader(source.schema())) is kind


# ---------------------------------------------------------------------- shared partitions


def test_small_topics_share_a_partition(server: Server, make_topic: MakeTopic) -> None:
    topics = [make_topic(b"a", b"b", b"c", name=f"small-{number:02d}") for number in range(20)]
    raw = {"endpoint": server.endpoint, "topicPattern": "small-.*"}
    source = PenstockReader(parse(raw), ["topic", "offset", "data"])
    [part] = source.partitions()
    assert isinstance(part, RangePartition)
    assert len(part.spans) == 20
    [rows] = source.read(part)
    assert rows.column("topic").to_pylist() == [topic for topic in topics for _ in range(3)]
    assert len(PenstockReader(parse(raw | {"minPartitions": "7"}), ["data"]).partitions()) == 7
    few = PenstockReader(parse(raw | {"maxRecordsPerPartition": "6"}), ["data"]).partitions()
    assert len(few) == 10


def test_shared_partitions_stay_small() -> None:
    spans = [(Span(f"t{number}", 0, 10), 3 << 20) for number in range(6)]
    assert [len(group) for group in group_parts(spans, parse({}))] == [2, 2, 2]
    cut = [(Span("t", 0, 10), 100), (Span("t", 10, 20), 100), (Span("u", 0, 5), 100)]
    assert group_parts(cut, parse({})) == [[Span("t", 0, 20), Span("u", 0, 5)]]
    many = [(Span(f"t{number:04d}", 0, 1), 1) for number in range(1001)]
    assert [len(group) for group in group_parts(many, parse({}))] == [500, 500, 1]
