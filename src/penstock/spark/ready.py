"""The ready-made flows: what each makes of the messages it reads.

The rule kept here: a DataFrame in, a DataFrame out, with columns a reader understands; where the rows go and how they
get there once is not said here. Partial results can be added up: a minute may come in several batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.records import DeadLetters, Flow, Insights

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLES = 3  # dead letters shown per row of the table
SAMPLE_BYTES = 200
DEAD_PREFIXES = ("CloudPubSubDeadLetterSource", "dead_letter_source_")


def archived(frame: DataFrame) -> DataFrame:
    """Messages with the two columns their folders are named after: topic_name (safe in a path) and day (UTC)."""
    from pyspark.sql import functions as F

    parts = F.split("topic", "/")
    short = F.concat_ws(".", F.get(parts, F.lit(1)), F.get(parts, F.lit(3)))
    safe = F.regexp_replace(F.coalesce(F.nullif(short, F.lit("")), F.col("topic")), "[^A-Za-z0-9._-]", "_")
    return frame.withColumns({"topic_name": safe, "day": F.to_date("publish_time")})


def columns_read(flow: Flow) -> str:
    """What of a message a ready-made flow looks at; the rest is not sent."""
    if isinstance(flow.table, Insights):
        columns = ["topic", "data", "publish_time", "attributes"]
        return ",".join(columns if flow.table.time_attribute else columns[:-1])
    return "topic,offset,message_id,data,attributes,publish_time,ordering_key"


def insights(frame: DataFrame, table: Insights) -> DataFrame:
    """A row per topic and minute: how many, how large, how late. The sketches let several rows be merged."""
    from pyspark.sql import functions as F

    begun = _producer_time(table.time_attribute) if table.time_attribute else F.col("publish_time")
    measured = frame.select(
        F.date_trunc("minute", "publish_time").alias("minute"),
        "topic",
        F.octet_length("data").cast("bigint").alias("size"),
        F.greatest(F.lit(0), F.unix_millis(F.current_timestamp()) - F.unix_millis(begun)).alias("late"),
    )
    summed = measured.groupBy("minute", "topic").agg(
        F.count("*").alias("messages"),
        F.sum("size").alias("bytes"),
        F.max("late").alias("latency_max_ms"),
        F.kll_sketch_agg_bigint("size").alias("size_sketch"),
        F.kll_sketch_agg_bigint("late").alias("latency_sketch"),
    )
    return summed.select("minute", "topic", "messages", "bytes", *_quantiles(), "latency_max_ms", *SKETCHES)


SKETCHES = ("size_sketch", "latency_sketch")


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


def _producer_time(attribute: str) -> Column:
    """The producer's own time if the message carries it, else when the broker took it."""
    from pyspark.sql import functions as F

    text = F.col("attributes")[attribute]
    number = F.timestamp_millis(text.try_cast("bigint"))
    return F.coalesce(number, F.try_to_timestamp(text), F.col("publish_time"))


def merged_insights(rows: DataFrame) -> DataFrame:
    """One row per topic and minute out of all that were written."""
    from pyspark.sql import functions as F

    summed = rows.groupBy("minute", "topic").agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.max("latency_max_ms").alias("latency_max_ms"),
        *(F.kll_merge_agg_bigint(name).alias(name) for name in SKETCHES),
    )
    return summed.select("minute", "topic", "messages", "bytes", *_quantiles(), "latency_max_ms")


def as_messages(rows: DataFrame) -> DataFrame:
    """Insights as JSON, one message per row, in order by topic."""
    from pyspark.sql import functions as F

    told = rows.drop(*SKETCHES).coalesce(1).sortWithinPartitions("minute", "topic")
    return told.select(
        F.to_json(F.struct(*told.columns)).alias("data"),
        F.create_map(F.lit("kind"), F.lit("insights"), F.lit("topic"), F.col("topic")).alias("attributes"),
        F.col("topic").alias("ordering_key"),
    )


def dead_letters(frame: DataFrame, table: DeadLetters) -> DataFrame:
    """A row per source, attempts, hour and reason, with a few letters as samples."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = ["dead_letter_topic", "subscription", "attempts", "hour", "reason"]
    first_ones = Window.partitionBy(*keys).orderBy("topic", "offset")
    sample = F.struct("message_id", _payload().alias("payload"))
    letters = _described(frame, table).withColumn("place", F.row_number().over(first_ones))
    return letters.groupBy(*keys).agg(
        F.count("*").alias("letters"),
        F.min("publish_time").alias("first_at"),
        F.max("publish_time").alias("last_at"),
        F.max(F.unix_millis("publish_time") - F.unix_millis("sent_at")).alias("longest_ms"),
        F.collect_list(F.when(F.col("place") <= SAMPLES, sample)).alias("samples"),
    )


def _payload() -> Column:
    """The beginning of a body as text; what is not text is shown as Base64."""
    from pyspark.sql import functions as F

    begin = F.substring(F.col("data"), 1, SAMPLE_BYTES)
    return F.when(F.is_valid_utf8(begin.cast("string")), begin.cast("string")).otherwise(F.base64(begin))


def _described(frame: DataFrame, table: DeadLetters) -> DataFrame:
    """Dead letters with what their attributes say of where they come from."""
    from pyspark.sql import functions as F

    def said(*names: str) -> Column:
        return F.coalesce(*(F.col("attributes")[name] for name in names))

    theirs, ours = DEAD_PREFIXES
    name = said(f"{theirs}Subscription")
    full = F.concat(F.lit("projects/"), said(f"{theirs}SubscriptionProject"), F.lit("/subscriptions/"), name)
    sent = F.coalesce(
        F.try_to_timestamp(said(f"{theirs}TopicPublishTime")),
        F.timestamp_micros((said(f"{ours}publish_time_ns").cast("bigint") / 1000).cast("bigint")),
    )
    return frame.withColumns(
        {
            "dead_letter_topic": F.col("topic"),
            "subscription": F.coalesce(full, name, said(f"{ours}subscription"), F.lit("unknown")),
            "attempts": said(f"{theirs}DeliveryCount", f"{ours}delivery_count").cast("int"),
            "hour": F.date_trunc("hour", "publish_time"),
            "reason": said(table.reason_attribute) if table.reason_attribute else F.lit(None).cast("string"),
            "sent_at": sent,
        }
    )


def merged_dead_letters(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy("subscription", "attempts", "hour", "reason").agg(
        F.sum("letters").alias("letters"),
        F.max("longest_ms").alias("longest_ms"),
        F.max("last_at").alias("last_at"),
        F.first(F.get("samples", F.lit(0)).getField("payload"), ignorenulls=True).alias("sample"),
    )
