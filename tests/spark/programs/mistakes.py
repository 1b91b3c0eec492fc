"""A program that makes mistakes and prints the output that a user would see.

    mistakes.py ENDPOINT CHECKPOINTS

An error is printed as Python prints an uncaught one, after a line with the name of the mistake and the seconds until
the error.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

NOBODY = "127.0.0.1:1"
SECONDS = 60  # a query that does not fail runs forever


def mistakes(spark: SparkSession, endpoint: str, folder: str) -> dict[str, Callable[[], Any]]:
    """Return the mistakes by name. The topic `here` exists."""

    def reading(**options: str) -> Any:
        return spark.read.format("penstock").options(**({"endpoint": endpoint} | options)).load().count()

    def following(**options: str) -> Any:
        frame = spark.readStream.format("penstock").options(**({"endpoint": endpoint} | options)).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", f"{folder}/{hash(str(options))}").start()
        return query.awaitTermination(SECONDS)

    def writing(columns: str, **options: str) -> Any:
        spark.range(1).selectExpr(columns).write.format("penstock").mode("append").options(
            **({"endpoint": endpoint, "topic": "here"} | options)
        ).save()

    def feeding(columns: str, **options: str) -> Any:
        rows = spark.readStream.format("rate").load().selectExpr(columns)
        writer = rows.writeStream.format("penstock").options(**({"endpoint": endpoint, "topic": "here"} | options))
        return (
            writer.option("checkpointLocation", f"{folder}/f{hash(columns + str(options))}")
            .start()
            .awaitTermination(SECONDS)
        )

    good = "'x' AS data"
    quick = {"retryTimeoutSeconds": "1"}
    return {
        "read, unknown option": lambda: reading(topic="here", startingOffset="earliest"),
        "read, no broker": lambda: reading(topic="here", **quick | {"endpoint": NOBODY}),
        "read, no topic": lambda: reading(topic="no-such-topic"),
        "stream, bad value": lambda: following(topic="here", maxOffsetsPerTrigger="many"),
        "stream, no broker": lambda: following(topic="here", **quick | {"endpoint": NOBODY}),
        "stream, no topic": lambda: following(topic="no-such-topic"),
        "write, unknown option": lambda: writing(good, transactinal="true"),
        "write, wrong schema": lambda: writing("id AS data"),
        "write, no broker": lambda: writing(good, **quick | {"endpoint": NOBODY}),
        "write, no topic": lambda: writing(good, topic="no-such-topic"),
        "sink, wrong schema": lambda: feeding("value AS number"),
        "sink, no broker": lambda: feeding(good, **quick | {"endpoint": NOBODY}),
        "sink, no topic": lambda: feeding(good, topic="no-such-topic"),
    }


def main(endpoint: str, folder: str) -> None:
    spark = SparkSession.builder.appName("mistakes").config("spark.ui.enabled", "false").getOrCreate()
    for name, mistake in mistakes(spark, endpoint, folder).items():
        began = time.monotonic()
        try:
            mistake()
            seen = "nothing"
        except Exception:  # noqa: BLE001 - Spark's errors have many classes
            seen = traceback.format_exc()
        print(f"=== {name} === {time.monotonic() - began:.1f}\n{seen}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
