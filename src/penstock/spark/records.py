"""The typed records of a pipeline, with checked values and absolute paths."""

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
    state: str = "penstock-pipeline"  # folder of checkpoints and logs, relative to the file


class Source(msgspec.Struct, frozen=True):
    """The streaming source of a flow. At most one field is set; none if the flow does not read a stream."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None  # regular expression of topic names
    format: str | None = None  # another streaming format of Spark

    def __str__(self) -> str:
        return self.pattern or self.format or ", ".join(self.topics)


class Trigger(msgspec.Struct, frozen=True):
    milliseconds: int | None = None  # interval; None: process the available messages and end
    once: bool = False  # True: in one micro-batch, without limits


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: FlowKind  # the flow's keys and behaviour
    source: Source
    trigger: Trigger
    checkpoint: str

    @property
    def where(self) -> str:
        """The flow's output, as shown to the user."""
        return str(self.kind.output)


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    folder: str  # the file's folder, which Python files are relative to
    endpoint: str
    state: str
    spark: dict[str, str]
    flows: tuple[Flow, ...]

    def consumer(self, flow: Flow) -> str:
        """Return the name of the flow's cursor on the broker."""
        return str(flow.kind.options.get("consumerName", f"{self.name}-{flow.name}"))

    def source_options(self, flow: Flow) -> dict[str, str]:
        """Return the options of the source. The user's options replace ours."""
        given, source = option_texts(flow.kind.options), flow.source
        if source.format:
            return given
        options = {"endpoint": self.endpoint, "consumerName": self.consumer(flow)}
        if source.pattern:
            options["topicPattern"] = source.pattern
        else:
            options["topic" if len(source.topics) == 1 else "topics"] = ",".join(source.topics)
        if not any(key.lower().startswith("starting") for key in given):  # otherwise the user's option sets the start
            options["startingOffsets"] = "earliest"
        if flow.kind.columns:
            options["columns"] = ",".join(flow.kind.columns)
        return options | given

    def sink_options(self, topic: str, given: Mapping[str, Option]) -> dict[str, str]:
        return {"endpoint": self.endpoint, "topic": topic, "createTopics": "true"} | option_texts(given)


def option_texts(given: Mapping[str, Option]) -> dict[str, str]:
    """Return options as texts, as Spark takes them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}
