"""`dead-letters`: dead letter topics -> who failed, how often, when, with samples, as Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark.flows.files import BatchResults
from penstock.spark.flows.kind import FlowKind, Output, TopicsText
from penstock.spark.records import Flow, Pipeline
from penstock.spark.runs import RowCounter, Summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SAMPLES = 3  # dead letters shown per row of the table
SAMPLE_BYTES = 200
PUBSUB_PREFIX, OUR_PREFIX = "CloudPubSubDeadLetterSource", "dead_letter_source_"
SHOWN = ("subscription", "attempts", "hour", "reason", "letters", "longest_ms", "sample")


class DeadLetters(FlowKind, kw_only=True):
    topics: TopicsText
    folder: str
    reason_attribute: str | None = None  # if the application says in one why it failed

    folders = ("folder",)

    @property
    def output(self) -> Output:
        return Output(folder=self.folder)

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        results = BatchResults(self.folder, flow.checkpoint, self.grouped)
        return frame.writeStream.foreachBatch(results), results

    def grouped(self, frame: DataFrame) -> DataFrame:
        """A row per source, attempts, hour and reason, with a few letters as samples."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = ["dead_letter_topic", "subscription", "attempts", "hour", "reason"]
        numbered = F.row_number().over(Window.partitionBy(*keys).orderBy("topic", "offset"))
        begin = F.substring(F.col("data"), 1, SAMPLE_BYTES)  # as text; what is not text is shown as Base64
        payload = F.when(F.is_valid_utf8(begin.cast("string")), begin.cast("string")).otherwise(F.base64(begin))
        sample = F.struct("message_id", payload.alias("payload"))
        return (
            self._described(frame)
            .withColumn("place", numbered)
            .groupBy(*keys)
            .agg(
                F.count("*").alias("letters"),
                F.min("publish_time").alias("first_at"),
                F.max("publish_time").alias("last_at"),
                F.max(F.unix_millis("publish_time") - F.unix_millis("sent_at")).alias("longest_ms"),
                F.collect_list(F.when(F.col("place") <= SAMPLES, sample)).alias("samples"),
            )
        )

    def _described(self, frame: DataFrame) -> DataFrame:
        """Dead letters with what their attributes say of where they come from."""
        from pyspark.sql import functions as F

        def attribute(*names: str) -> Column:
            return F.coalesce(*(F.col("attributes")[name] for name in names))

        name = attribute(f"{PUBSUB_PREFIX}Subscription")
        project = attribute(f"{PUBSUB_PREFIX}SubscriptionProject")
        full = F.concat(F.lit("projects/"), project, F.lit("/subscriptions/"), name)
        nanoseconds = attribute(f"{OUR_PREFIX}publish_time_ns").cast("bigint")
        sent = F.coalesce(
            F.try_to_timestamp(attribute(f"{PUBSUB_PREFIX}TopicPublishTime")),
            F.timestamp_micros((nanoseconds / 1000).cast("bigint")),
        )
        attempts = attribute(f"{PUBSUB_PREFIX}DeliveryCount", f"{OUR_PREFIX}delivery_count")
        no_reason = F.lit(None).cast("string")
        return frame.withColumns(
            {
                "dead_letter_topic": F.col("topic"),
                "subscription": F.coalesce(full, name, attribute(f"{OUR_PREFIX}subscription"), F.lit("unknown")),
                "attempts": attempts.cast("int"),
                "hour": F.date_trunc("hour", "publish_time"),
                "reason": attribute(self.reason_attribute) if self.reason_attribute else no_reason,
                "sent_at": sent,
            }
        )

    def summary(self, session: SparkSession, name: str) -> Summary | None:
        worst = merged(session.read.parquet(self.folder)).orderBy("letters", "last_at", ascending=False)
        return Summary.of(f"{name}: who failed", SHOWN, worst)


def merged(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy("subscription", "attempts", "hour", "reason").agg(
        F.sum("letters").alias("letters"),
        F.max("longest_ms").alias("longest_ms"),
        F.max("last_at").alias("last_at"),
        F.first(F.get("samples", F.lit(0)).getField("payload"), ignorenulls=True).alias("sample"),
    )
