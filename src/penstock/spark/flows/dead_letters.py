"""The flow `dead-letters`: dead letter topics to a Parquet report of failures with samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark.flows.files import BatchResults
from penstock.spark.flows.kind import FlowKind, Output, TopicsText
from penstock.spark.records import Flow, Pipeline
from penstock.spark.runs import RowCounter, Summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SAMPLES = 3  # samples in each row
SAMPLE_BYTES = 200
PUBSUB_PREFIX, OUR_PREFIX = "CloudPubSubDeadLetterSource", "dead_letter_source_"
SHOWN = ("subscription", "attempts", "hour", "reason", "letters", "longest_ms", "sample")


class DeadLetters(FlowKind, kw_only=True):
    topics: TopicsText
    folder: str
    reason_attribute: str | None = None  # attribute in which the application gives the reason

    folders = ("folder",)

    @property
    def output(self) -> Output:
        return Output(folder=self.folder)

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        results = BatchResults(self.folder, flow.checkpoint, self.group)
        return frame.writeStream.foreachBatch(results), results

    def group(self, frame: DataFrame) -> DataFrame:
        """Return a row per source, attempts, hour and reason, with a few dead letters as samples."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = ["dead_letter_topic", "subscription", "attempts", "hour", "reason"]
        numbered = F.row_number().over(Window.partitionBy(*keys).orderBy("topic", "offset"))
        begin = F.substring(F.col("data"), 1, SAMPLE_BYTES)  # shown as text, or as Base64 if it is not UTF-8
        payload = F.when(F.is_valid_utf8(begin.cast("string")), begin.cast("string")).otherwise(F.base64(begin))
        sample = F.struct("message_id", payload.alias("payload"))
        return (
            self._describe(frame)
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

    def _describe(self, frame: DataFrame) -> DataFrame:
        """Add columns with the origin of each dead letter, from its attributes."""
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
        worst = merge(session.read.parquet(self.folder)).orderBy("letters", "last_at", ascending=False)
        return Summary.of(f"{name}: failed deliveries", SHOWN, worst)


def merge(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy("subscription", "attempts", "hour", "reason").agg(
        F.sum("letters").alias("letters"),
        F.max("longest_ms").alias("longest_ms"),
        F.max("last_at").alias("last_at"),
        F.first(F.get("samples", F.lit(0)).getField("payload"), ignorenulls=True).alias("sample"),
    )
