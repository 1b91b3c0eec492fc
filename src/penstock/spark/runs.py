"""A flow that runs: how far it is, how it ended, how it is stopped."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.spark.records import Flow, Pipeline
from penstock.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIES = 5
# What Spark fails of by chance when several queries of a session start, and not when one is started again: a Python
# process that is not up in ten seconds ("failed to connect back", "... waiting for the Python worker to connect back"),
# and a collection that changes while it is written out for a task ("Illegal size 5 of collection, expected 6").
BUSY = "to connect back"
PASSING = (BUSY, "Illegal size")
TOO_BUSY = "Spark gives a Python process ten seconds to start, and this machine was too busy for that each time"
SOURCE_SECONDS = 15.0
COUNTED = "penstock"  # the name under which Spark counts the rows that a flow writes
SUMMARY_ROWS = 20


class Failure(NamedTuple):
    sentence: str
    stack: str


class Progress(NamedTuple):
    """How far a flow is."""

    rows_in: int = 0
    rows_out: int | None = None  # None: they are not counted
    to_go: int | None = None  # None: not known
    batches: int = 0
    seconds: float = 0.0
    active: bool = True
    failure: Failure | None = None
    stopped: bool = False  # before it was done


class Summary(NamedTuple):
    """A small table a flow shows at its end."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, title: str, columns: Sequence[str], frame: DataFrame) -> Summary:
        return cls(title, columns, [tuple(row) for row in frame.limit(SUMMARY_ROWS).select(*columns).collect()])


class RowCounter(Protocol):
    """What writes the rows of a flow and counts them itself."""

    rows: int


class Run:
    """A flow that was started."""

    flow: Flow

    def progress(self) -> Progress:
        raise NotImplementedError

    def stop(self) -> None:
        """Called also after the end."""

    def settle(self) -> None:
        """Called once after the end."""


class FailedRun(Run):
    """A flow that did not start."""

    def __init__(self, flow: Flow, error: BaseException) -> None:
        self.flow = flow
        self._progress = Progress(active=False, failure=failure_of(error))

    def progress(self) -> Progress:
        return self._progress


def read_stream(session: SparkSession, pipeline: Pipeline, flow: Flow) -> DataFrame:
    reader = session.readStream.format(flow.source.format or "penstock")
    return reader.options(**pipeline.source_options(flow)).load()


def counted(frame: DataFrame) -> DataFrame:
    """The same rows; Spark's reports say how many."""
    from pyspark.sql import functions as F

    return frame.observe(COUNTED, F.count(F.lit(1)).alias("rows"))


