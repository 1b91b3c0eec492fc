"""Publishing of a plain DataFrame exactly once, for replays and ready-made flows.

The streaming sink makes its publish-once keys from Spark's batch numbers. A plain DataFrame has none, so the caller
passes a key that is the same when the same rows are published again. The rows of a partition are published in order. A
repeated run with another number of rows is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ensure_topic(options: dict[str, str]) -> None:
    from pyspark_penstock.client import BrokerClient
    from pyspark_penstock.options import parse

    parsed = parse(options)
    BrokerClient(parsed.access).ask("topic.ensure", topic=parsed.sink_topic)


def publish(frame: DataFrame, options: dict[str, str], producer: str, epoch: int = 0) -> int:
    """Publish the rows of a frame, which has the columns of the sink, under this key. Return the number of new rows."""
    from pyspark.sql import functions as F

    ensure_topic(options)
    counts = frame.mapInArrow(PublishTask(options, producer, epoch), "published long, repeated long")
    row = counts.agg(F.sum("published"), F.sum("repeated")).first()
    return int(row[0] or 0) if row is not None else 0


class PublishTask:
    """The function of a task: it publishes Arrow batches and returns one row of counts."""

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

        options, context = parse(self.options), TaskContext.get()
        assert context is not None
        once = {"producer": f"{self.producer}/{context.partitionId()}", "epoch": self.epoch}
        upload = Upload(BrokerClient(options.access), {"topic": options.sink_topic, "once": once, "stage": False})
        rows = 0

        def count_rows() -> Iterator[Any]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield batch

        upload.send(chunks(count_rows(), options.rows_per_request))
        answered = sum(request["rows"] for request in upload.published)
        if answered != rows:
            raise ValueError(
                f"penstock: this part has {rows} rows, but {answered} rows of it were published before; a repeated "
                "run must publish the same rows"
            )
        fresh = sum(request["rows"] for request in upload.published if not request["repeated"])
        yield pa.RecordBatch.from_pydict({"published": [fresh], "repeated": [answered - fresh]})
