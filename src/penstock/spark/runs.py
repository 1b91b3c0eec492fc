"""The run of a flow: its progress, its failure, its stop."""

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
# Errors that Spark raises at random when several queries of a session start, and that a restart solves: a Python
# process that is not up in ten seconds ("failed to connect back", "... waiting for the Python worker to connect back"),
# and a collection that changes while it is serialized for a task ("Illegal size 5 of collection, expected 6").
BUSY = "to connect back"
TRANSIENT = (BUSY, "Illegal size")
TOO_BUSY = (
    f"this machine is too busy: in {TRIES} attempts, no Python process started in the ten seconds that Spark allows"
)
SOURCE_SECONDS = 15.0  # maximum wait for the start of a source's process
OBSERVED = "penstock"  # name of Spark's count of the rows that a flow writes
SUMMARY_ROWS = 20


class Failure(NamedTuple):
    sentence: str
    stack: str


class Progress(NamedTuple):
    rows_in: int = 0
    rows_out: int | None = None  # None: not counted
    to_go: int | None = None  # rows that are left; None: unknown
    batches: int = 0
    seconds: float = 0.0
    active: bool = True
    failure: Failure | None = None
    stopped: bool = False  # True: stopped before it was done


class Summary(NamedTuple):
    """A small table that a flow shows at its end."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, title: str, columns: Sequence[str], frame: DataFrame) -> Summary:
        return cls(title, columns, [tuple(row) for row in frame.limit(SUMMARY_ROWS).select(*columns).collect()])


class RowCounter(Protocol):
    """A writer of a flow that counts its rows itself."""

    rows: int


class Run:
    flow: Flow

    def progress(self) -> Progress:
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the flow. Does nothing after its end."""

    def settle(self) -> None:
        """Finish the flow. Called once, after its end."""


class FailedRun(Run):
    """The run of a flow that did not start."""

    def __init__(self, flow: Flow, error: BaseException) -> None:
        self.flow = flow
        self._progress = Progress(active=False, failure=failure_of(error))

    def progress(self) -> Progress:
        return self._progress


def read_stream(session: SparkSession, pipeline: Pipeline, flow: Flow) -> DataFrame:
    reader = session.readStream.format(flow.source.format or "penstock")
    return reader.options(**pipeline.source_options(flow)).load()


def count_rows(frame: DataFrame) -> DataFrame:
    """Return the frame with a count of its rows in Spark's progress reports."""
    from pyspark.sql import functions as F

    return frame.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))


