"""Writing: each task publishes its rows, exactly once, whatever is run again.

What is published carries a key that a second run repeats. In a stream it is the query, the number of the batch, the
partition and the request; in a batch job it is a name made when the job is planned. That is exact as long as a second
run has the same rows in the same partitions. With `transactional` the rows wait on the broker and the driver's commit
publishes them: then a second run may have other rows, and still one run counts.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_penstock.chunks import chunks
from pyspark_penstock.client import BrokerClient
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.publishing import Upload
from pyspark_penstock.schema import without_read_columns

if TYPE_CHECKING:
    import pyarrow as pa

DECIDE_SECONDS = 3600.0  # all rows of a batch are published in this one answer
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class Written(WriterCommitMessage):
    """What one task has done: for which query, and where its rows are."""

    def __init__(self, query: str, published: list[dict[str, Any]]) -> None:
        self.query = query
        self.published = published


class PenstockWriter(DataSourceArrowWriter):
    """`df.write.format("penstock")`.

    Inside `foreachBatch` a batch that runs again is another job, and publishes again, unless it says by txnAppId and
    txnVersion which one it is. A version that is done is a decision on the broker, and counts for the topic it was
    written to: one function may write a batch to several of them under one name.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        # Made once, while the job is planned, and carried to every attempt of its tasks.
        self.job = f"job-{uuid.uuid4()}"
        self.epoch = options.txn_version or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query, done = self._transaction()
        if not done:
            return publish(self.options, iterator, query, self.epoch)
        for _ in iterator:  # Spark sends the rows in any case
            pass
        return Written(query, [])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        query, done = self._transaction()
        if not done:
            decide(self.options, messages, self.epoch, query if self.options.txn_app is not None else None)

    def _transaction(self) -> tuple[str, bool]:
        """The name this job writes under, and whether its version, or a higher one, was stored before.

        What an application, whatever it is called, writes to a topic has a name of fixed length. It goes by the topic's
        identity, however the topic is spelled; where a column names topics, by the application alone.
        """
        app, topic = self.options.txn_app, self.options.sink_topic
        if app is None:
            return self.job, False
        broker = BrokerClient(self.options.access)
        identities = []
        if topic is not None:
            if self.options.create_topics:
                broker.ask("topic.ensure", topic=topic)
            identities = [bound.identity for bound in broker.bounds(topics=[topic]).values()]
        query = f"txn-{hashlib.sha256(':'.join([*identities, app]).encode()).hexdigest()[:32]}"
        last = broker.ask("stage.last", query=query)["epoch"]
        return query, last is not None and last >= self.epoch

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Staged rows without a decision are never seen; others are published and cannot be called back."""


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("penstock")`."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return publish(self.options, iterator, _local(QUERY_ID), int(_local(BATCH_ID)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        decide(self.options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Spark runs the batch again, and the broker knows what it has seen."""


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a writer is used inside a task"
    return context


def _local(name: str) -> str:
    value = _context().getLocalProperty(name)
    if value is None:
        raise PenstockError(f"Spark does not say {name} to its tasks, so nothing can be published once", "internal")
    return str(value)


def publish(options: Options, rows: Iterator[pa.RecordBatch], query: str, epoch: int) -> Written:
    """Publish, or stage, the rows of this task."""
    once = {"producer": f"spark/{query}/{_context().partitionId()}", "epoch": epoch}
    command = {
        "topic": options.sink_topic,
        "once": None if options.transactional else once,
        "stage": options.transactional,
    }
    broker = BrokerClient(options.access)
    if options.create_topics and options.sink_topic:  # also where there are no rows
        broker.ask("topic.ensure", topic=options.sink_topic)
    requests = chunks(map(without_read_columns, rows), options.rows_per_request)
    upload = Upload(broker, command)
    upload.send(_with_topics(broker, options, requests) if options.create_topics else requests)
    return Written(query, upload.published if options.transactional else [])


def _with_topics(
    broker: BrokerClient, options: Options, requests: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The same requests, each when the topics it names are there."""
    there = {None, options.sink_topic}
    for request in requests:
        named: set[str | None] = set()
        if "topic" in request.schema.names:
            named = set(request.column("topic").unique().to_pylist())
        for topic in sorted(name for name in named if name and name not in there):
            broker.ask("topic.ensure", topic=topic)
        there |= named
        yield request


def decide(options: Options, messages: list[WriterCommitMessage | None], epoch: int, query: str | None = None) -> None:
    """Let the staged rows of all tasks count, in the order of their partitions.

    A decision is also what says that a version is done: where there is a `query`, it is taken without rows, too.
    """
    tasks = [message for message in messages if isinstance(message, Written)]
    if query is None and not (options.transactional and tasks):
        return
    parts = [
        [{"first": each["first"], "rows": each["rows"], "topic": None} for each in task.published] for task in tasks
    ]
    broker = BrokerClient(options.access)
    broker.ask("stage.decide", seconds=DECIDE_SECONDS, query=query or tasks[0].query, epoch=epoch, parts=parts)
