"""The runner: it runs all flows of a pipeline together, in one session.

A flow that fails does not affect the others. After a stop, the next run repeats the unfinished batches.
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

POLL_SECONDS = 0.25

Show = Callable[[Mapping[str, Progress], float], None]


class Outcome(NamedTuple):
    """The result of a run."""

    progress: dict[str, Progress]
    logs: dict[str, Path]  # log files of the failed flows
    stopped: bool

    @property
    def failed(self) -> bool:
        return any(flow.failure is not None for flow in self.progress.values())


def run_flows(session: SparkSession, pipeline: Pipeline, *, show: Show, stop: threading.Event, logs: Path) -> Outcome:
    """Start every flow, and wait until all have ended or `stop` is set."""
    refused = make_topics(pipeline)
    runs: list[Run] = []
    for flow in pipeline.flows:
        if stop.is_set():
            break
        try:
            failed = flow.name in refused
            runs.append(FailedRun(flow, refused[flow.name]) if failed else flow.kind.run(session, pipeline, flow, stop))
        except Exception as error:  # noqa: BLE001 - the other flows start, whatever Spark or a user's function raises
            runs.append(FailedRun(flow, error))
    try:
        progress = _progress(runs)
        while any(flow.active for flow in progress.values()) and not stop.wait(POLL_SECONDS):
            progress = _progress(runs)
            show(progress, time.monotonic())
    finally:
        for run in runs:
            run.stop()  # also if the flow has ended
    progress = _progress(runs)
    show(progress, time.monotonic())
    for run in runs:
        run.settle()
    return Outcome(progress, _write_logs(progress, logs), stop.is_set())


def _progress(runs: Sequence[Run]) -> dict[str, Progress]:
    return {run.flow.name: run.progress() for run in runs}


def make_topics(pipeline: Pipeline) -> dict[str, BaseException]:
    """Create the topics that flows write, before other flows read them. Return the errors by flow."""
    from pyspark_penstock.errors import PenstockError, UnreachableError

    refused: dict[str, BaseException] = {}
    for flow in pipeline.flows:
        topic, given = flow.kind.output.topic, flow.kind.output.topic_options
        options = pipeline.sink_options(topic, given) if topic else {}
        try:
            if options.get("createTopics") == "true":
                ensure_topic(options)
        except UnreachableError:
            break  # each flow retries, and then reports it itself
        except PenstockError as error:
            refused[flow.name] = error
    return refused


def _write_logs(progress: Mapping[str, Progress], logs: Path) -> dict[str, Path]:
    """Write the stack trace of each failure to a file. Return the files by flow."""
    files: dict[str, Path] = {}
    for name, ended in progress.items():
        if ended.failure is not None:
            logs.mkdir(parents=True, exist_ok=True)
            files[name] = logs / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}.log"
            files[name].write_text(ended.failure.stack, encoding="utf-8")
    return files


def summaries(session: SparkSession, pipeline: Pipeline, progress: Mapping[str, Progress]) -> list[Summary]:
    """Return the summary tables of the ready-made flows."""
    done = [flow for flow in pipeline.flows if progress[flow.name].failure is None and progress[flow.name].rows_in]
    tables = [flow.kind.summary(session, flow.name) for flow in done]
    return [table for table in tables if table is not None]
