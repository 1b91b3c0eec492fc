"""A custom flow: a source, SQL or a Python function, and a sink."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock.errors import FailedPreconditionError, InvalidArgumentError, PenstockError
from penstock.spark.flows.files import parquet_writer
from penstock.spark.flows.kind import FlowKind, Output, TopicsText, absolute, read_topics
from penstock.spark.functions import load_function, send_by_value
from penstock.spark.problems import Problems
from penstock.spark.records import Flow, Option, Pipeline, Source, option_texts
from penstock.spark.runs import RowCounter, count_rows, read_stream
from penstock.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SINKS = ("topic", "parquet", "delta", "console")
VIEW = "source"
NO_DELTA = "the Delta sink needs a package: pip install 'penstock-broker[delta]'"


class TargetTable(msgspec.Struct, kw_only=True):
    topic: str | None = None
    parquet: str | None = None
    delta: str | None = None
    console: bool | None = None
    partition_by: list[str] = []  # columns, for parquet and delta
    options: dict[str, Option] = {}  # options of the sink


class Custom(FlowKind, kw_only=True):
    source: TopicsText = msgspec.field(name="from")
    to: str | TargetTable
    sql: str | None = None
    sql_file: str | None = None
    python: str | None = None
    mode: Literal["append", "update", "complete"] = "append"
    watermark: str | None = None  # maximum lateness of publish_time, for aggregates

    columns = ()

    @property
    def target(self) -> TargetTable:
        return TargetTable(topic=self.to) if isinstance(self.to, str) else self.to

    @property
    def output(self) -> Output:
        target = self.target
        return Output(target.parquet, target.topic, target.options, target.delta or "console")

    @property
    def needs_analysis(self) -> bool:
        return self.sql is not None

    def read_source(self, where: str, problems: Problems) -> Source:
        return read_topics(self.source, f"{where}: from", problems, formats=True)

    # ------------------------------------------------------------------ reading the file

    def resolve(self, folder: Path, where: str, problems: Problems) -> None:
        target, to = self.target, f"{where}: to"
        chosen = [name for name in SINKS if getattr(target, name)]
        if len(chosen) != 1:
            problems.add(to, f"set exactly one of {', '.join(SINKS)}, not {' and '.join(chosen) or 'none'}")
        if target.partition_by and not (target.parquet or target.delta):
            problems.add(to, "partition_by is for parquet and delta")
        target.parquet = absolute(target.parquet, folder) if target.parquet else None
        target.delta = absolute(target.delta, folder) if target.delta else None
        ways = [key for key in ("sql", "sql_file", "python") if getattr(self, key) is not None]
        if len(ways) > 1:
            problems.add(where, f"set only one of {' and '.join(ways)}")
        if self.python is not None and not re.fullmatch(r".+:\w+", self.python):
            problems.add(f"{where}: python", f'"{self.python}" is not "module:function" or "file.py:function"')
        if self.sql_file is not None:
            try:
                self.sql = (folder / self.sql_file).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", error)
                problems.add(f"{where}: sql_file", f"cannot read {self.sql_file}: {reason}")
                return
        if self.sql is not None and not re.search(rf"\b{VIEW}\b", self.sql, re.IGNORECASE):
            problems.add(f"{where}: {'sql_file' if self.sql_file else 'sql'}", "it must select FROM source")

    # ------------------------------------------------------------------ running

    def transform(self, frame: DataFrame, pipeline: Pipeline) -> DataFrame:
        if self.watermark:
            frame = frame.withWatermark("publish_time", self.watermark)
        if self.sql is not None:
            frame.createOrReplaceTempView(VIEW)
            return frame.sparkSession.sql(self.sql)
        if self.python is None:
            return frame
        function = load_function(self.python, pipeline.folder)
        if self.python.rpartition(":")[0].endswith(".py"):
            send_by_value(function.__module__)
        changed = function(frame)
        if not hasattr(changed, "writeStream"):
            raise InvalidArgumentError(f"{self.python} returned {type(changed).__name__}, not a DataFrame")
        return changed

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        target, frame = self.target, count_rows(frame)
        texts = option_texts(target.options)
        if target.parquet:
            writer = parquet_writer(frame, target.parquet, target.partition_by, flow.checkpoint)
        elif target.topic:
            options = pipeline.sink_options(target.topic, target.options)
            writer = frame.writeStream.format("penstock").options(**options)
        elif target.delta:
            writer = _delta_writer(frame, target.delta, target.partition_by).options(**texts)
        else:
            writer = frame.writeStream.format("console").options(**({"truncate": "false"} | texts))
        return writer.outputMode(self.mode), None

    # ------------------------------------------------------------------ checking

    def check(self, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
        from pyspark_penstock.options import Use, parse

        where, target = f"flow {flow.name}", self.target
        if target.topic:
            try:
                parse(pipeline.sink_options(target.topic, target.options)).check(Use.WRITE)
            except Exception as error:  # noqa: BLE001 - the error names the wrong option in one sentence
                problems.add(f"{where}: to", sentence_of(error))
        if self.python is not None:
            try:
                load_function(self.python, pipeline.folder)
            except PenstockError as error:
                problems.add(f"{where}: python", error.message)
        if target.delta:
            try:
                import deltalake  # noqa: F401
            except ImportError:
                problems.add(f"{where}: to", NO_DELTA)

    def analyse(self, session: SparkSession, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
        """Make Spark plan the flow, and check the output columns."""
        from pyspark_penstock.schema import check_sink

        where = f"flow {flow.name}"
        try:
            frame = read_stream(session, pipeline, flow) if flow.source.format else self._empty_stream(session)
            changed = self.transform(frame, pipeline)
            if self.target.topic:
                check_sink(changed.schema, self.target.topic)
            for name in self.target.partition_by:
                if name not in changed.columns:
                    problems.add(
                        f"{where}: to",
                        f"partition_by has an unknown column {name}; the columns are {', '.join(changed.columns)}",
                    )
            self._check_operations(changed)
        except PenstockError as error:
            problems.add(where, error.message)
        except Exception as error:  # noqa: BLE001 - Spark or the user's function can raise anything
            key = "sql" if self.sql is not None else "python" if self.python else "from"
            problems.add(f"{where}: {key}", sentence_of(error))

    def _empty_stream(self, session: SparkSession) -> DataFrame:
        """Return a stream with the columns of messages, without any message."""
        from pyspark.sql import functions as F

        from pyspark_penstock.options import parse
        from pyspark_penstock.schema import TYPES

        types: dict[str, Any] = dict(TYPES)
        stream = session.readStream.format("rate").option("rowsPerSecond", 1).load()
        columns = parse({key: str(value) for key, value in self.options.items()}).columns
        return stream.select(*(F.lit(None).cast(types[name]).alias(name) for name in columns))

    def _check_operations(self, frame: Any) -> None:
        """Check that a stream supports the operations in this mode, which Spark checks only when a query starts."""
        spark = frame.sparkSession._jvm.org.apache.spark.sql  # Python has no API for this; a check has a local JVM
        mode = getattr(spark.streaming.OutputMode, self.mode.capitalize())()
        plan = frame._jdf.queryExecution().analyzed()
        spark.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)


def _delta_writer(frame: DataFrame, path: str, partition_by: list[str]) -> Any:
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise FailedPreconditionError(NO_DELTA) from error
    from penstock.spark import delta

    delta.check_partitions(frame.schema, partition_by)
    send_by_value(delta)
    frame.sparkSession.dataSource.register(delta.DeltaSink)
    return frame.writeStream.format(delta.FORMAT).options(path=path, partitionBy=",".join(partition_by))
