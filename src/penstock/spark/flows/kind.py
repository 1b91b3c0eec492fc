"""What a pipeline asks of a flow, whatever its kind."""

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
    pattern: str | None = None  # a regular expression for whole topic names
    format: str | None = None  # any streaming format of Spark's instead of topics; it takes the flow's options


TopicsText: TypeAlias = str | list[str] | SourceTable  # "orders", ["orders", "refunds"] or { pattern = "..." }


class Output(NamedTuple):
    """Where the rows of a flow go."""

    folder: str | None = None  # that no other flow may write to
    topic: str | None = None
    topic_options: Mapping[str, Option] = {}
    place: str = ""  # if it is neither

    def __str__(self) -> str:
        return self.folder or (f"topic {self.topic}" if self.topic is not None else self.place)


class FlowKind(msgspec.Struct, kw_only=True):
    """The keys of a flow in the file, and what it does. Each kind adds its keys and says what is different."""

    trigger: str = "available-now"
    checkpoint: str | None = None
    options: dict[str, Option] = {}  # of the source

    folders: ClassVar[Sequence[str]] = ()  # keys whose values are paths

    # ------------------------------------------------------------------ what the file says

    @property
    def output(self) -> Output:
        raise NotImplementedError

    @property
    def columns(self) -> Sequence[str]:
        """What of a message is read; the rest is not sent. None named: the user's options say it."""
        return ("topic", "offset", "message_id", "data", "attributes", "publish_time", "ordering_key")

    @property
    def needs_analysis(self) -> bool:
        """Whether only Spark can find out if it is right."""
        return False

    def read_source(self, where: str, problems: Problems) -> Source:
        """What is read as a stream: the key `topics`, if the kind has it."""
        topics: TopicsText | None = getattr(self, "topics", None)
        return Source() if topics is None else read_topics(topics, f"{where}: topics", problems)

    def resolve(self, folder: Path, where: str, problems: Problems) -> None:
        """Make paths absolute, and report what the types of the keys do not say."""
        for key in self.folders:
            setattr(self, key, absolute(getattr(self, key), folder))

    def check(self, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
        """Report what is wrong beyond the file, without Spark."""

    def analyse(self, session: SparkSession, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
        """Report what Spark finds wrong, without running anything."""

    # ------------------------------------------------------------------ running it

    def run(self, session: SparkSession, pipeline: Pipeline, flow: Flow, stop: threading.Event) -> Run:
        run = StreamRun(session, pipeline, flow)
        run.await_source(stop)
        return run

    def transform(self, frame: DataFrame, pipeline: Pipeline) -> DataFrame:
        """What the flow makes of its source."""
        return frame

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        """A writer of the stream that writes exactly once with the flow's checkpoint, and what counts the rows if
        Spark does not."""
        raise NotImplementedError

    def summary(self, session: SparkSession, name: str) -> Summary | None:
        """A few rows of what was found, to be shown after a run."""
        return None


def absolute(path: str, folder: Path) -> str:
    """A path as it is if it names a file system (s3a://...), else absolute, from the file's folder on."""
    return path if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) else str(folder / Path(path).expanduser())


def read_topics(given: TopicsText, where: str, problems: Problems, *, formats: bool = False) -> Source:
    """Topics, a pattern or, where `formats` allows it, another streaming format."""
    if isinstance(given, SourceTable):
        if (given.pattern is None) == (given.format is None) or (given.format and not formats):
            problems.add(where, 'give a topic, a list of them or { pattern = "..." }')
        try:
            re.compile(given.pattern or "")
        except re.error as error:
            problems.add(where, f'"{given.pattern}" is not a regular expression: {error}')
        return Source(pattern=given.pattern, format=given.format)
    topics = (given,) if isinstance(given, str) else tuple(given)
    if not topics or not all(topics):
        problems.add(where, "a topic needs a name")
    return Source(topics=topics)
