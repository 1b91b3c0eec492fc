"""The options of the data source, each declared once, and the record of their values.

No option is ignored: one that is unknown, has an invalid value or belongs to another use of the source is refused by
name. A test compares docs/spark.md with this file. Option names are Kafka's where Kafka has the option.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, tzinfo
from enum import Enum
from typing import Any

from pyspark_penstock import values
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.schema import COLUMNS
from pyspark_penstock.values import EARLIEST, LATEST


class Use(Enum):
    """The use of one instance of the source."""

    BATCH_READ = "batch read"
    STREAM_READ = "stream read"
    WRITE = "write"


READS = frozenset({Use.BATCH_READ, Use.STREAM_READ})
STREAM = frozenset({Use.STREAM_READ})
BATCH = frozenset({Use.BATCH_READ})
WRITES = frozenset({Use.WRITE})
ALL = READS | WRITES

ALIASES = {
    "path": "topic",  # load("t") and save("t")
    "topicId": "topic",
    "subscribe": "topics",
    "subscribePattern": "topicPattern",
    "subscriptionId": "consumerName",
}
# Options of other sources, and the hint that names the option to use here.
FOREIGN = {
    "assign": "topics have no partitions to assign; set topic or topics, and startingOffsets for the start",
    "kafka.bootstrap.servers": "set the option endpoint to host:port of the broker's Flight port",
    "bootstrap.servers": "set the option endpoint to host:port of the broker's Flight port",
    "group.id": "set the option consumerName to name the query",
    "kafka.group.id": "set the option consumerName to name the query",
    "groupidprefix": "there are no groups; set the option consumerName to name the query",
    "startingoffsetsbytimestamp": "set the option startingTimestamp, one time for all topics",
    "endingoffsetsbytimestamp": "set the option endingTimestamp, one time for all topics",
    "includeheaders": "attributes are always read, unless includeAttributes is false",
}
# Spark's own options, which it passes to the source as well.
SPARKS_OWN = {
    "checkpointlocation", "queryname", "outputmode", "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms", "_asyncprogresstrackingoverridesinksupportcheck",
    # properties of a table in Spark's catalog
    "provider", "owner", "location", "comment", "collation", "external", "is_managed_location",
}  # fmt: skip


@dataclass(frozen=True)
class Access:
    """The broker's address and credentials."""

    endpoint: str
    retry_seconds: float
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_roots: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Option:
    field: str
    name: str
    uses: frozenset[Use]
    read: Callable[[str], Any]  # parses the value; raises ValueError
    expects: str  # end of the sentence "option NAME must be ..."
    default: str  # as the documentation shows it
    description: str
    secret: bool  # True: the value is never shown


PARSED = object()


def option(
    name: str,
    uses: frozenset[Use],
    read: Callable[[str], Any],
    default: str,
    description: str,
    *,
    expects: str = "",
    value: Any = PARSED,
    secret: bool = False,
) -> Any:
    """Declare a field of Options. `value` is its default if the text of `default` cannot be parsed as a value."""
    row = {"name": name, "uses": uses, "read": read, "expects": expects or values.EXPECTS[read]}
    if value is PARSED:
        value = read(default) if default else None
    return field(
        default=value,
        repr=not secret,
        metadata=row | {"default": default, "description": description, "secret": secret},
    )


