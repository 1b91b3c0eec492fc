"""What a pipeline file says, as typed records.

The rule kept here: records hold values that were checked and paths that were made absolute; nobody behind this module
looks at TOML again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

TopicsText: TypeAlias = str | list[str] | dict[str, str]  # "orders", ["orders", "refunds"] or { pattern = "..." }
Option: TypeAlias = str | int | float | bool

DEFAULT_ENDPOINT = "127.0.0.1:8815"
DEFAULT_STATE = "penstock-pipeline"
AVAILABLE_NOW = "available-now"


class Record(msgspec.Struct):
    """A table of the file; a field's name is its key."""


class PipelineTable(Record, kw_only=True):
    name: str | None = None  # default: the file's name
    endpoint: str = DEFAULT_ENDPOINT
    state: str = DEFAULT_STATE  # checkpoints and logs; relative to the file


class SourceTable(Record, kw_only=True):
    pattern: str | None = None  # a regular expression for whole topic names
    format: str | None = None  # any streaming format of Spark's instead of topics; it takes the flow's options


class TargetTable(Record, kw_only=True):
    topic: str | None = None
    parquet: str | None = None
    delta: str | None = None
    console: bool | None = None
    partition_by: list[str] = []  # of parquet and delta
    options: dict[str, Option] = {}  # handed to the sink


class FlowTable(Record, kw_only=True):
    """What every flow has."""

    trigger: str = AVAILABLE_NOW
    checkpoint: str | None = None
    options: dict[str, Option] = {}  # of the source


class Plain(FlowTable, kw_only=True):
    source: TopicsText = msgspec.field(name="from")
    to: str | dict[str, Any]
    sql: str | None = None
    sql_file: str | None = None
    python: str | None = None
    mode: Literal["append", "update", "complete"] = "append"
    watermark: str | None = None  # how late publish_time may be, for aggregates


class Archive(FlowTable, kw_only=True):
    """topics -> a Parquet lake, partitioned by topic and day"""

    topics: TopicsText
    lake: str


class Replay(FlowTable, kw_only=True):
    """a Parquet lake -> a topic, in order, each message once"""

    lake: str
    topic: str
    only: str | list[str] = []  # topics of the lake; default: all
    since: datetime | None = None  # of the publish time; a day is its midnight in UTC
    until: datetime | None = None  # exclusive


class Insights(FlowTable, kw_only=True):
    """topics -> rates, sizes and latencies per minute, as Parquet and to a topic"""

    topics: TopicsText
    folder: str
    topic: str | None = None
    time_attribute: str | None = None  # holds the producer's time: RFC 3339, or milliseconds since 1970


class DeadLetters(FlowTable, kw_only=True):
    """dead letter topics -> who failed, how often, when, with samples, as Parquet"""

    topics: TopicsText
    folder: str
    reason_attribute: str | None = None  # if the application says in one why it failed


READY_MADE: dict[str, type[FlowTable]] = {
    "archive": Archive,
    "replay": Replay,
    "insights": Insights,
    "dead-letters": DeadLetters,
}


class Source(msgspec.Struct, frozen=True):
    """Where rows come from: exactly one of the three."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    format: str | None = None

    def __str__(self) -> str:
        return self.pattern or self.format or ", ".join(self.topics)


class Trigger(msgspec.Struct, frozen=True):
    milliseconds: int | None = None  # None: take what is there and end
    once: bool = False  # in one micro-batch, whatever the limits say


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    use: str | None  # the ready-made flow, None for one of the user's own
    table: FlowTable
    source: Source
    trigger: Trigger
    target: TargetTable | None  # of the user's own flows
    checkpoint: str
    sql: str | None = None  # from `sql` or `sql_file`

    @property
    def where(self) -> str:
        """What a user calls the place the rows go to."""
        table = self.table
        if isinstance(table, Replay):
            return f"topic {table.topic}"
        if self.target is None:
            return str(table.lake if isinstance(table, Archive) else getattr(table, "folder", ""))
        target = self.target
        return target.parquet or target.delta or (f"topic {target.topic}" if target.topic else "console")


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    folder: str  # of the file: what Python files are relative to
    endpoint: str
    state: str
    spark: dict[str, str]
    flows: tuple[Flow, ...]

    def consumer(self, flow: Flow) -> str:
        """The name of the flow's cursor on the broker."""
        return str(flow.table.options.get("consumerName", f"{self.name}-{flow.name}"))
