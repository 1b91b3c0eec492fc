"""Every option there is, declared once, and the record of what was asked for.

Nothing is ignored: an option that is not declared here, is written wrongly, or belongs to another use of the source is
refused by name. The documentation is checked against this file. Names are Kafka's where Kafka has one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from pyspark_penstock import values
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.schema import COLUMNS
from pyspark_penstock.values import EARLIEST, LATEST


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

ALIASES = {
    "path": "topic",  # load("t") and save("t")
    "topicId": "topic",
    "subscribe": "topics",
    "subscribePattern": "topicPattern",
    "subscriptionId": "consumerName",
}
# What other sources call things that are here in another way, and what there is instead.
FOREIGN = {
    "assign": "a topic has no partitions to assign; give topic or topics, and startingOffsets where to begin",
    "kafka.bootstrap.servers": "the broker's address is the option endpoint, as host:port of its Flight door",
    "bootstrap.servers": "the broker's address is the option endpoint, as host:port of its Flight door",
    "group.id": "a query is named with the option consumerName",
    "kafka.group.id": "a query is named with the option consumerName",
    "groupidprefix": "there are no groups; a query is named with the option consumerName",
    "startingoffsetsbytimestamp": "one time for all topics is the option startingTimestamp",
    "endingoffsetsbytimestamp": "one time for all topics is the option endingTimestamp",
    "includeheaders": "attributes are always read, unless includeAttributes is false",
}
# Spark hands these to the source as well; they are its own.
SPARKS_OWN = {
    "checkpointlocation", "queryname", "outputmode", "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms", "_asyncprogresstrackingoverridesinksupportcheck",
    # of a table in its catalog
    "provider", "owner", "location", "comment", "collation", "external", "is_managed_location",
}  # fmt: skip


@dataclass(frozen=True)
class Access:
    """How to reach the broker."""

    endpoint: str
    retry_seconds: float
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_roots: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Option:
    """One option: the field it fills, who may give it, how it is read, and what it means."""

    field: str
    name: str
    uses: frozenset[Use]
    read: Callable[[str], Any]
    expects: str
    default: str  # as the documentation says it
    says: str
    secret: bool


PARSED = object()


def option(
    name: str,
    uses: frozenset[Use],
    read: Callable[[str], Any],
    default: str,
    says: str,
    *,
    expects: str = "",
    value: Any = PARSED,
    secret: bool = False,
) -> Any:
    """A field of the record; `value` is its default where the text of the default is not what a user would write."""
    row = {"name": name, "uses": uses, "read": read, "expects": expects or values.EXPECTS[read]}
    if value is PARSED:
        value = read(default) if default else None
    return field(default=value, repr=not secret, metadata=row | {"default": default, "says": says, "secret": secret})


@dataclass(frozen=True)
class Options:
    """What was asked for; a field that is None was left out and has no default."""

    # fmt: off
    endpoint: str = option("endpoint", ALL, values.endpoint, "127.0.0.1:8815", "Where the broker's Flight door is.")
    topic: str | None = option(
        "topic", ALL, values.text, "",
        "A topic, as projects/P/topics/T or short in the default project.", expects="the name of a topic",
    )
    topics: tuple[str, ...] = option("topics", READS, values.names, "", "Several topics.", value=())
    pattern: str | None = option(
        "topicPattern", READS, values.pattern, "",
        "All topics whose full name matches as a whole, or whose short one does in the default project; topics "
        "made later join, from their earliest message.",
    )
    project: str | None = option(
        "projectId", ALL, values.text, "the broker's default project",
        "The project of topics named shortly.", expects="the name of a project", value=None,
    )
    consumer: str | None = option(
        "consumerName", STREAM, values.text, "",
        "Name of the cursor the broker keeps for the query: it pins where the query starts, holds retention and "
        "shows lag. A name used before goes on from its cursor.", expects="a name",
    )
    starting: str | dict[str, Any] | None = option(  # noqa: RUF009
        "startingOffsets", READS, values.position, "latest in a stream, earliest in a batch",
        "Where to begin; in JSON -2 is earliest, -1 latest, and a topic that is not named begins at its earliest. "
        "A checkpoint's offsets are taken as they are.", value=None,
    )
    ending: str | dict[str, Any] | None = option(  # noqa: RUF009
        "endingOffsets", BATCH, values.position, "latest",
        "Where to end, exclusive; in JSON -1 is latest, which is also for topics that are not named.",
    )
    starting_time: int | None = option(
        "startingTimestamp", READS, values.instant, "", "Begin with the first message published then or later."
    )
    ending_time: int | None = option(
        "endingTimestamp", BATCH, values.instant, "", "End before the first message published then or later."
    )
    strategy: str = option(
        "startingOffsetsByTimestampStrategy", READS, values.strategy, "error",
        "What to do when nothing was published since startingTimestamp.",
    )
    rows_per_trigger: int = option(
        "maxOffsetsPerTrigger", STREAM, values.count, "1000000",
        "Most messages in a micro-batch, over all topics: a few seconds of work, so that progress and commits stay "
        "frequent in a long backlog.",
    )
    bytes_per_trigger: int = option(
        "maxBytesPerTrigger", STREAM, values.size, "256m",
        "Most stored bytes in a micro-batch: it bounds what the tasks of one batch hold and redo, whatever the "
        "size of messages.",
    )
    rows_wanted: int | None = option(
        "minOffsetsPerTrigger", STREAM, values.count, "",
        "Wait until so many messages are there, at most maxTriggerDelay.",
    )
    delay_seconds: float = option(
        "maxTriggerDelay", STREAM, values.duration, "15m", "How long minOffsetsPerTrigger may hold back messages."
    )
    min_partitions: int | None = option(
        "minPartitions", READS, values.count, "", "At least so many Spark partitions, if there are as many messages."
    )
    rows_per_partition: int | None = option(
        "maxRecordsPerPartition", READS, values.count, "", "Most messages in a Spark partition."
    )
    bytes_per_partition: int = option(
        "maxBytesPerPartition", READS, values.size, "128m",
        "Stored bytes a Spark partition is cut at; topics with less share one.",
    )
    fail_on_loss: bool = option(
        "failOnDataLoss", READS, values.truth, "true",
        "Fail when messages were removed before they were read; false goes on from the earliest there is and "
        "warns.",
    )
    include_attributes: bool = option(
        "includeAttributes", READS, values.truth, "true", "false leaves out the column attributes."
    )
    columns: tuple[str, ...] = option(
        "columns", READS, values.names, "all",
        "The columns to read; Spark cannot push a select down, this does.", value=COLUMNS,
    )
    push_filters: bool = option(
        "pushFilters", BATCH, values.truth, "false",
        "Read only where conditions on offset, topic and publish_time can match; for a DataFrame that is used in "
        "one place, with Spark's switch for it on, see Tuning.",
    )
    retry_seconds: float = option(
        "retryTimeoutSeconds", ALL, values.seconds, "10",
        "How long an unreachable broker is tried before the query fails.",
    )
    token: str | None = option(
        "token", ALL, values.text, "", "Bearer token of the Flight door.", expects="a token", secret=True
    )
    tls: bool = option("tls", ALL, values.truth, "false", "Speak TLS.")
    tls_roots: bytes | None = option(
        "tlsRootCertificates", ALL, values.certificates, "those of the system",
        "Whom to trust; read on the driver.", value=None, secret=True,
    )
    create_topics: bool = option("createTopics", WRITES, values.truth, "false", "Make topics that are not there.")
    transactional: bool = option(
        "transactional", WRITES, values.truth, "false",
        "Stage the rows and publish them when Spark commits the batch: exactly once for plans that give other rows "
        "when run again.",
    )
    rows_per_request: int = option(
        "maxRowsPerRequest", WRITES, values.count, "5000",
        "Most rows published, and made durable, at once; 1 MiB are a request, too.",
    )
    txn_app: str | None = option(
        "txnAppId", WRITES, values.text, "",
        "With txnVersion, of df.write: who writes. A batch whose version is not higher than the last one stored "
        "for this name in the topic is left out, so that foreachBatch can be run again.", expects="a name",
    )
    txn_version: int | None = option(
        "txnVersion", WRITES, values.whole, "", "The number of the batch, as foreachBatch gives it."
    )
    # fmt: on
    given: frozenset[str] = frozenset()  # names, as they are declared

    @property
    def access(self) -> Access:
        return Access(self.endpoint, self.retry_seconds, self.token, self.tls, self.tls_roots)

    @property
    def sink_topic(self) -> str | None:
        return self._full(self.topic) if self.topic else None

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics to read, or nothing if there is a pattern."""
        return tuple(self._full(name) for name in self.topics or ((self.topic,) if self.topic else ()))

    @property
    def many(self) -> bool:
        """Whether more than one topic can be read: their cursors are then named after each."""
        return self.pattern is not None or len(self.source_topics) > 1

    def _full(self, name: str) -> str:
        return f"projects/{self.project}/topics/{name}" if self.project and "/" not in name else name

    def check(self, *uses: Use) -> None:
        """Refuse options that belong to another use; it may not be known yet whether a batch or a stream is read."""
        for name in sorted(self.given):
            allowed = BY_NAME[name.lower()].uses
            if not allowed & set(uses):
                listed = " or a ".join(sorted(each.value for each in allowed))
                use = uses[0].value if len(uses) == 1 else "read"
                raise PenstockError(f"option {name} is for a {listed}, not for a {use}")
        if READS & set(uses):
            self._check_source()
        if uses == (Use.BATCH_READ,):
            self._check_ends()
        if (self.txn_app is None) != (self.txn_version is None):
            raise PenstockError("txnAppId and txnVersion go together; give both or none")

    def _check_source(self) -> None:
        chosen = sorted(self.given & {"topic", "topics", "topicPattern"})
        if len(chosen) != 1:
            said = f"{' and '.join(chosen)} are given" if chosen else "none is given"
            raise PenstockError(f"one of the options topic, topics and topicPattern says what to read; {said}")
        for one, other in (("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp")):
            if {one, other} <= self.given:
                raise PenstockError(f"{one} and {other} are both given; give one of them")

    def _check_ends(self) -> None:
        """A batch that can have no rows, whatever is in the topics, is a mistake."""
        for name, said, word, number in (
            ("startingOffsets", self.starting, "latest", LATEST),
            ("endingOffsets", self.ending, "earliest", EARLIEST),
        ):
            if said == word or (isinstance(said, dict) and number in said.values()):
                raise PenstockError(f"{name} is {word} in a batch read, which then has no rows")
        if self.starting_time is not None and self.ending_time is not None and self.starting_time > self.ending_time:
            raise PenstockError("startingTimestamp is later than endingTimestamp")


