"""The table of options: names, uses, values and what they mean.

The rule kept here: this is the only place an option is described; the record is parsed by it and the documentation is
made from it. Names are Kafka's where Kafka has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark_penstock import values


class Use(Enum):
    """What one instance of the source is used for."""

    BATCH_READ = "batch read"
    STREAM_READ = "stream read"
    WRITE = "write"


READS = frozenset({Use.BATCH_READ, Use.STREAM_READ})
STREAM = frozenset({Use.STREAM_READ})
BATCH = frozenset({Use.BATCH_READ})
WRITES = frozenset({Use.WRITE})
ALL = READS | WRITES


@dataclass(frozen=True)
class Option:
    """One row of the table: the field it fills, who may give it, how it is read, and what it means."""

    name: str
    field: str
    uses: frozenset[Use]
    read: Callable[[str], Any]
    expects: str
    default: str
    says: str


_NUMBER, _SIZE, _TRUTH = "a whole number above 0", "a size above 0, as 67108864 or 64m", "true or false"
_TIME = "milliseconds since 1970 or ISO 8601, as 2024-05-01T12:00:00Z"
_PLACE = 'earliest, latest or JSON, as {"projects/p/topics/t": 12}'

TABLE = (
    Option(
        "endpoint",
        "endpoint",
        ALL,
        values.endpoint,
        "host:port",
        "127.0.0.1:8815",
        "Where the broker's Flight door is.",
    ),
    Option(
        "topic",
        "topic",
        ALL,
        values.text,
        "the name of a topic",
        "",
        "A topic, as projects/P/topics/T or short in the default project.",
    ),
    Option("topics", "topics", READS, values.names, "names separated by commas, each once", "", "Several topics."),
    Option(
        "topicPattern",
        "pattern",
        READS,
        values.pattern,
        "a regular expression",
        "",
        "All topics whose full name matches as a whole, or whose short one does in the default project; topics "
        "made later join, from their earliest message.",
    ),
    Option(
        "projectId",
        "project",
        ALL,
        values.text,
        "the name of a project",
        "the broker's default project",
        "The project of topics named shortly.",
    ),
    Option(
        "consumerName",
        "consumer",
        STREAM,
        values.text,
        "a name",
        "",
        "Name of the cursor the broker keeps for the query: it pins where the query starts, holds retention "
        "and shows lag. A name used before goes on from its cursor.",
    ),
    Option(
        "startingOffsets",
        "starting",
        READS,
        values.position,
        _PLACE,
        "latest in a stream, earliest in a batch",
        "Where to begin; in JSON -2 is earliest, -1 latest, and a topic that is not named begins at its "
        "earliest. A checkpoint's offsets are taken as they are.",
    ),
    Option(
        "endingOffsets",
        "ending",
        BATCH,
        values.position,
        _PLACE,
        "latest",
        "Where to end, exclusive; in JSON -1 is latest, which is also for topics that are not named.",
    ),
    Option(
        "startingTimestamp",
        "starting_time",
        READS,
        values.instant,
        _TIME,
        "",
        "Begin with the first message published then or later.",
    ),
    Option(
        "endingTimestamp",
        "ending_time",
        BATCH,
        values.instant,
        _TIME,
        "",
        "End before the first message published then or later.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "strategy",
        READS,
        values.strategy,
        "error or latest",
        "error",
        "What to do when nothing was published since startingTimestamp.",
    ),
    Option(
        "maxOffsetsPerTrigger",
        "rows_per_trigger",
        STREAM,
        values.count,
        _NUMBER,
        "1000000",
        "Most messages in a micro-batch, over all topics: a few seconds of work, so that progress and commits "
        "stay frequent in a long backlog.",
    ),
    Option(
        "maxBytesPerTrigger",
        "bytes_per_trigger",
        STREAM,
        values.size,
        _SIZE,
        "256m",
        "Most stored bytes in a micro-batch: it bounds what the tasks of one batch hold and redo, whatever "
        "the size of messages.",
    ),
    Option(
        "minOffsetsPerTrigger",
        "rows_wanted",
        STREAM,
        values.count,
        _NUMBER,
        "",
        "Wait until so many messages are there, at most maxTriggerDelay.",
    ),
    Option(
        "maxTriggerDelay",
        "delay_seconds",
        STREAM,
        values.duration,
        "a time, as 30s, 15m or 1h",
        "15m",
        "How long minOffsetsPerTrigger may hold back messages.",
    ),
    Option(
        "minPartitions",
        "min_partitions",
        READS,
        values.count,
        _NUMBER,
        "",
        "At least so many Spark partitions, if there are as many messages.",
    ),
    Option(
        "maxRecordsPerPartition",
        "rows_per_partition",
        READS,
        values.count,
        _NUMBER,
        "",
        "Most messages in a Spark partition.",
    ),
    Option(
        "maxBytesPerPartition",
        "bytes_per_partition",
        READS,
        values.size,
        _SIZE,
        "128m",
        "Stored bytes a Spark partition is cut at; topics with less share one.",
    ),
    Option(
        "failOnDataLoss",
        "fail_on_loss",
        READS,
        values.truth,
        _TRUTH,
        "true",
        "Fail when messages were removed before they were read; false goes on from the earliest there is and warns.",
    ),
    Option(
        "includeAttributes",
        "include_attributes",
        READS,
        values.truth,
        _TRUTH,
        "true",
        "false leaves out the column attributes.",
    ),
    Option(
        "columns",
        "columns",
        READS,
        values.names,
        "names separated by commas, each once",
        "all",
        "The columns to read; Spark cannot push a select down, this does.",
    ),
    Option(
        "pushFilters",
        "push_filters",
        BATCH,
        values.truth,
        _TRUTH,
        "false",
        "Read only where conditions on offset, topic and publish_time can match; for a DataFrame that is used in one "
        "place, with Spark's switch for it on, see Tuning.",
    ),
    Option(
        "retryTimeoutSeconds",
        "retry_seconds",
        ALL,
        values.seconds,
        "a number of seconds, 0 or more",
        "10",
        "How long an unreachable broker is tried before the query fails.",
    ),
    Option("token", "token", ALL, values.text, "a token", "", "Bearer token of the Flight door."),
    Option("tls", "tls", ALL, values.truth, _TRUTH, "false", "Speak TLS."),
    Option(
        "tlsRootCertificates",
        "tls_roots",
        ALL,
        values.certificates,
        "PEM text or the path of a file that can be read",
        "those of the system",
        "Whom to trust; read on the driver.",
    ),
    Option("createTopics", "create_topics", WRITES, values.truth, _TRUTH, "false", "Make topics that are not there."),
    Option(
        "transactional",
        "transactional",
        WRITES,
        values.truth,
        _TRUTH,
        "false",
        "Stage the rows and publish them when Spark commits the batch: exactly once for plans that give other "
        "rows when run again.",
    ),
    Option(
        "maxRowsPerRequest",
        "rows_per_request",
        WRITES,
        values.count,
        _NUMBER,
        "5000",
        "Most rows published, and made durable, at once; 1 MiB are a request, too.",
    ),
    Option(
        "txnAppId",
        "txn_app",
        WRITES,
        values.text,
        "a name",
        "",
        "With txnVersion, of df.write: who writes. A batch whose version is not higher than the last one stored "
        "for this name in the topic is left out, so that foreachBatch can be run again.",
    ),
    Option(
        "txnVersion",
        "txn_version",
        WRITES,
        values.whole,
        "a whole number, 0 or more",
        "",
        "The number of the batch, as foreachBatch gives it.",
    ),
)
