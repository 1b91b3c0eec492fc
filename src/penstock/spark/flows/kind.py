"""The base class of all kinds of flows."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from penstock.spark.problems import Problems
from penstock.spark.records import Flow, Option, Pipeline, Source
from penstock.spark.runs import RowCounter, Run, StreamRun, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SourceTable(msgspec.Struct, kw_only=True):
    pattern: str | None = None  # regular expression that matches whole topic names
    format: str | None = None  # a streaming format of Spark instead of topics, with the flow's options


TopicsText: TypeAlias = str | list[str] | SourceTable  # "orders", ["orders", "refunds"] or { pattern = "..." }


class Output(NamedTuple):
    folder: str | None = None  # a folder that no other flow may write to
    topic: str | None = None
    topic_options: Mapping[str, Option] = {}
    place: str = ""  # description of any other output

    def __str__(self) -> str:
        return self.folder or (f"topic {self.topic}" if self.topic is not None else self.place)


class FlowKind(msgspec.Struct, kw_only=True):
    """The keys of a flow in the file, and its default behaviour. Each kind adds its keys and overrides methods."""

    trigger: str = "available-now"
    checkpoint: str | None = None
    options: dict[str, Option] = {}  # options of the source

    folders: ClassVar[Sequence[str]] = ()  # keys whose values are paths

    # ------------------------------------------------------------------ reading the file

    @property
    def output(self) -> Output:
        raise NotImplementedError

    @property
    def columns(self) -> Sequence[str]:
        """The columns to read. Empty: the user's options decide."""
        return ("topic", "offset", "message_id", "data", "attributes", "publish_time", "ordering_key")

    @property
    def needs_analysis(self) -> bool:
        """Whether only Spark can check the flow completely."""
        return False

    def read_source(self, where: str, problems: Problems) -> Source:
        """Return the streaming source: by default the key `topics`, if the kind has it."""
        topics: TopicsText | None = getattr(self, "topics", None)
        return Source() if topics is None else read_topics(topics, f"{where}: topics", problems)

    def resolve(self, folder: Path, where: str, problems: Problems) -> None:
        """Make paths absolute, and report problems that the types of the keys do not catch."""
        for key in self.folders:
            setattr(self, key, absolute(getattr(self, key), folder))

    def check(self, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
        """Report problems outside the file, without Spark."""

    def analyse(self, session: SparkSession, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
        """Report problems that Spark finds, without running the flow."""

    # ------------------------------------------------------------------ running

    def run(self, session: SparkSession, pipeline: Pipeline, flow: Flow, stop: threading.Event) -> Run:
        run = StreamRun(session, pipeline, flow)
        run.await_source(stop)
        return run

    def transform(self, frame: DataFrame, pipeline: Pipeline) -> DataFrame:
        """Return the output rows for the rows of the source."""
        return frame

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        """Return a stream writer that is exactly once with the flow's checkpoint, and a row counter if Spark counts no
        rows."""
        raise NotImplementedError

    def summary(self, session: SparkSession, name: str) -> Summary | None:
        """Return a few result rows to show after a run, or None."""
        return None


def absolute(path: str, folder: Path) -> str:
    """Return the absolute path, relative to the folder. A path with a file system (s3a://...) is left unchanged."""
    return path if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) else str(folder / Path(path).expanduser())


def read_topics(value: TopicsText, where: str, problems: Problems, *, formats: bool = False) -> Source:
    """Read topics, a pattern or, if `formats` is True, another streaming format."""
    if isinstance(value, SourceTable):
        if (value.pattern is None) == (value.format is None) or (value.format and not formats):
            problems.add(where, 'expected a topic, a list of topics or { pattern = "..." }')
        try:
            re.compile(value.pattern or "")
        except re.error as error:
            problems.add(where, f'"{value.pattern}" is not a regular expression: {error}')
        return Source(pattern=value.pattern, format=value.format)
    topics = (value,) if isinstance(value, str) else tuple(value)
    if not topics or not all(topics):
        problems.add(where, "a topic name is missing")
    return Source(topics=topics)
