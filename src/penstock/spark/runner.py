"""All flows of a pipeline at once, in one session, to their end.

A flow that fails does not touch the others; a stop lets every flow end in order, and what was not finished is done
again by the next run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.publishing import ensure_topic
from penstock.spark.records import Pipeline
from penstock.spark.runs import FailedRun, Progress, Run, Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.25

Show = Callable[[Mapping[str, Progress], float], None]


class Outcome(NamedTuple):
    progress: dict[str, Progress]
    logs: dict[str, Path]  # of the flows that failed
    stopped: bool

    @property
    def failed(self) -> bool:
        return any(each.failure is not None for each in self.progress.values())


def run_flows(session: SparkSession, pipeline: Pipeline, *, show: Show, stop: threading.Event, logs: Path) -> Outcome:
    """Start every flow, watch until the last has ended or `stop` is set."""
    refused = make_topics(pipeline)
    runs: list[Run] = []
    for flow in pipeline.flows:
        if stop.is_set():
            break
        try:
            failed = flow.name in refused
            runs.append(FailedRun(flow, refused[flow.name]) if failed else flow.kind.run(session, pipeline, flow, stop))
        except Exception as error:  # noqa: BLE001 - whatever Spark or a user's function raises, the other flows start
            runs.append(FailedRun(flow, error))
    try:
        progress = _progress(runs)
        while any(each.active for each in progress.values()) and not stop.wait(LOOK_SECONDS):
            progress = _progress(runs)
            show(progress, time.monotonic())
    finally:
        for run in runs:
            run.stop()  # also one that has ended
    progress = _progress(runs)
    show(progress, time.monotonic())
    for run in runs:
        run.settle()
    return Outcome(progress, _logged(progress, logs), stop.is_set())


def _progress(runs: Sequence[Run]) -> dict[str, Progress]:
    return {run.flow.name: run.progress() for run in runs}


def make_topics(pipeline: Pipeline) -> dict[str, BaseException]:
    """Make the topics that are written to before they are read; the flows whose topic cannot be made."""
    from pyspark_penstock.errors import PenstockError, UnreachableError

    refused: dict[str, BaseException] = {}
    for flow in pipeline.flows:
        topic, given = flow.kind.output.topic, flow.kind.output.topic_options
        options = pipeline.sink_options(topic, given) if topic else {}
        try:
            if options.get("createTopics") == "true":
                ensure_topic(options)
        except UnreachableError:
            break  # each flow says so itself, when it has tried for as long as it may
        except PenstockError as error:
            refused[flow.name] = error
    return refused


def _logged(progress: Mapping[str, Progress], logs: Path) -> dict[str, Path]:
    """The whole stack of each failure, in a file."""
    found: dict[str, Path] = {}
    for name, ended in progress.items():
        if ended.failure is not None:
            logs.mkdir(parents=True, exist_ok=True)
            found[name] = logs / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}.log"
            found[name].write_text(ended.failure.stack, encoding="utf-8")
    return found


def summaries(session: SparkSession, pipeline: Pipeline, progress: Mapping[str, Progress]) -> list[Summary]:
    """What the ready-made flows found, a few rows each."""
    done = [flow for flow in pipeline.flows if progress[flow.name].failure is None and progress[flow.name].rows_in]
    shown = [flow.kind.summary(session, flow.name) for flow in done]
    return [summary for summary in shown if summary is not None]
