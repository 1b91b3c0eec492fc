"""Rows of a batch published once, whichever way the batch came about.

The streaming sink has Spark's batch numbers for its publish-once keys. A replay and the batches of a ready-made flow
are plain DataFrames; here their tasks publish them under a key that is the same when the same rows come again. A
partition's rows go out in the order they have, and what is published again must be the same number of rows as the
first time, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ensure_topic(options: dict[str, str]) -> None:
    from pyspark_penstock.client import BrokerClient
    from pyspark_penstock.options import parse

    asked = parse(options)
    BrokerClient(asked.access).ask("topic.ensure", topic=asked.sink_topic)


def publish(frame: DataFrame, options: dict[str, str], producer: str, epoch: int = 0) -> int:
    """Publish the rows of a frame with the columns of the sink, under this key; how many were new."""
    from pyspark.sql import functions as F

    ensure_topic(options)
    counts = frame.mapInArrow(PublishTask(options, producer, epoch), "published long, repeated long")
    row = counts.agg(F.sum("published"), F.sum("repeated")).first()
    return int(row[0] or 0) if row is not None else 0


class PublishTask:
    """What a task does: Arrow batches in, one row of counts out."""

    def __init__(self, options: dict[str, str], producer: str, epoch: int) -> None:
        self.options = options
        self.producer = producer
        self.epoch = epoch

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        from pyspark_penstock.chunks import chunks
        from pyspark_penstock.client import BrokerClient
        from pyspark_penstock.options import parse
        from pyspark_penstock.publishing import Upload

        asked, context = parse(self.options), TaskContext.get()
        assert context is not None
        once = {"producer": f"{self.producer}/{context.partitionId()}", "epoch": self.epoch}
        upload = Upload(BrokerClient(asked.access), {"topic": asked.sink_topic, "once": once, "stage": False})
        rows = 0  # that went by

        def counted() -> Iterator[Any]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield batch

        upload.send(chunks(counted(), asked.rows_per_request))
        answered = sum(each["rows"] for each in upload.published)
        if answered != rows:
            raise ValueError(
                f"penstock: {answered} rows were published under the name of this part before, and now it has "
                f"{rows}; what is published again must be the same"
            )
        fresh = sum(each["rows"] for each in upload.published if not each["repeated"])
        yield pa.RecordBatch.from_pydict({"published": [fresh], "repeated": [answered - fresh]})
