"""Orders from a topic to a table, and large orders to another topic.

Spark's checkpoints record what was read, and the cursor on the broker keeps unread messages. So each run processes the
orders since the last run, once.
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
    """Return every order once, with its publish time."""
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
    """Return large orders with the columns of a topic: data, attributes and ordering_key."""
    orders = spark.readStream.table("orders").where(f.col("cents") >= LARGE_CENTS)
    return orders.select(
        f.to_json(f.struct("id", "city", "cents")).alias("data"),
        f.create_map(f.lit("city"), f.col("city")).alias("attributes"),
        f.col("city").alias("ordering_key"),
    )
