"""The flow `insights`: rates, sizes and latencies of topics per minute, as Parquet and to a topic.

A minute may be split over several batches, so rows hold sketches that can be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.spark.flows.files import BatchResults
from penstock.spark.flows.kind import FlowKind, Output, TopicsText
from penstock.spark.records import Flow, Option, Pipeline
from penstock.spark.runs import RowCounter, Summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SKETCHES = ("size_sketch", "latency_sketch")
SHOWN = ("minute", "topic", "messages", "bytes", "size_p50", "size_p99", "latency_p50_ms", "latency_p99_ms")


class Insights(FlowKind, kw_only=True):
    topics: TopicsText
    folder: str
    topic: str | None = None
    time_attribute: str | None = None  # attribute with the producer's time: RFC 3339, or milliseconds since 1970

    folders = ("folder",)

    @property
    def output(self) -> Output:
        return Output(folder=self.folder, topic=self.topic, topic_options=self._shared_options)

    @property
    def _shared_options(self) -> dict[str, Option]:
        """The options of the source that a sink takes as well, such as the broker's address."""
        from pyspark_penstock.options import ALL, BY_NAME

        declared = {key: BY_NAME.get(key.lower()) for key in self.options}
        return {key: self.options[key] for key, option in declared.items() if option is not None and option.uses == ALL}

    @property
    def columns(self) -> Sequence[str]:
        return ("topic", "data", "publish_time", *(("attributes",) if self.time_attribute else ()))

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        results = BatchResults(self.folder, flow.checkpoint, self.measure)
        if self.topic:
            results.messages = as_messages
            results.sink_options = pipeline.sink_options(self.topic, self._shared_options)
        return frame.writeStream.foreachBatch(results), results

    def measure(self, frame: DataFrame) -> DataFrame:
        """Return a row per topic and minute with counts, sizes and latencies."""
        from pyspark.sql import functions as F

        sent = F.col("publish_time")
        if self.time_attribute:  # the producer's time, if the message has it
            text = F.col("attributes")[self.time_attribute]
            sent = F.coalesce(F.timestamp_millis(text.try_cast("bigint")), F.try_to_timestamp(text), sent)
        measured = frame.select(
            F.date_trunc("minute", "publish_time").alias("minute"),
            "topic",
            F.octet_length("data").cast("bigint").alias("size"),
            F.greatest(F.lit(0), F.unix_millis(F.current_timestamp()) - F.unix_millis(sent)).alias("late"),
        )
        summed = measured.groupBy("minute", "topic").agg(
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
            F.max("late").alias("latency_max_ms"),
            F.kll_sketch_agg_bigint("size").alias("size_sketch"),
            F.kll_sketch_agg_bigint("late").alias("latency_sketch"),
        )
        return summed.select("minute", "topic", "messages", "bytes", *_quantiles(), "latency_max_ms", *SKETCHES)

    def summary(self, session: SparkSession, name: str) -> Summary | None:
        newest = merge(session.read.parquet(self.folder)).orderBy("minute", "topic", ascending=[False, True])
        return Summary.of(f"{name}: latest minutes", SHOWN, newest)


def _quantiles() -> list[Column]:
    from pyspark.sql import functions as F

    def quantile(sketch: str, rank: float) -> Column:
        return F.kll_sketch_get_quantile_bigint(sketch, F.lit(rank))

    return [
        quantile("size_sketch", 0.5).alias("size_p50"),
        quantile("size_sketch", 0.99).alias("size_p99"),
        quantile("latency_sketch", 0.5).alias("latency_p50_ms"),
        quantile("latency_sketch", 0.99).alias("latency_p99_ms"),
    ]


def merge(rows: DataFrame) -> DataFrame:
    """Merge the rows of all batches to one row per topic and minute."""
    from pyspark.sql import functions as F

    summed = rows.groupBy("minute", "topic").agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.max("latency_max_ms").alias("latency_max_ms"),
        *(F.kll_merge_agg_bigint(name).alias(name) for name in SKETCHES),
    )
    return summed.select("minute", "topic", "messages", "bytes", *_quantiles(), "latency_max_ms")


def as_messages(rows: DataFrame) -> DataFrame:
    """Return one JSON message per row, in order by topic."""
    from pyspark.sql import functions as F

    plain = rows.drop(*SKETCHES).coalesce(1).sortWithinPartitions("minute", "topic")
    return plain.select(
        F.to_json(F.struct(*plain.columns)).alias("data"),
        F.create_map(F.lit("kind"), F.lit("insights"), F.lit("topic"), F.col("topic")).alias("attributes"),
        F.col("topic").alias("ordering_key"),
    )
