"""A pipeline as typed records: values that were checked, paths that were made absolute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from penstock.spark.flows.kind import FlowKind

Option: TypeAlias = str | int | float | bool


class PipelineTable(msgspec.Struct, kw_only=True):
    """The keys of [pipeline]."""

    name: str | None = None  # default: the file's name
    endpoint: str = "127.0.0.1:8815"
    state: str = "penstock-pipeline"  # checkpoints and logs; relative to the file


class Source(msgspec.Struct, frozen=True):
    """Where rows come from: one of the three, or none if the flow reads something else."""

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
    kind: FlowKind  # its own keys, and what it does
    source: Source
    trigger: Trigger
    checkpoint: str

    @property
    def where(self) -> str:
        """What a user calls the place the rows go to."""
        return str(self.kind.output)


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    folder: str  # of the file: what Python files are relative to
    endpoint: str
    state: str
    spark: dict[str, str]
    flows: tuple[Flow, ...]

    def consumer(self, flow: Flow) -> str:
        """The name of the flow's cursor on the broker."""
        return str(flow.kind.options.get("consumerName", f"{self.name}-{flow.name}"))

    def source_options(self, flow: Flow) -> dict[str, str]:
        """The options of the source: ours, then the user's."""
        given, source = option_texts(flow.kind.options), flow.source
        if source.format:
            return given
        options = {"endpoint": self.endpoint, "consumerName": self.consumer(flow)}
        if source.pattern:
            options["topicPattern"] = source.pattern
        else:
            options["topic" if len(source.topics) == 1 else "topics"] = ",".join(source.topics)
        if not any(key.lower().startswith("starting") for key in given):  # else the user says where to begin
            options["startingOffsets"] = "earliest"
        if flow.kind.columns:
            options["columns"] = ",".join(flow.kind.columns)
        return options | given

    def sink_options(self, topic: str, given: Mapping[str, Option]) -> dict[str, str]:
        return {"endpoint": self.endpoint, "topic": topic, "createTopics": "true"} | option_texts(given)


def option_texts(given: Mapping[str, Option]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}
