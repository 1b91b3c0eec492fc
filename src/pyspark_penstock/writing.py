"""The writers: each task publishes its rows exactly once, also if tasks or batches are repeated.

Each request carries a key that a repeated run uses again. In a stream, the key is the query, the batch number, the
partition and the request number. In a batch job, a name made when the job is planned stands for query and batch.
This is exactly once if the repeated run has the same rows in the same partitions. With `transactional` the rows wait on
the broker until the driver's commit publishes them, so a repeated run may have other rows.
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

DECIDE_SECONDS = 3600.0  # timeout of the request that publishes all staged rows of a batch
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class Written(WriterCommitMessage):
    """The result of one task: its query, and its staged rows."""

    def __init__(self, query: str, published: list[dict[str, Any]]) -> None:
        self.query = query
        self.published = published


class PenstockWriter(DataSourceArrowWriter):
    """The writer of `df.write.format("penstock")`.

    Inside `foreachBatch`, a repeated batch is a new job and publishes its rows again, unless txnAppId and txnVersion
    identify the batch. The broker stores the last version per topic, so one function may write a batch to several
    topics under one txnAppId.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        # Made once, while the job is planned, and pickled to every attempt of its tasks.
        self.job = f"job-{uuid.uuid4()}"
        self.epoch = options.txn_version or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query, done = self._transaction()
        if not done:
            return publish(self.options, iterator, query, self.epoch)
        for _ in iterator:  # Spark sends the rows anyway
            pass
        return Written(query, [])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        query, done = self._transaction()
        if not done:
            decide(self.options, messages, self.epoch, query if self.options.txn_app is not None else None)

    def _transaction(self) -> tuple[str, bool]:
        """Return the name this job writes under, and whether its version or a higher one was stored before.

        With txnAppId, the name is a hash of txnAppId and the topic's identity, so that it has a fixed length and does
        not depend on how the topic is spelled. If a column names the topics, the name is a hash of txnAppId alone.
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
        """Do nothing: staged rows stay invisible without a commit, and published rows cannot be withdrawn."""


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream.format("penstock")`."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return publish(self.options, iterator, _local_property(QUERY_ID), int(_local_property(BATCH_ID)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        decide(self.options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: Spark repeats the batch, and the broker ignores requests it has stored."""


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a writer is used inside a task"
    return context


def _local_property(name: str) -> str:
    value = _context().getLocalProperty(name)
    if value is None:
        raise PenstockError(
            f"Spark does not pass {name} to its tasks, so exactly-once publishing is impossible", "internal"
        )
    return str(value)


def publish(options: Options, rows: Iterator[pa.RecordBatch], query: str, epoch: int) -> Written:
    """Publish the rows of this task, or stage them if transactional."""
    once = {"producer": f"spark/{query}/{_context().partitionId()}", "epoch": epoch}
    command = {
        "topic": options.sink_topic,
        "once": None if options.transactional else once,
        "stage": options.transactional,
    }
    broker = BrokerClient(options.access)
    if options.create_topics and options.sink_topic:  # also if there are no rows
        broker.ask("topic.ensure", topic=options.sink_topic)
    requests = chunks(map(without_read_columns, rows), options.rows_per_request)
    upload = Upload(broker, command)
    upload.send(_create_topics(broker, options, requests) if options.create_topics else requests)
    return Written(query, upload.published if options.transactional else [])


def _create_topics(
    broker: BrokerClient, options: Options, requests: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the requests, after creating the topics in each."""
    created = {None, options.sink_topic}
    for request in requests:
        named: set[str | None] = set()
        if "topic" in request.schema.names:
            named = set(request.column("topic").unique().to_pylist())
        for topic in sorted(name for name in named if name and name not in created):
            broker.ask("topic.ensure", topic=topic)
        created |= named
        yield request


def decide(options: Options, messages: list[WriterCommitMessage | None], epoch: int, query: str | None = None) -> None:
    """Publish the staged rows of all tasks, in the order of their partitions.

    The decision also records a txnVersion as done, so with a `query` it is sent even if there are no staged rows.
    """
    tasks = [message for message in messages if isinstance(message, Written)]
    if query is None and not (options.transactional and tasks):
        return
    parts = [
        [{"first": part["first"], "rows": part["rows"], "topic": None} for part in task.published] for task in tasks
    ]
    broker = BrokerClient(options.access)
    broker.ask("stage.decide", seconds=DECIDE_SECONDS, query=query or tasks[0].query, epoch=epoch, parts=parts)
