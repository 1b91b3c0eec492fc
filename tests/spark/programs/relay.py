"""A driver that copies messages from one topic to others until it is stopped.

    relay.py ENDPOINT FOLDER RELAY [RELAY ...]      RELAY: kind:source:sink, kind is `plain` or `shuffled`

A relay is the same query at every start, with a checkpoint in FOLDER and a cursor of its own. `plain` gives the same
rows in the same partitions when a batch is repeated. `shuffled` never does, so it is transactional. The driver prints
"session" and "started". A line on its standard input starts the queries, and "drain" lets them run to the end of the
source and stop. spark-submit passes no input, so there the variable RELAY_DRAIN has the effect of "drain".
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

ROWS = 40  # rows in a micro-batch; few, so that a kill hits the middle of a batch
# Batches are so small that compiling them, by Spark or by Java, costs more than it saves.
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}


def session() -> Any:
    builder = SparkSession.builder.appName("relay")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    built = builder.getOrCreate()
    built.sparkContext.setLogLevel("ERROR")
    if "RELAY_SOURCE" in os.environ:  # folder of the data source, if only this program has it
        sys.path.insert(0, os.environ["RELAY_SOURCE"])
        import pyspark_penstock

        pyspark_penstock.register(built)
    return built


def relay(spark: Any, endpoint: str, folder: str, spec: str, *, drain: bool) -> Any:
    kind, source, sink = spec.split(":")
    rows = (
        spark.readStream.format("penstock")
        .options(
            endpoint=endpoint,
            topic=source,
            startingOffsets="earliest",
            consumerName=f"{kind}-{source.rpartition('/')[2]}",
        )
        .options(maxOffsetsPerTrigger=ROWS * 5 if drain else ROWS, minPartitions=2, retryTimeoutSeconds=20)
        .load()
    )
    if kind == "shuffled":
        rows = rows.selectExpr("concat(cast(data AS STRING), ' ', uuid()) AS data").repartition(2, "data")
    else:
        rows = rows.selectExpr("concat('got ', cast(data AS STRING)) AS data", "map('from', topic) AS attributes")
    writer = (
        rows.writeStream.format("penstock")
        .options(endpoint=endpoint, topic=sink, transactional=str(kind == "shuffled").lower(), retryTimeoutSeconds=20)
        .option("checkpointLocation", f"{folder}/checkpoint-{kind}")
    )
    return (writer.trigger(availableNow=True) if drain else writer).start()


def await_batch(query: Any) -> None:
    """Wait until a first batch is done.

    The first tasks of two queries of a session must not be sent at the same time: they share a map that Spark fills
    while it runs one and serializes while it sends the other ("Illegal size 5 of collection, expected 6").
    """
    until = time.monotonic() + 120
    while query.isActive and not query.recentProgress and time.monotonic() < until:
        time.sleep(0.02)


def main(endpoint: str, folder: str, *relays: str) -> None:
    spark = session()
    print("session", flush=True)
    drain = "RELAY_DRAIN" in os.environ or sys.stdin.readline().strip() == "drain"
    queries = []
    for spec in relays:
        queries.append(relay(spark, endpoint, folder, spec, drain=drain))
        if len(queries) < len(relays):
            await_batch(queries[-1])
    print("started", flush=True)
    for query in queries:
        query.awaitTermination()
    print("executors", len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)  # without the driver
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
