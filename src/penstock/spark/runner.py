"""All flows of a pipeline at once, in one session, to their end.

The rule kept here: a flow that fails does not touch the others; a stop lets every flow end in order, and what was not
finished is done again by the next run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark import ready
from penstock.spark.building import written_topic
from penstock.spark.display import Summary
from penstock.spark.publishing import ensure_topic
from penstock.spark.records import DeadLetters, Flow, Insights, Pipeline, Replay
from penstock.spark.replay import ReplayRun
from penstock.spark.runs import FailedRun, Run, Standing, StreamRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_SECONDS = 0.25
SUMMARY_ROWS = 20

Show = Callable[[Mapping[str, Standing], float], None]


class Outcome(NamedTuple):
    standings: dict[str, Standing]
    logs: dict[str, Path]  # of the flows that failed
    stopped: bool

    @property
    def failed(self) -> bool:
        return any(standing.failure is not None for standing in self.standings.values())


def run_flows(session: SparkSession, pipeline: Pipeline, *, show: Show, stop: threading.Event, logs: Path) -> Outcome:
    """Start every flow, watch until the last has ended or `stop` is set."""
    refused = make_topics(pipeline)
    runs = [
        FailedRun(flow, refused[flow.name]) if flow.name in refused else _started(session, pipeline, flow, stop)
        for flow in pipeline.flows
        if not stop.is_set()
    ]
    try:
        standings = _watched(runs, show, stop)
    finally:
        for run in runs:
            run.stop()  # one that has ended does not mind
    standings = _standings(runs)
    show(standings, time.monotonic())
    for run in runs:
        run.settle()
    return Outcome(standings, _logged(standings, logs), stop.is_set())


def make_topics(pipeline: Pipeline) -> dict[str, BaseException]:
    """Make the topics that are written to before anybody reads them; the flows whose topic cannot be made."""
    from pyspark_penstock.errors import PenstockError, UnreachableError

    refused: dict[str, BaseException] = {}
    for flow in pipeline.flows:
        options = written_topic(pipeline, flow)
        try:
            if options is not None and options["createTopics"] == "true":
                ensure_topic(options)
        except UnreachableError:
            break  # each flow says so itself, when it has tried for as long as it may
        except PenstockError as error:
            refused[flow.name] = error
    return refused


def _started(session: SparkSession, pipeline: Pipeline, flow: Flow, stop: threading.Event) -> Run:
    try:
        if isinstance(flow.table, Replay):
            return ReplayRun(session, pipeline, flow)
        run = StreamRun(session, pipeline, flow)
        run.await_source(stop)
        return run
    except Exception as error:  # noqa: BLE001 - whatever Spark or a user's function raises, the other flows start
        return FailedRun(flow, error)


def _watched(runs: Sequence[Run], show: Show, stop: threading.Event) -> dict[str, Standing]:
    standings = _standings(runs)
    while any(standing.active for standing in standings.values()) and not stop.wait(LOOK_SECONDS):
        standings = _standings(runs)
        show(standings, time.monotonic())
    return standings


def _standings(runs: Sequence[Run]) -> dict[str, Standing]:
    return {run.flow.name: run.standing() for run in runs}


def _logged(standings: Mapping[str, Standing], logs: Path) -> dict[str, Path]:
    """The whole stack of each failure, in a file."""
    found: dict[str, Path] = {}
    for name, standing in standings.items():
        if standing.failure is not None:
            logs.mkdir(parents=True, exist_ok=True)
            found[name] = logs / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}.log"
            found[name].write_text(standing.failure.stack, encoding="utf-8")
    return found


def summaries(session: SparkSession, pipeline: Pipeline, standings: Mapping[str, Standing]) -> list[Summary]:
    """What the ready-made flows found, a few rows each."""
    shown: list[Summary] = []
    for flow in pipeline.flows:
        table = flow.table
        if standings[flow.name].failure is not None or not standings[flow.name].rows_in:
            continue
        if isinstance(table, Insights):
            shown.append(_insights(flow.name, session.read.parquet(table.folder)))
        elif isinstance(table, DeadLetters):
            shown.append(_dead_letters(flow.name, session.read.parquet(table.folder)))
    return shown


def _insights(name: str, rows: DataFrame) -> Summary:
    newest = ready.merged_insights(rows).orderBy("minute", "topic", ascending=[False, True]).limit(SUMMARY_ROWS)
    columns = ["minute", "topic", "messages", "bytes", "size_p50", "size_p99", "latency_p50_ms", "latency_p99_ms"]
    return Summary(f"{name}: the newest minutes", columns, [tuple(row) for row in newest.select(columns).collect()])


def _dead_letters(name: str, rows: DataFrame) -> Summary:
    merged = ready.merged_dead_letters(rows).orderBy("letters", "last_at", ascending=False).limit(SUMMARY_ROWS)
    columns = ["subscription", "attempts", "hour", "reason", "letters", "longest_ms", "sample"]
    return Summary(f"{name}: who failed", columns, [tuple(row) for row in merged.select(columns).collect()])
