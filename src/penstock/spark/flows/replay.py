"""The flow `replay`: it publishes archived messages to a topic again, in order and exactly once.

A replay first writes a plan: the range of offsets for each topic and day. Then it publishes day after day. One task
publishes a topic's messages of a day, sorted by offset, under a key made from the plan and the day. After a kill, the
next run reads the plan, publishes the unfinished day under the same keys, which the broker knows, and continues. When a
plan is done, the next run plans the messages that were archived since. A plan never changes, so the same rows always
have the same keys.
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

PARTS = 16  # tasks of a day; a topic is always in the same one
LAKE_COLUMNS = ("topic", "offset", "data", "attributes", "publish_time", "ordering_key", "day")


class Replay(FlowKind, kw_only=True):
    lake: str
    topic: str
    only: str | list[str] = []  # archived topics to publish; empty: all
    since: datetime | None = None  # earliest publish time; a date means midnight in UTC
    until: datetime | None = None  # end of the publish times, exclusive

    folders = ("lake",)

    @property
    def output(self) -> Output:
        return Output(topic=self.topic, topic_options=self.options)

    def run(self, session: SparkSession, pipeline: Pipeline, flow: Flow, stop: threading.Event) -> Run:
        return ReplayRun(session, pipeline, flow, self)

    def messages(self, session: SparkSession) -> DataFrame:
        """Return the selected messages of the lake."""
        from pyspark.sql import functions as F

        frame = session.read.parquet(self.lake)
        missing = [name for name in LAKE_COLUMNS if name not in frame.columns]
        if missing:
            raise FailedPreconditionError(f"{self.lake} was not written by archive: it has no column {missing[0]}")
        topics = [self.only] if isinstance(self.only, str) else self.only
        time, day = F.col("publish_time"), F.col("day")
        if topics:
            frame = frame.where(F.col("topic").isin(topics) | F.element_at(F.split("topic", "/"), -1).isin(topics))
        if self.since is not None:  # the day is a folder, so Spark does not open other days
            frame = frame.where((time >= F.lit(self.since)) & (day >= F.lit(self.since.astimezone(UTC).date())))
        if self.until is not None:
            frame = frame.where((time < F.lit(self.until)) & (day <= F.lit(self.until.astimezone(UTC).date())))
        return frame


class Range(msgspec.Struct, frozen=True):
    """The messages of one topic and day."""

    topic: str
    day: str
    first: int  # offset
    last: int  # offset, inclusive
    rows: int


class ReplayPlan(msgspec.Struct):
    id: str
    ranges: list[Range]
    finished: dict[str, int] = {}  # by topic, the last offset that earlier plans published
    days_done: list[str] = []

    @property
    def days(self) -> list[str]:
        return sorted({span.day for span in self.ranges} - set(self.days_done))

    def rows(self, day: str) -> int:
        return sum(span.rows for span in self.ranges if span.day == day)

    def reached(self) -> dict[str, int]:
        """Return the last offset of each topic after this plan."""
        reached = dict(self.finished)
        for span in self.ranges:
            reached[span.topic] = max(span.last, reached.get(span.topic, -1))
        return reached


class ReplayRun(Run):
    """A replay in its own thread, as a batch job per day, because a stream cannot be sorted."""

    def __init__(self, session: SparkSession, pipeline: Pipeline, flow: Flow, replay: Replay) -> None:
        if "://" in flow.checkpoint:
            raise InvalidArgumentError("the checkpoint of a replay must be a folder of this machine")
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
        except Exception as error:  # noqa: BLE001 - the other flows continue, whatever Spark raises
            failure = None if self._stop.is_set() else failure_of(error)
        stopped = self._stop.is_set() and not done
        self._progress = self.progress()._replace(active=False, failure=failure, stopped=stopped)

    def _publish(self) -> bool:
        """Publish the plan. Return False if it was stopped before the end."""
        lake = self._replay.messages(self._session)
        plan = self._plan(lake)
        to_go = sum(map(plan.rows, plan.days))
        self._progress = self._progress._replace(to_go=to_go)
        for day in plan.days:
            if self._stop.is_set():
                return False
            fresh = publish(_select_day(lake, plan, day), self._options, f"replay/{plan.id}/{day}")
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
        """Return the unfinished plan, or a new plan for messages that were archived since the last one."""
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
    """Return the offset of a row's topic, or null for other topics."""
    from pyspark.sql import functions as F

    return F.create_map(*(F.lit(part) for pair in offsets.items() for part in pair))[F.col("topic")]


def _select_day(lake: DataFrame, plan: ReplayPlan, day: str) -> DataFrame:
    """Return a day's messages for the sink: each topic in one partition, in the order of its offsets."""
    from pyspark.sql import functions as F

    ranges = [span for span in plan.ranges if span.day == day]
    first, last = ({span.topic: getattr(span, name) for span in ranges} for name in ("first", "last"))
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
        raise FailedPreconditionError(f"{path} is not a valid replay plan: {error}") from error
    except RecursionError:
        raise FailedPreconditionError(f"{path} is not a valid replay plan: it is nested too deeply") from None


def _save(path: Path, plan: ReplayPlan) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(plan))
    draft.replace(path)
