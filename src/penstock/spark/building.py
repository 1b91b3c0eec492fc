"""A flow, from its record to a running query.

    read   a topic, several, a pattern, or another streaming format
    change SQL on the view `source`, a Python function, or one of the ready-made flows
    write  topic | Parquet | Delta | console | a folder of results per batch

The rule kept here: every way to write is exactly once with the flow's checkpoint; where that needs files of an earlier
run and they do not fit together, the flow is refused instead of losing or doubling rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import FailedPreconditionError, InvalidArgumentError
from penstock.spark import publishing, ready
from penstock.spark.functions import load_function, send_by_value
from penstock.spark.records import Archive, DeadLetters, Flow, Insights, Pipeline, Plain, Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VIEW = "source"
COUNTED = "penstock"  # the name under which the rows a flow gives are counted


def source_options(pipeline: Pipeline, flow: Flow) -> dict[str, str]:
    """The options of the source: ours, then the user's."""
    given = {key: _text(value) for key, value in flow.table.options.items()}
    source = flow.source
    if source.format:
        return given
    options = {"endpoint": pipeline.endpoint, "consumerName": pipeline.consumer(flow)}
    if source.pattern:
        options["topicPattern"] = source.pattern
    else:
        options["topic" if len(source.topics) == 1 else "topics"] = ",".join(source.topics)
    if not any(key.lower().startswith("starting") for key in given):
        options["startingOffsets"] = "earliest"  # a pipeline takes all there is, unless it is told where to begin
    if flow.use is not None:
        options["columns"] = ready.columns_read(flow)
    return options | given


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def sink_options(pipeline: Pipeline, topic: str, given: dict[str, Any]) -> dict[str, str]:
    options = {"endpoint": pipeline.endpoint, "topic": topic, "createTopics": "true"}
    return options | {key: _text(value) for key, value in given.items()}


def written_topic(pipeline: Pipeline, flow: Flow) -> dict[str, str] | None:
    """The options of the topic a flow writes to, if it writes to one."""
    if flow.target is not None:
        return sink_options(pipeline, flow.target.topic, flow.target.options) if flow.target.topic else None
    topic = getattr(flow.table, "topic", None)
    return sink_options(pipeline, topic, {}) if topic else None


def read(session: SparkSession, pipeline: Pipeline, flow: Flow) -> DataFrame:
    reader = session.readStream.format(flow.source.format or "penstock")
    return reader.options(**source_options(pipeline, flow)).load()


def changed(session: SparkSession, pipeline: Pipeline, flow: Flow, frame: DataFrame) -> DataFrame:
    """What the flow makes of its source."""
    table = flow.table
    if isinstance(table, Archive):
        return ready.archived(frame)
    if not isinstance(table, Plain):
        return frame
    if table.watermark:
        frame = frame.withWatermark("publish_time", table.watermark)
    if flow.sql is not None:
        frame.createOrReplaceTempView(VIEW)
        return session.sql(flow.sql)
    return _called(table.python, pipeline.folder, frame) if table.python is not None else frame


def _called(text: str, folder: str, frame: DataFrame) -> DataFrame:
    function = load_function(text, folder)
    if text.rpartition(":")[0].endswith(".py"):
        send_by_value(function.__module__)
    given = function(frame)
    if not hasattr(given, "writeStream"):
        raise InvalidArgumentError(f"{text} gave {type(given).__name__} and not a DataFrame")
    return given


def start(session: SparkSession, pipeline: Pipeline, flow: Flow) -> tuple[StreamingQuery, BatchFolder | None]:
    """The query, running; with a ready-made flow also what counts its results."""
    frame = changed(session, pipeline, flow, read(session, pipeline, flow))
    folder = None
    if isinstance(flow.table, Insights | DeadLetters):
        refuse_foreign_files(flow.table.folder, flow.checkpoint)
        folder = BatchFolder(flow, written_topic(pipeline, flow))
        writer = frame.writeStream.foreachBatch(folder)
    else:
        writer = _written(session, pipeline, flow, _counted(frame))
    writer = writer.option("checkpointLocation", flow.checkpoint).queryName(f"{pipeline.name}-{flow.name}")
    return _triggered(writer, flow.trigger).start(), folder


