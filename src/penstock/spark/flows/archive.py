"""The flow `archive`: topics to Parquet files, partitioned by topic and day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark.flows.files import parquet_writer
from penstock.spark.flows.kind import FlowKind, Output, TopicsText
from penstock.spark.records import Flow, Pipeline
from penstock.spark.runs import RowCounter, count_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NAME_MAX = 240  # maximum characters of topic_name; its folder is named topic_name=...


class Archive(FlowKind, kw_only=True):
    topics: TopicsText
    lake: str

    folders = ("lake",)

    @property
    def output(self) -> Output:
        return Output(folder=self.lake)

    def transform(self, frame: DataFrame, pipeline: Pipeline) -> DataFrame:
        """Add the two partition columns: topic_name (safe in a path) and day (UTC)."""
        from pyspark.sql import functions as F

        parts = F.split("topic", "/")
        short = F.concat_ws(".", F.get(parts, F.lit(1)), F.get(parts, F.lit(3)))
        safe = F.regexp_replace(F.coalesce(F.nullif(short, F.lit("")), F.col("topic")), "[^A-Za-z0-9._-]", "_")
        # Topic names and folder names may have 255 characters. A digest keeps long names distinct.
        cut = F.concat_ws("-", F.substring(safe, 1, NAME_MAX - 33), F.substring(F.sha2("topic", 256), 1, 32))
        safe = F.when(F.length(safe) > NAME_MAX, cut).otherwise(safe)
        return frame.withColumns({"topic_name": safe, "day": F.to_date("publish_time")})

    def write(self, frame: DataFrame, pipeline: Pipeline, flow: Flow) -> tuple[Any, RowCounter | None]:
        return parquet_writer(count_rows(frame), self.lake, ("topic_name", "day"), flow.checkpoint), None
