"""`replay`: messages of a lake published again, in their order, each once.

A replay first writes down what it will publish: per topic and day, from which offset up to which. Then it publishes
day after day, each topic of a day by one task, sorted by offset, under a key made of the plan and the day. Killed and
run again, it finds its plan, publishes the day it was in under the same keys (the broker knows them) and goes on. When
a plan is done, the next run plans what the lake has got since.

The rule kept here: a plan is written before anything is published and never changed, so the same rows always have the
same keys.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import FailedPreconditionError, InvalidArgumentError
from penstock.spark import publishing
from penstock.spark.building import sink_options
from penstock.spark.records import Flow, Pipeline, Replay
from penstock.spark.runs import Failure, Standing, failure_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PARTS = 16  # tasks that a day's topics are shared among; a topic is always in the same one
LAKE_COLUMNS = ("topic", "offset", "data", "attributes", "publish_time", "ordering_key", "day")


class Range(msgspec.Struct, frozen=True):
    """Messages of one topic and day, both offsets included."""

    topic: str
    day: str
    first: int
    last: int
    rows: int


class Plan(msgspec.Struct):
    id: str
    ranges: list[Range]
    finished: dict[str, int] = {}  # the last offset of each topic that earlier plans published
    days_done: list[str] = []

    @property
    def days(self) -> list[str]:
        return sorted({each.day for each in self.ranges} - set(self.days_done))

    def rows(self, day: str) -> int:
        return sum(each.rows for each in self.ranges if each.day == day)

    def reached(self) -> dict[str, int]:
        """The last offset of each topic, with this plan done."""
        reached = dict(self.finished)
        for each in self.ranges:
            reached[each.topic] = max(each.last, reached.get(each.topic, -1))
        return reached


class ReplayRun:
    """A replay in a thread of its own: a batch job per day, because a stream cannot be sorted."""

    def __init__(self, session: SparkSession, pipeline: Pipeline, flow: Flow) -> None:
        assert isinstance(flow.table, Replay)
        self.flow = flow
        self.table = flow.table
        self._session = session
        self._options = sink_options(pipeline, flow.table.topic, dict(flow.table.options))
        self._plan_file = _plan_file(flow)
        self._begun = time.monotonic()
        self._standing = Standing(rows_out=0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"replay-{flow.name}", daemon=True)
        self._thread.start()

    def standing(self) -> Standing:
        if not self._standing.active:
            return self._standing
        return self._standing._replace(seconds=time.monotonic() - self._begun)

    def stop(self) -> None:
        self._stop.set()
        with suppress(Exception):
            self._session.interruptTag(self._tag)
        self._thread.join(30)

    def settle(self) -> None:
        """Nothing is open."""

    @property
    def _tag(self) -> str:
        return f"penstock-replay-{self.flow.name}"

    def _run(self) -> None:
        failure: Failure | None = None
        done = False
        try:
            self._session.addTag(self._tag)
            done = self._replay()
        except Exception as error:  # noqa: BLE001 - whatever Spark or the broker says, the other flows go on
            failure = None if self._stop.is_set() else failure_of(error)
        self._standing = self.standing()._replace(
            active=False, failure=failure, stopped=self._stop.is_set() and not done
        )

    def _replay(self) -> bool:
        """Whether all of it is published now."""
        lake = _lake(self._session, self.table)
        plan = self._plan(lake)
        done = sum(plan.rows(day) for day in plan.days_done)
        total = sum(each.rows for each in plan.ranges)
        self._standing = self._standing._replace(to_go=total - done)
        for day in plan.days:
            if self._stop.is_set():
                return False
            fresh = publishing.publish(_ordered(lake, plan, day), self._options, f"replay/{plan.id}/{day}")
            plan.days_done.append(day)
            _save(self._plan_file, plan)
            self._count(plan.rows(day), fresh)
        return True

    def _count(self, rows: int, fresh: int) -> None:
        before = self._standing
        self._standing = before._replace(
            rows_in=before.rows_in + rows,
            rows_out=(before.rows_out or 0) + fresh,
            to_go=(before.to_go or rows) - rows,
            batches=before.batches + 1,
        )

    def _plan(self, lake: DataFrame) -> Plan:
        """The plan that is not done yet, or a new one for what the lake has beyond it."""
        old = _load(self._plan_file)
        if old is not None and old.days:
            return old
        finished = old.reached() if old is not None else {}
        plan = Plan(uuid.uuid4().hex, list(_ranges(lake, finished)), finished)
        _save(self._plan_file, plan)
        return plan


def _plan_file(flow: Flow) -> Path:
    if "://" in flow.checkpoint:
        raise InvalidArgumentError("the checkpoint of a replay is a folder of the machine that runs it")
    return Path(flow.checkpoint) / "plan.json"


def _lake(session: SparkSession, table: Replay) -> DataFrame:
    """The messages of the lake that are asked for."""
    from pyspark.sql import functions as F

    frame = session.read.parquet(table.lake)
    missing = [name for name in LAKE_COLUMNS if name not in frame.columns]
    if missing:
        raise FailedPreconditionError(f"{table.lake} is not a lake of archive: it has no column {missing[0]}")
    topics = [table.only] if isinstance(table.only, str) else table.only
    if topics:
        frame = frame.where(F.col("topic").isin(topics) | F.element_at(F.split("topic", "/"), -1).isin(topics))
    if table.since is not None:
        frame = frame.where((F.col("publish_time") >= F.lit(table.since)) & (F.col("day") >= _day(table.since)))
    if table.until is not None:
        frame = frame.where((F.col("publish_time") < F.lit(table.until)) & (F.col("day") <= _day(table.until)))
    return frame


def _day(instant: Any) -> Column:
    from datetime import UTC

    from pyspark.sql import functions as F

    return F.lit(instant.astimezone(UTC).date())


def _ranges(lake: DataFrame, finished: dict[str, int]) -> Iterator[Range]:
    from pyspark.sql import functions as F

    frame = lake.where(_beyond(finished)) if finished else lake
    summed = frame.groupBy("topic", F.col("day").cast("string").alias("day")).agg(
        F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("rows")
    )
    for row in summed.orderBy("day", "topic").collect():  # a row per topic and day
        yield Range(row["topic"], row["day"], row["first"], row["last"], row["rows"])


def _beyond(finished: dict[str, int]) -> Column:
    from pyspark.sql import functions as F

    return F.col("offset") > F.coalesce(_by_topic(finished), F.lit(-1))


def _by_topic(offsets: dict[str, int]) -> Column:
    """The offset that belongs to a row's topic, null for a topic that is not among them."""
    from pyspark.sql import functions as F

    return F.create_map(*(F.lit(each) for pair in offsets.items() for each in pair))[F.col("topic")]


def _ordered(lake: DataFrame, plan: Plan, day: str) -> DataFrame:
    """A day's messages as the sink takes them: a topic in one partition, in the order of its offsets."""
    from pyspark.sql import functions as F

    ranges = [each for each in plan.ranges if each.day == day]
    first, last = ({each.topic: getattr(each, name) for each in ranges} for name in ("first", "last"))
    planned = F.col("offset").between(_by_topic(first), _by_topic(last))
    rows = lake.where((F.col("day") == F.lit(day).cast("date")) & planned)
    ordered = rows.repartition(PARTS, "topic").sortWithinPartitions("topic", "offset")
    return ordered.select("data", "attributes", "ordering_key")


def _load(path: Path) -> Plan | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise FailedPreconditionError(f"{path} is not the plan of a replay: {error}") from error


def _save(path: Path, plan: Plan) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(msgspec.to_builtins(plan)), encoding="utf-8")
    draft.replace(path)
