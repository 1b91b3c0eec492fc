"""`replay`: messages of a lake published again to a topic, in their order, each once.

A replay first writes down what it will publish: per topic and day, from which offset up to which. Then it publishes
day after day, each topic of a day by one task, sorted by offset, under a key made of the plan and the day. Killed and
run again, it finds its plan, publishes the day it was in under the same keys (the broker knows them) and goes on. When
a plan is done, the next run plans what the lake has got since. A plan is never changed, so the same rows always have
the same keys.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import FailedPreconditionError, InvalidArgumentError
from penstock.spark.flows.kind import FlowKind, Output
from penstock.spark.publishing import publish
from penstock.spark.records import Flow, Pipeline
from penstock.spark.runs import Failure, Progress, Run, failure_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PARTS = 16  # tasks that a day's topics are shared among; a topic is always in the same one
LAKE_COLUMNS = ("topic", "offset", "data", "attributes", "publish_time", "ordering_key", "day")


class Replay(FlowKind, kw_only=True):
    lake: str
    topic: str
    only: str | list[str] = []  # topics of the lake; default: all
    since: datetime | None = None  # of the publish time; a day is its midnight in UTC
    until: datetime | None = None  # exclusive

    folders = ("lake",)

    @property
    def output(self) -> Output:
        return Output(topic=self.topic, topic_options=self.options)

    def run(self, session: SparkSession, pipeline: Pipeline, flow: Flow, stop: threading.Event) -> Run:
        return ReplayRun(session, pipeline, flow, self)

    def messages(self, session: SparkSession) -> DataFrame:
        """The messages of the lake that are asked for."""
        from pyspark.sql import functions as F

        frame = session.read.parquet(self.lake)
        missing = [name for name in LAKE_COLUMNS if name not in frame.columns]
        if missing:
            raise FailedPreconditionError(f"{self.lake} is not a lake of archive: it has no column {missing[0]}")
        topics = [self.only] if isinstance(self.only, str) else self.only
        time, day = F.col("publish_time"), F.col("day")
        if topics:
            frame = frame.where(F.col("topic").isin(topics) | F.element_at(F.split("topic", "/"), -1).isin(topics))
        if self.since is not None:  # the day is the name of a folder: others are not opened
            frame = frame.where((time >= F.lit(self.since)) & (day >= F.lit(self.since.astimezone(UTC).date())))
        if self.until is not None:
            frame = frame.where((time < F.lit(self.until)) & (day <= F.lit(self.until.astimezone(UTC).date())))
        return frame


class Range(msgspec.Struct, frozen=True):
    """Messages of one topic and day, both offsets included."""

    topic: str
    day: str
    first: int
    last: int
    rows: int


class ReplayPlan(msgspec.Struct):
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


class ReplayRun(Run):
    """A replay in a thread of its own: a batch job per day, because a stream cannot be sorted."""

    def __init__(self, session: SparkSession, pipeline: Pipeline, flow: Flow, replay: Replay) -> None:
        if "://" in flow.checkpoint:
            raise InvalidArgumentError("the checkpoint of a replay is a folder of the machine that runs it")
        self.flow = flow
        self._replay = replay
        self._session = session
        self._tag = f"penstock-replay-{flow.name}"
        self._options = pipeline.sink_options(replay.topic, replay.options)
        self._plan_file = Path(flow.checkpoint) / "plan.json"
        self._begun = time.monotonic()
        self._progress = Progress(rows_out=0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"replay-{flow.name}", daemon=True)
        self._thread.start()

    def progress(self) -> Progress:
        if not self._progress.active:
            return self._progress
        return self._progress._replace(seconds=time.monotonic() - self._begun)

    def stop(self) -> None:
        self._stop.set()
        with suppress(Exception):
            self._session.interruptTag(self._tag)
        self._thread.join(30)

    def _run(self) -> None:
        failure: Failure | None = None
        done = False
        try:
            self._session.addTag(self._tag)
            done = self._publish()
        except Exception as error:  # noqa: BLE001 - whatever Spark or the broker says, the other flows go on
            failure = None if self._stop.is_set() else failure_of(error)
        stopped = self._stop.is_set() and not done
        self._progress = self.progress()._replace(active=False, failure=failure, stopped=stopped)

    def _publish(self) -> bool:
        """Whether all of it is published now."""
        lake = self._replay.messages(self._session)
        plan = self._plan(lake)
        to_go = sum(map(plan.rows, plan.days))
        self._progress = self._progress._replace(to_go=to_go)
        for day in plan.days:
            if self._stop.is_set():
                return False
            fresh = publish(_ordered(lake, plan, day), self._options, f"replay/{plan.id}/{day}")
            plan.days_done.append(day)
            _save(self._plan_file, plan)
            before, rows = self._progress, plan.rows(day)
            to_go -= rows
            self._progress = before._replace(
                rows_in=before.rows_in + rows,
                rows_out=(before.rows_out or 0) + fresh,
                to_go=to_go,
                batches=before.batches + 1,
            )
        return True

    def _plan(self, lake: DataFrame) -> ReplayPlan:
        """The plan that is not done yet, or a new one for what the lake has beyond it."""
        old = _load(self._plan_file)
        if old is not None and old.days:
            return old
        finished = old.reached() if old is not None else {}
        plan = ReplayPlan(uuid.uuid4().hex, list(_ranges(lake, finished)), finished)
        _save(self._plan_file, plan)
        return plan


def _ranges(lake: DataFrame, finished: dict[str, int]) -> Iterator[Range]:
    from pyspark.sql import functions as F

    beyond = F.col("offset") > F.coalesce(_by_topic(finished), F.lit(-1)) if finished else F.lit(True)
    summed = (
        lake.where(beyond)
        .groupBy("topic", F.col("day").cast("string").alias("day"))
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("rows"))
    )
    for row in summed.orderBy("day", "topic").collect():  # a row per topic and day
        yield Range(row["topic"], row["day"], row["first"], row["last"], row["rows"])


def _by_topic(offsets: dict[str, int]) -> Column:
    """The offset that belongs to a row's topic, null for a topic that is not among them."""
    from pyspark.sql import functions as F

    return F.create_map(*(F.lit(each) for pair in offsets.items() for each in pair))[F.col("topic")]


def _ordered(lake: DataFrame, plan: ReplayPlan, day: str) -> DataFrame:
    """A day's messages as the sink takes them: a topic in one partition, in the order of its offsets."""
    from pyspark.sql import functions as F

    ranges = [each for each in plan.ranges if each.day == day]
    first, last = ({each.topic: getattr(each, name) for each in ranges} for name in ("first", "last"))
    planned = F.col("offset").between(_by_topic(first), _by_topic(last))
    rows = lake.where((F.col("day") == F.lit(day).cast("date")) & planned)
    ordered = rows.repartition(PARTS, "topic").sortWithinPartitions("topic", "offset")
    return ordered.select("data", "attributes", "ordering_key")


def _load(path: Path) -> ReplayPlan | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReplayPlan)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise FailedPreconditionError(f"{path} is not the plan of a replay: {error}") from error


def _save(path: Path, plan: ReplayPlan) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(plan))
    draft.replace(path)
