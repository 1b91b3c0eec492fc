"""Helpers that run pipelines in the test process, on the shared session."""

from __future__ import annotations

import threading
import tomllib
from pathlib import Path
from typing import Any

from penstock.spark.pipeline_file import build_pipeline
from penstock.spark.records import Pipeline
from penstock.spark.runner import Outcome, run_flows
from penstock.spark.runs import Progress
from tests.spark.servers import Server


def build(text: str, folder: Path, server: Server, name: str = "") -> Pipeline:
    """Return a pipeline on a server. The folder's name separates the cursors of tests."""
    content: dict[str, Any] = tomllib.loads(text)
    content["pipeline"] = {"endpoint": server.endpoint, "name": name or f"p-{folder.name}"[:60]}
    pipeline, problems = build_pipeline(content, folder=folder, name="test")
    assert pipeline is not None, problems
    return pipeline


def run(spark: Any, pipeline: Pipeline, *, stop: threading.Event | None = None, show: Any = None) -> Outcome:
    show = show or (lambda _progress, _now: None)
    return run_flows(spark, pipeline, show=show, stop=stop or threading.Event(), logs=Path(pipeline.state) / "log")


def run_one(spark: Any, pipeline: Pipeline) -> Progress:
    """Run a pipeline with one flow that must succeed."""
    (progress,) = run(spark, pipeline).progress.values()
    assert progress.failure is None, progress.failure
    return progress


def forget_last_commit(checkpoint: str) -> None:
    """Remove the commit of the last batch, so that the batch is repeated as after a crash of Spark."""
    commits = Path(checkpoint) / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def short(topic: str) -> str:
    return topic.rpartition("/")[2]
