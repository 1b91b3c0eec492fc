"""Filters in Spark, with its switch on and off, and many small topics in one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spark.conftest import MakeTopic
from tests.spark.queries import failure

SWITCH = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def _pushing(spark: Any) -> Iterator[None]:
    spark.conf.set(SWITCH, "true")
    yield
    spark.conf.unset(SWITCH)


def scanned(frame: Any) -> int:
    """Return the number of rows that the source passes to a query."""
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(leaves.apply(place).metrics().apply("numOutputRows").value() for place in range(leaves.size()))


@pytest.mark.usefixtures("_pushing")
def test_filters_are_applied_where_the_log_is(make_topic: MakeTopic, read: Callable[..., Any]) -> None:
    topic = make_topic(*[b"%03d" % number for number in range(200)])
    for condition, wanted, rows in (
        ("offset > 197", [198, 199], 2),
        ("offset >= 2 AND offset < 4 AND data = binary('003')", [3], 2),
        (f"topic = '{topic}' AND offset IN (5, 9)", [5, 9], 5),
        ("topic = 'elsewhere'", [], 0),
        ("offset = 7 OR topic LIKE 'nothing%'", [7], 200),
        ("publish_time > '2000-01-01' AND offset = 1", [1], 1),
        ("publish_time < '2000-01-01'", [], 0),
    ):
        chosen = read(topic, pushFilters=True).where(condition)
        assert [row.offset for row in chosen.collect()] == wanted, condition
        assert scanned(chosen) == rows, condition


@pytest.mark.usefixtures("_pushing")
def test_a_frame_that_is_used_twice_reads_all_rows(make_topic: MakeTopic, read: Callable[..., Any]) -> None:
    """Spark reuses the plan with the last filters for every use of a frame. Without the option there are no filters."""
    frame = read(make_topic(*[b"x"] * 20))
    assert [frame.where("offset > 17").count(), frame.count()] == [2, 20]
    assert frame.where("offset >= 18").alias("a").crossJoin(frame.where("offset < 3").alias("b")).count() == 6


def test_spark_says_so_if_its_switch_is_off(make_topic: MakeTopic, read: Callable[..., Any]) -> None:
    assert SWITCH in failure(lambda: read(make_topic(b"x"), pushFilters=True).where("offset = 0").count())


def test_many_small_topics_are_read_by_one_task(make_topic: MakeTopic, read: Callable[..., Any]) -> None:
    for number in range(40):
        make_topic(b"a", b"b", b"c", name=f"crowd-{number:02d}")
    frame = read(topicPattern="crowd-.*")
    assert frame.rdd.getNumPartitions() == 1
    assert frame.count() == 120
    assert frame.where("topic LIKE '%-07'").count() == 3