class StreamRun(Run):
    """A streaming query, restarted after transient errors."""

    def __init__(self, session: SparkSession, pipeline: Pipeline, flow: Flow) -> None:
        self.flow = flow
        self._session = session
        self._pipeline = pipeline
        self._begun = time.monotonic()
        self._tries = TRIES
        self.query, self._counter = self._start()
        self._seen: int = -1  # the last counted batch
        self._progress = Progress()
        self._end: dict[str, int] = {}  # end offsets of the last batch
        self._stopped = False
        self._cut_short = False  # True: stopped before it was done

    def _start(self) -> tuple[StreamingQuery, RowCounter | None]:
        """Start the query. Return it, and its row counter if Spark does not count the rows."""
        while True:
            try:
                return self._start_once()
            except Exception as error:
                self._tries -= 1
                if self._tries <= 0 or not _is_transient(error):
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
        """Return the progress. Must be called often, because Spark keeps only its last hundred reports."""
        if not self._progress.active:
            return self._progress
        active = self.query.isActive  # read before the reports, so that the last report is counted
        for report in self.query.recentProgress:
            self._count(report)
        stopped = self._cut_short and not active
        now = self._progress._replace(seconds=time.monotonic() - self._begun, active=active, stopped=stopped)
        if self._counter is not None and self._counter.rows:
            now = now._replace(rows_out=self._counter.rows)
        error = self.query.exception() if not active and not self._stopped else None
        if error is not None and self._restart(error):
            now = now._replace(active=True)
        elif error is not None:
            now = now._replace(failure=failure_of(error))
        self._progress = now
        return now

    def _restart(self, error: BaseException) -> bool:
        """Restart the query from its checkpoint after a transient error. Return whether it runs again."""
        self._tries -= 1
        if self._tries <= 0 or not _is_transient(error):
            return False
        rows = self._counter.rows if self._counter is not None else 0
        self.query, self._counter = self._start()
        if self._counter is not None:
            self._counter.rows = rows
        return True

    def await_source(self, stop: threading.Event) -> None:
        """Wait until the source's process is up, because processes that start together slow each other down."""
        until = time.monotonic() + SOURCE_SECONDS
        while self.query.isActive and self.query.status["message"].startswith("Initializing"):
            if time.monotonic() > until or stop.wait(0.05):
                break
        self._progress = self._progress._replace(to_go=self._lag())

    def _lag(self) -> int | None:
        """Return the lag by the broker, because Spark reports it only after the first batch. None: unknown."""
        if self.flow.source.format:
            return None
        with suppress(Exception):  # the number is only displayed
            cursors = self._ask("cursor.list")["cursors"]
            return sum(cursor["lag"] for cursor in cursors) if cursors else None
        return None

    def _ask(self, action: str, **body: Any) -> dict[str, Any]:
        from pyspark_penstock.client import BrokerClient
        from pyspark_penstock.options import parse

        options = parse(self._pipeline.source_options(self.flow))
        many = {"many": options.many} if body else {}  # a list by name has both kinds of cursors
        return BrokerClient(options.access).ask(action, name=options.consumer, **many, **body)

    def _count(self, report: Mapping[str, Any]) -> None:
        sources = report["sources"]
        ends, tails = (_offsets(sources, name) for name in ("endOffset", "latestOffset"))
        if tails:
            self._progress = self._progress._replace(to_go=sum(max(0, tails[t] - ends.get(t, 0)) for t in tails))
        if report["batchId"] <= self._seen or "addBatch" not in report["durationMs"]:
            return  # counted before, or a report without a batch
        self._seen = report["batchId"]
        self._end = ends
        before, rows_out = self._progress, self._progress.rows_out
        observed = report["observedMetrics"].get(OBSERVED)
        if observed is not None:
            fields = observed.asDict()  # Spark Connect returns the values and the schema of a row
            rows_out = (rows_out or 0) + int(fields["rows"] if "rows" in fields else fields["values"][0])
        self._progress = before._replace(
            rows_in=before.rows_in + sum(source["numInputRows"] or 0 for source in sources),
            rows_out=rows_out,
            batches=before.batches + 1,
        )

    def stop(self) -> None:
        self._stopped = True
        with suppress(Exception):  # the query may end at this moment
            self._cut_short = self._progress.active and self.query.isActive
            self.query.stop()

    def settle(self) -> None:
        """Advance the cursor past the last batch, because Spark commits a batch only when it plans the next one."""
        if self.flow.source.format or not self._end or self._progress.failure is not None:
            return
        with suppress(Exception):  # otherwise the next run advances it, from the checkpoint
            self._ask("cursor.advance", offsets=self._end)


def _is_transient(error: BaseException) -> bool:
    return any(text in str(error) for text in TRANSIENT)


def _offsets(sources: list[Any], name: str) -> dict[str, int]:
    """Return offsets by topic from the JSON of a report. The offsets of other sources have any form and are skipped."""
    by_topic: dict[str, int] = {}
    for source in sources:
        with suppress(ValueError, TypeError):
            offsets = json.loads(source[name])
            if isinstance(offsets, dict):
                by_topic |= {key: value for key, value in offsets.items() if "/" in key and isinstance(value, int)}
    return by_topic


def failure_of(error: BaseException) -> Failure:
    sentence = TOO_BUSY if BUSY in str(error) else sentence_of(error)
    return Failure(sentence, "".join([*traceback.format_exception(error), *_frames_of_java(error)]))


def _frames_of_java(error: BaseException | None) -> Iterator[str]:
    """Yield the Java stack trace of each cause, which Spark's errors have but do not print."""
    while error is not None:
        frames = getattr(error, "_stackTrace", None)
        if frames:
            yield f"\nJava, {type(error).__name__}: {str(error).partition(chr(10))[0]}\n\tat {frames}\n"
        error = getattr(error, "_cause", None)