class StreamRun(Run):
    """A streaming query, started again after what passes."""

    def __init__(self, session: SparkSession, pipeline: Pipeline, flow: Flow) -> None:
        self.flow = flow
        self._session = session
        self._pipeline = pipeline
        self._begun = time.monotonic()
        self._tries = TRIES
        self.query, self._counter = self._start()
        self._seen: int = -1  # the last batch that was counted
        self._progress = Progress()
        self._end: dict[str, int] = {}  # offsets that are done
        self._stopped = False
        self._cut_short = False  # stopped while there was something to do

    def _start(self) -> tuple[StreamingQuery, RowCounter | None]:
        """The query, running, and what counts its rows if Spark does not."""
        while True:
            try:
                return self._start_once()
            except Exception as error:
                self._tries -= 1
                if self._tries <= 0 or not _passes(error):
                    raise

    def _start_once(self) -> tuple[StreamingQuery, RowCounter | None]:
        pipeline, flow = self._pipeline, self.flow
        frame = flow.kind.transform(read_stream(self._session, pipeline, flow), pipeline)
        writer, counter = flow.kind.write(frame, pipeline, flow)
        writer = writer.option("checkpointLocation", flow.checkpoint).queryName(f"{pipeline.name}-{flow.name}")
        if flow.trigger.milliseconds is not None:
            writer = writer.trigger(processingTime=f"{flow.trigger.milliseconds} milliseconds")
        else:
            writer = writer.trigger(once=True) if flow.trigger.once else writer.trigger(availableNow=True)
        return writer.start(), counter

    def progress(self) -> Progress:
        """The numbers now. Asked often enough: Spark keeps its last hundred reports."""
        if not self._progress.active:
            return self._progress
        active = self.query.isActive  # before the reports: a query that ends in between has its last one counted
        for report in self.query.recentProgress:
            self._count(report)
        stopped = self._cut_short and not active
        now = self._progress._replace(seconds=time.monotonic() - self._begun, active=active, stopped=stopped)
        if self._counter is not None and self._counter.rows:
            now = now._replace(rows_out=self._counter.rows)
        error = self.query.exception() if not active and not self._stopped else None
        if error is not None and self._started_again(error):
            now = now._replace(active=True)
        elif error is not None:
            now = now._replace(failure=failure_of(error))
        self._progress = now
        return now

    def _started_again(self, error: BaseException) -> bool:
        """Whether it failed of what passes, and runs again; the checkpoint has what is done."""
        self._tries -= 1
        if self._tries <= 0 or not _passes(error):
            return False
        rows = self._counter.rows if self._counter is not None else 0
        self.query, self._counter = self._start()
        if self._counter is not None:
            self._counter.rows = rows
        return True

    def await_source(self, stop: threading.Event) -> None:
        """Until the source's process is up, for a while: many that start at once get in each other's way."""
        until = time.monotonic() + SOURCE_SECONDS
        while self.query.isActive and self.query.status["message"].startswith("Initializing"):
            if time.monotonic() > until or stop.wait(0.05):
                break
        self._progress = self._progress._replace(to_go=self._lag())

    def _lag(self) -> int | None:
        """What the broker says is left: Spark itself says so only after the first batch, which may take a while."""
        if self.flow.source.format:
            return None
        with suppress(Exception):  # a number to show, no more
            cursors = self._asked("cursor.list")["cursors"]
            return sum(each["lag"] for each in cursors) if cursors else None
        return None

    def _asked(self, action: str, **body: Any) -> dict[str, Any]:
        from pyspark_penstock.client import BrokerClient
        from pyspark_penstock.options import parse

        options = parse(self._pipeline.source_options(self.flow))
        many = {"many": options.many} if body else {}  # a question by name finds both kinds
        return BrokerClient(options.access).ask(action, name=options.consumer, **many, **body)

    def _count(self, report: Mapping[str, Any]) -> None:
        sources = report["sources"]
        ends, tails = (_offsets(sources, name) for name in ("endOffset", "latestOffset"))
        if tails:
            self._progress = self._progress._replace(to_go=sum(max(0, tails[t] - ends.get(t, 0)) for t in tails))
        if report["batchId"] <= self._seen or "addBatch" not in report["durationMs"]:
            return  # counted before, or only a sign of life
        self._seen = report["batchId"]
        self._end = ends
        before, rows_out = self._progress, self._progress.rows_out
        observed = report["observedMetrics"].get(COUNTED)
        if observed is not None:
            fields = observed.asDict()  # over Spark Connect a row comes as its values beside its schema
            rows_out = (rows_out or 0) + int(fields["rows"] if "rows" in fields else fields["values"][0])
        self._progress = before._replace(
            rows_in=before.rows_in + sum(source["numInputRows"] or 0 for source in sources),
            rows_out=rows_out,
            batches=before.batches + 1,
        )

    def stop(self) -> None:
        self._stopped = True
        with suppress(Exception):  # it may end by itself in this moment
            self._cut_short = self._progress.active and self.query.isActive
            self.query.stop()

    def settle(self) -> None:
        """Move the cursor over the last batch: Spark commits a batch only when the next one is planned."""
        if self.flow.source.format or not self._end or self._progress.failure is not None:
            return
        with suppress(Exception):  # the next run moves it; the truth is in the checkpoint
            self._asked("cursor.advance", offsets=self._end)


def _passes(error: BaseException) -> bool:
    return any(words in str(error) for words in PASSING)


def _offsets(sources: list[Any], name: str) -> dict[str, int]:
    """Offsets by topic, out of the JSON of a report; another source's offsets look like anything and are left out."""
    found: dict[str, int] = {}
    for source in sources:
        with suppress(ValueError, TypeError):
            offsets = json.loads(source[name])
            if isinstance(offsets, dict):
                found |= {key: value for key, value in offsets.items() if "/" in key and isinstance(value, int)}
    return found


def failure_of(error: BaseException) -> Failure:
    sentence = TOO_BUSY if BUSY in str(error) else sentence_of(error)
    return Failure(sentence, "".join([*traceback.format_exception(error), *_frames_of_java(error)]))


def _frames_of_java(error: BaseException | None) -> Iterator[str]:
    """The frames Spark's errors bring along and do not print, of each cause."""
    while error is not None:
        frames = getattr(error, "_stackTrace", None)
        if frames:
            yield f"\nJava, {type(error).__name__}: {str(error).partition(chr(10))[0]}\n\tat {frames}\n"
        error = getattr(error, "_cause", None)