@dataclass(frozen=True)
class Options:
    """The parsed options. None: the option was not given and has no default."""

    # fmt: off
    endpoint: str = option(
        "endpoint", ALL, values.endpoint, "127.0.0.1:8815", "Address of the broker's Flight port, host:port."
    )
    topic: str | None = option(
        "topic", ALL, values.text, "",
        "Topic to read or write: projects/P/topics/T, or T in the default project.", expects="the name of a topic",
    )
    topics: tuple[str, ...] = option("topics", READS, values.names, "", "Topics to read, comma-separated.", value=())
    pattern: str | None = option(
        "topicPattern", READS, values.pattern, "",
        "Regular expression of RE2, which has no lookahead: reads each topic whose full name, or short name in "
        "the default project, matches as a whole. A stream adds topics that are created later, from their earliest "
        "message.",
    )
    project: str | None = option(
        "projectId", ALL, values.text, "the broker's default project",
        "Project of topics given by their short name.", expects="the name of a project", value=None,
    )
    consumer: str | None = option(
        "consumerName", STREAM, values.text, "",
        "Name of the query's cursor on the broker. The cursor pins the start, holds retention and shows lag. A name "
        "that was used before continues from its cursor.", expects="a name",
    )
    starting: str | dict[str, Any] | None = option(  # noqa: RUF009
        "startingOffsets", READS, values.position, "latest in a stream, earliest in a batch",
        "earliest, latest, or JSON with an offset for each topic: -2 is earliest, -1 is latest, a topic left out "
        "starts at earliest. Offsets copied from a checkpoint are accepted.", value=None,
    )
    ending: str | dict[str, Any] | None = option(  # noqa: RUF009
        "endingOffsets", BATCH, values.position, "latest",
        "Exclusive end: latest, or JSON with an offset for each topic. -1 is latest, also for a topic left out.",
    )
    starting_time: int | None = option(
        "startingTimestamp", READS, values.instant, "", "Start at the first message published at or after this time."
    )
    ending_time: int | None = option(
        "endingTimestamp", BATCH, values.instant, "", "End before the first message published at or after this time."
    )
    zone: tzinfo | None = option(  # noqa: RUF009
        "timeZone", READS, values.zone, "the machine's, as in Spark",
        "Zone of timestamps without a zone. Spark does not pass spark.sql.session.timeZone to a Python source: if you "
        "set that, set this option too, or call register(spark), which passes it on.", value=None,
    )
    strategy: str = option(
        "startingOffsetsByTimestampStrategy", READS, values.strategy, "error",
        "error or latest: what to do if nothing was published since startingTimestamp.",
    )
    rows_per_trigger: int = option(
        "maxOffsetsPerTrigger", STREAM, values.count, "1000000",
        "Maximum messages in a micro-batch, over all topics. The default is a few seconds of work, so that progress "
        "and commits stay frequent in a long backlog.",
    )
    bytes_per_trigger: int = option(
        "maxBytesPerTrigger", STREAM, values.size, "256m",
        "Maximum stored bytes in a micro-batch. Limits the memory and the repeated work of a batch for messages of "
        "any size.",
    )
    rows_wanted: int | None = option(
        "minOffsetsPerTrigger", STREAM, values.count, "",
        "Wait for this many messages, but at most maxTriggerDelay.",
    )
    delay_seconds: float = option(
        "maxTriggerDelay", STREAM, values.duration, "15m", "Maximum time that minOffsetsPerTrigger holds back messages."
    )
    min_partitions: int | None = option(
        "minPartitions", READS, values.count, "", "Minimum number of Spark partitions, if there are that many messages."
    )
    rows_per_partition: int | None = option(
        "maxRecordsPerPartition", READS, values.count, "", "Maximum messages in a Spark partition."
    )
    bytes_per_partition: int = option(
        "maxBytesPerPartition", READS, values.size, "128m",
        "Stored bytes at which a Spark partition is cut. Small topics share a partition.",
    )
    fail_on_loss: bool = option(
        "failOnDataLoss", READS, values.truth, "true",
        "true fails if messages were removed before they were read. false logs a warning and continues from the "
        "earliest message.",
    )
    include_attributes: bool = option(
        "includeAttributes", READS, values.truth, "true", "false leaves out the attributes column."
    )
    columns: tuple[str, ...] = option(
        "columns", READS, values.names, "all",
        "Columns to read, separated by commas. Spark does not push a select down to the source; this option does.",
        value=COLUMNS,
    )
    push_filters: bool = option(
        "pushFilters", BATCH, values.truth, "false",
        "Read only where filters on offset, topic and publish_time can match. Needs Spark's own switch, and a "
        "DataFrame that is used once: see Tuning.",
    )
    retry_seconds: float = option(
        "retryTimeoutSeconds", ALL, values.seconds, "10",
        "Seconds to retry an unreachable broker before the query fails.",
    )
    token: str | None = option(
        "token", ALL, values.text, "", "Bearer token of the Flight port.", expects="a token", secret=True
    )
    tls: bool = option("tls", ALL, values.truth, "false", "Use TLS.")
    tls_roots: bytes | None = option(
        "tlsRootCertificates", ALL, values.certificates, "those of the system",
        "Root certificates to trust, as PEM text or a file. Read on the driver.", value=None, secret=True,
    )
    create_topics: bool = option("createTopics", WRITES, values.truth, "false", "Create missing topics.")
    transactional: bool = option(
        "transactional", WRITES, values.truth, "false",
        "Stage the rows and publish them when Spark commits the batch. Gives exactly once also for plans that are "
        "not repeatable.",
    )
    rows_per_request: int = option(
        "maxRowsPerRequest", WRITES, values.count, "5000",
        "Maximum rows in a publish request. A request also ends at 1 MiB.",
    )
    txn_app: str | None = option(
        "txnAppId", WRITES, values.text, "",
        "Name of the writer, for df.write in foreachBatch, with txnVersion. A batch is skipped if its version is not "
        "higher than the last version stored for this name in the topic, so foreachBatch can be repeated.",
        expects="a name",
    )
    txn_version: int | None = option(
        "txnVersion", WRITES, values.whole, "", "Number of the batch, as passed to foreachBatch."
    )
    # fmt: on
    given: frozenset[str] = frozenset()  # declared names of the options that were given

    @property
    def access(self) -> Access:
        return Access(self.endpoint, self.retry_seconds, self.token, self.tls, self.tls_roots)

    @property
    def sink_topic(self) -> str | None:
        return self._full(self.topic) if self.topic else None

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The full names of the topics to read; empty if there is a pattern."""
        return tuple(self._full(name) for name in self.topics or ((self.topic,) if self.topic else ()))

    @property
    def many(self) -> bool:
        """Whether more than one topic may be read. Each topic then has a cursor of its own."""
        return self.pattern is not None or len(self.source_topics) > 1

    def _full(self, name: str) -> str:
        return f"projects/{self.project}/topics/{name}" if self.project and "/" not in name else name

    def check(self, *uses: Use) -> None:
        """Refuse options of another use. Several uses: it is not known yet whether a batch or a stream is read."""
        for name in sorted(self.given):
            allowed = BY_NAME[name.lower()].uses
            if not allowed & set(uses):
                listed = " or a ".join(sorted(use.value for use in allowed))
                actual = uses[0].value if len(uses) == 1 else "read"
                raise PenstockError(f"option {name} is for a {listed}, not for a {actual}")
        if READS & set(uses):
            self._check_source()
        if uses == (Use.BATCH_READ,):
            self._check_ends()
        if (self.txn_app is None) != (self.txn_version is None):
            raise PenstockError("txnAppId and txnVersion go together; set both or neither")

    def _check_source(self) -> None:
        chosen = sorted(self.given & {"topic", "topics", "topicPattern"})
        if len(chosen) != 1:
            actual = f"{' and '.join(chosen)} are set" if chosen else "none is set"
            raise PenstockError(f"set exactly one of the options topic, topics and topicPattern; {actual}")
        for one, other in (("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp")):
            if {one, other} <= self.given:
                raise PenstockError(f"{one} and {other} are both set; set only one of them")

    def _check_ends(self) -> None:
        """Refuse a range that can never have rows."""
        for name, value, word, number in (
            ("startingOffsets", self.starting, "latest", LATEST),
            ("endingOffsets", self.ending, "earliest", EARLIEST),
        ):
            if value == word or (isinstance(value, dict) and number in value.values()):
                raise PenstockError(f"{name} is {word} in a batch read, so the batch would be empty")
        if self.starting_time is not None and self.ending_time is not None and self.starting_time > self.ending_time:
            raise PenstockError("startingTimestamp is later than endingTimestamp")


TABLE = tuple(Option(declared.name, **declared.metadata) for declared in fields(Options) if declared.metadata)
BY_NAME = {option.name.lower(): option for option in TABLE}
BY_ALIAS = {alias.lower(): BY_NAME[name.lower()] for alias, name in ALIASES.items()}


def parse(raw: Mapping[str, Any], zone: str | None = None) -> Options:
    """Parse options. Raise PenstockError for one that is unknown, invalid or given twice.

    `zone` is the session's time zone, or None if it is unknown.
    """
    parsed: dict[str, Any] = {}
    names: dict[str, str] = {}  # as given, by declared name
    for name, value in raw.items():
        key = name.lower()
        if key in SPARKS_OWN or key.startswith("option."):  # a catalog passes the options of a table twice
            continue
        option = BY_NAME.get(key) or BY_ALIAS.get(key) or _refuse_name(name)
        if option.name in names:
            raise PenstockError(f"option {option.name} is given twice, as {names[option.name]} and as {name}")
        names[option.name] = name
        parsed[option.field] = _parse_value(option, str(value))
    for name in ("starting_time", "ending_time"):
        if isinstance(moment := parsed.get(name), datetime):
            own_zone = parsed.get("zone") or (_parse_value(BY_NAME["timezone"], zone) if zone else None)
            parsed[name] = values.microseconds(moment.replace(tzinfo=own_zone))
    return Options(**_select_columns(parsed), given=frozenset(names))


def _parse_value(option: Option, value: str) -> Any:
    try:
        return option.read(value)
    except ValueError:
        shown = "it" if option.secret else repr(value)
        raise PenstockError(f"option {option.name} must be {option.expects}; {shown} is not") from None


def _refuse_name(name: str) -> Option:
    if name.lower() in FOREIGN or name.lower().startswith("kafka."):
        hint = FOREIGN.get(name.lower(), "options of Kafka's clients have no effect here")
        raise PenstockError(f"unknown option {name}; {hint}")
    names = {name.lower(): name for name in (*(option.name for option in TABLE), *ALIASES)}
    near = difflib.get_close_matches(name.lower(), names, 1, 0.6)
    hint = (
        f"did you mean {names[near[0]]}?" if near else f"the options are {', '.join(option.name for option in TABLE)}"
    )
    raise PenstockError(f"unknown option {name}; {hint}")


def _select_columns(parsed: dict[str, Any]) -> dict[str, Any]:
    chosen = parsed.get("columns", COLUMNS)
    for name in chosen:
        if name not in COLUMNS:
            raise PenstockError(f"option columns has an unknown column {name!r}; the columns are {', '.join(COLUMNS)}")
    without = parsed.get("include_attributes", True) is False
    if without and "columns" in parsed and "attributes" in chosen:
        raise PenstockError("option columns contains attributes, but includeAttributes is false")
    selected = tuple(name for name in COLUMNS if name in chosen and not (without and name == "attributes"))
    return parsed | {"columns": selected}
