"""Orders off a topic into a table, and the large ones on to another topic.

The rule kept here: Spark's checkpoints know what was read, and the cursor on the broker keeps what was not, so every
run takes up what came since the last, once.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
ORDER = "id BIGINT, city STRING, cents BIGINT"
LARGE_CENTS = 10_000
ENDPOINT = spark.conf.get("spark.penstock.endpoint")


@dp.table
def orders() -> DataFrame:
    """Every order once, with when it was published."""
    messages = (
        spark.readStream.format("penstock")
        .options(endpoint=ENDPOINT, topic="orders", startingOffsets="earliest", consumerName="declarative-orders")
        .load()
    )
    order = f.from_json(messages.data.cast("string"), ORDER)
    return messages.select(order.alias("order"), "publish_time").select("order.*", "publish_time")


dp.create_sink("large_orders", "penstock", {"endpoint": ENDPOINT, "topic": "large-orders", "createTopics": "true"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """A topic takes the columns data, attributes and ordering_key."""
    found = spark.readStream.table("orders").where(f.col("cents") >= LARGE_CENTS)
    return found.select(
        f.to_json(f.struct("id", "city", "cents")).alias("data"),
        f.create_map(f.lit("city"), f.col("city")).alias("attributes"),
        f.col("city").alias("ordering_key"),
    )