def _counted(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.observe(COUNTED, F.count(F.lit(1)).alias("rows"))


def _triggered(writer: Any, trigger: Trigger) -> Any:
    if trigger.milliseconds is not None:
        return writer.trigger(processingTime=f"{trigger.milliseconds} milliseconds")
    return writer.trigger(once=True) if trigger.once else writer.trigger(availableNow=True)


def _written(session: SparkSession, pipeline: Pipeline, flow: Flow, frame: DataFrame) -> Any:
    if isinstance(flow.table, Archive):
        return _parquet(frame, flow.table.lake, ["topic_name", "day"], flow.checkpoint)
    target = flow.target
    assert target is not None
    assert isinstance(flow.table, Plain)
    if target.parquet:
        return _parquet(frame, target.parquet, target.partition_by, flow.checkpoint).outputMode(flow.table.mode)
    given = {key: _text(value) for key, value in target.options.items()}
    if target.topic:
        writer = frame.writeStream.format("penstock").options(**sink_options(pipeline, target.topic, given))
    elif target.delta:
        writer = _delta(session, frame, target.delta, target.partition_by).options(**given)
    else:
        writer = frame.writeStream.format("console").options(**({"truncate": "false"} | given))
    return writer.outputMode(flow.table.mode)


def _parquet(frame: DataFrame, path: str, partition_by: list[str], checkpoint: str) -> Any:
    refuse_foreign_files(path, checkpoint, "_spark_metadata")
    writer = frame.writeStream.format("parquet").option("path", path)
    return writer.partitionBy(*partition_by) if partition_by else writer


def _delta(session: SparkSession, frame: DataFrame, path: str, partition_by: list[str]) -> Any:
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise FailedPreconditionError("the Delta sink needs a package: pip install 'penstock[delta]'") from error
    from penstock.spark import delta

    delta.check_partitions(frame.schema, partition_by)
    send_by_value(delta)
    session.dataSource.register(delta.DeltaSink)
    return frame.writeStream.format(delta.FORMAT).options(path=path, partitionBy=",".join(partition_by))


def refuse_foreign_files(path: str, checkpoint: str, mark: str = "") -> None:
    """Refuse a folder filled by a run whose progress is gone.

    Spark numbers batches by the checkpoint and leaves out those the folder says it has. With a new checkpoint and an
    old folder the first batches would be lost in silence.
    """
    filled, kept = _local(path), _local(checkpoint)
    if filled is None or kept is None or (kept / "commits").exists():
        return
    entries = filled.glob(f"{mark}/*" if mark else "batch=*")
    if next(entries, None) is not None:
        raise FailedPreconditionError(
            f"{path} holds the files of a run whose checkpoint is not at {checkpoint}; "
            "give back that checkpoint, or name another folder"
        )


def _local(path: str) -> Path | None:
    path = path.removeprefix("file://").removeprefix("file:")
    return None if "://" in path else Path(path)


def query_id(session: SparkSession, checkpoint: str) -> str:
    """What Spark calls the query of a checkpoint; it is the same in every run, wherever the driver is."""
    row = session.read.text(f"{checkpoint}/metadata").first()
    assert row is not None
    return str(json.loads(row[0])["id"])


class BatchFolder:
    """Results of a ready-made flow: each micro-batch a folder of its own, so that one run again replaces itself."""

    def __init__(self, flow: Flow, publish_options: dict[str, str] | None) -> None:
        self.table = flow.table
        self.checkpoint = flow.checkpoint
        self.publish_options = publish_options
        self.rows = 0  # written by this process; with Spark Connect it is another one that writes

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        assert isinstance(self.table, Insights | DeadLetters)
        place = f"{self.table.folder}/batch={batch_id:08d}"
        self._summed(frame).coalesce(1).write.mode("overwrite").parquet(place)
        rows = frame.sparkSession.read.parquet(place)
        self.rows += rows.count()
        if self.publish_options is not None:
            producer = f"spark/{query_id(frame.sparkSession, self.checkpoint)}/results"
            publishing.publish(ready.as_messages(rows), self.publish_options, producer, batch_id)

    def _summed(self, frame: DataFrame) -> DataFrame:
        if isinstance(self.table, Insights):
            return ready.insights(frame, self.table)
        assert isinstance(self.table, DeadLetters)
        return ready.dead_letters(frame, self.table)
