"""Every option there is, and one frozen record of what was asked for.

The rule kept here: nothing is ignored. An option that is not in the table, is written wrongly, or belongs to another
use of the source is refused by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_penstock.errors import PenstockError
from pyspark_penstock.schema import COLUMNS
from pyspark_penstock.table import READS, TABLE, Option, Use
from pyspark_penstock.values import EARLIEST, LATEST

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
SPARKS_OWN = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "outputmode",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
        # of a table in its catalog
        "provider",
        "owner",
        "location",
        "comment",
        "collation",
        "external",
        "is_managed_location",
    }
)
BY_NAME = {option.name.lower(): option for option in TABLE}
BY_ALIAS = {alias.lower(): BY_NAME[name.lower()] for alias, name in ALIASES.items()}


@dataclass(frozen=True)
class Access:
    """How to reach the broker."""

    endpoint: str
    retry_seconds: float
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_roots: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Options:
    """What was asked for; a field that is None was left out and has no default."""

    endpoint: str = "127.0.0.1:8815"
    topic: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    project: str | None = None
    consumer: str | None = None
    starting: str | dict[str, Any] | None = None
    ending: str | dict[str, Any] | None = None
    starting_time: int | None = None
    ending_time: int | None = None
    strategy: str = "error"
    rows_per_trigger: int = 1_000_000
    bytes_per_trigger: int = 256 << 20
    rows_wanted: int | None = None
    delay_seconds: float = 15 * 60
    min_partitions: int | None = None
    rows_per_partition: int | None = None
    bytes_per_partition: int = 128 << 20
    fail_on_loss: bool = True
    include_attributes: bool = True
    columns: tuple[str, ...] = COLUMNS
    push_filters: bool = False
    retry_seconds: float = 10.0
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_roots: bytes | None = field(default=None, repr=False)
    create_topics: bool = False
    transactional: bool = False
    rows_per_request: int = 5_000
    txn_app: str | None = None
    txn_version: int | None = None
    given: frozenset[str] = frozenset()  # names, as in the table

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

    def check(self, use: Use) -> None:
        """Refuse options that belong to another use."""
        for name in sorted(self.given):
            uses = BY_NAME[name.lower()].uses
            if use not in uses:
                raise PenstockError(f"option {name} is for a {_listed(uses)}, not for a {use.value}")
        if use in READS:
            self._check_source()
        if use is Use.BATCH_READ:
            self._check_ends()
        if (self.txn_app is None) != (self.txn_version is None):
            raise PenstockError("txnAppId and txnVersion go together; give both or none")

    def check_read(self) -> None:
        """The same, while it is not known yet whether a batch or a stream is read."""
        for name in sorted(self.given):
            if not BY_NAME[name.lower()].uses & READS:
                raise PenstockError(f"option {name} is for a write, not for a read")
        self._check_source()

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
        shown = "it" if option.field in {"token", "tls_roots"} else repr(value)
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


def _listed(uses: frozenset[Use]) -> str:
    return " or a ".join(sorted(use.value for use in uses))