TABLE = tuple(Option(each.name, **each.metadata) for each in fields(Options) if each.metadata)
BY_NAME = {option.name.lower(): option for option in TABLE}
BY_ALIAS = {alias.lower(): BY_NAME[name.lower()] for alias, name in ALIASES.items()}


def parse(raw: Mapping[str, Any]) -> Options:
    """The record of these options; what is unknown, mistyped or given twice is refused by name."""
    found: dict[str, Any] = {}
    said: dict[str, str] = {}
    for written, value in raw.items():
        key = written.lower()
        if key in SPARKS_OWN or key.startswith("option."):  # a catalog says the options of a table twice
            continue
        option = BY_NAME.get(key) or BY_ALIAS.get(key) or _refuse_name(written)
        if option.name in said:
            raise PenstockError(f"option {option.name} is given twice, as {said[option.name]} and as {written}")
        said[option.name] = written
        found[option.field] = _value(option, str(value))
    return Options(**_chosen_columns(found), given=frozenset(said))


def _value(option: Option, value: str) -> Any:
    try:
        return option.read(value)
    except ValueError:
        shown = "it" if option.secret else repr(value)
        raise PenstockError(f"option {option.name} must be {option.expects}; {shown} is not") from None


def _refuse_name(written: str) -> Option:
    if written.lower() in FOREIGN or written.lower().startswith("kafka."):
        hint = FOREIGN.get(written.lower(), "options of Kafka's clients mean nothing here")
        raise PenstockError(f"unknown option {written}; {hint}")
    known = {name.lower(): name for name in (*(option.name for option in TABLE), *ALIASES)}
    near = difflib.get_close_matches(written.lower(), known, 1, 0.6)
    hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(option.name for option in TABLE)}"
    raise PenstockError(f"unknown option {written}; {hint}")


def _chosen_columns(found: dict[str, Any]) -> dict[str, Any]:
    chosen = found.get("columns", COLUMNS)
    for name in chosen:
        if name not in COLUMNS:
            raise PenstockError(f"option columns names {name!r}; there are {', '.join(COLUMNS)}")
    without = found.get("include_attributes", True) is False
    if without and "columns" in found and "attributes" in chosen:
        raise PenstockError("option columns names attributes, and includeAttributes is false")
    kept = tuple(name for name in COLUMNS if name in chosen and not (without and name == "attributes"))
    return found | {"columns": kept}
