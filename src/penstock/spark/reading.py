"""From the text of a pipeline file to records.

    [pipeline]            name, endpoint, state
    [spark]               confs, handed to Spark as they are
    [flows.NAME]          from, sql | sql_file | python, to, trigger, ...   or   use = "archive" and its own keys

Everything that can be known from the file and the files beside it is checked here, and reported at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from penstock.errors import InvalidArgumentError
from penstock.spark.flows import READY_MADE, kind_of
from penstock.spark.flows.kind import absolute
from penstock.spark.problems import Problems, nearest, read_table, shown
from penstock.spark.records import Flow, Pipeline, PipelineTable, Trigger, option_texts

SECTIONS = ("pipeline", "spark", "flows")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)")
MILLISECONDS = {"ms": 1, "mi": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
DEFAULT_PROJECT = "penstock"  # of a broker with its own settings


def read_pipeline(path: str, changes: Mapping[str, str] = {}) -> tuple[Pipeline | None, list[str]]:
    """The pipeline of a file, or everything that is wrong with it; `changes` replace keys of [pipeline]."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the pipeline file {path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not even text
        raise InvalidArgumentError(f"the pipeline file {path} is not valid TOML: {error}") from error
    head = content.get("pipeline", {})
    if changes and isinstance(head, dict):
        content["pipeline"] = head | dict(changes)
    return build_pipeline(content, folder=Path(path).resolve().parent, name=Path(path).stem)


def choose(pipeline: Pipeline, only: list[str]) -> Pipeline:
    """The pipeline with these flows alone, or with all of them if none is named."""
    names = [flow.name for flow in pipeline.flows]
    for name in only:
        if name not in names:
            raise InvalidArgumentError(f'there is no flow "{name}"{nearest(name, names)}')
    if not only:
        return pipeline
    return msgspec.structs.replace(pipeline, flows=tuple(flow for flow in pipeline.flows if flow.name in only))


def ready_made(use: str, settings: list[str], pipeline: Mapping[str, object]) -> tuple[Pipeline | None, list[str]]:
    """The pipeline of one ready-made flow, given as `key=value` texts."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind_of(use))}
    lists = {key for key, field in fields.items() if list in [get_origin(each) for each in get_args(field.type)]}
    table: dict[str, Any] = {"use": use}
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals:
            raise InvalidArgumentError(f'--set takes key=value, not "{each}"')
        table[key.strip()] = _value(value.strip(), listed=key.strip() in lists)
    content = {"pipeline": {"name": use, **pipeline}, "flows": {use: table}}
    return build_pipeline(content, folder=Path.cwd(), name=use)


def _value(text: str, *, listed: bool) -> object:
    """A value as TOML would read it, else the text itself; topics may be joined with commas."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.split(",") if listed and "," in text else text


def build_pipeline(content: Mapping[str, object], *, folder: Path, name: str) -> tuple[Pipeline | None, list[str]]:
    problems = Problems()
    for key in content:
        if key not in SECTIONS:
            problems.add("", f'unknown section "{key}"{nearest(key, SECTIONS)}')
    head = read_table(content.get("pipeline", {}), PipelineTable, "pipeline", problems) or PipelineTable()
    pipeline_name = head.name if head.name is not None else _as_name(name)
    if not NAME.fullmatch(pipeline_name):
        problems.add("pipeline: name", f'"{pipeline_name}" may hold letters, digits, "-" and "_" only')
    state = absolute(head.state, folder)
    confs = _confs(content.get("spark", {}), problems)
    tables = content.get("flows")
    if not isinstance(tables, dict) or not tables:
        problems.add("", "there are no flows; begin one with [flows.NAME]")
        tables = {}
    read = [_flow(each, table, folder, state, problems) for each, table in tables.items()]
    flows = tuple(flow for flow in read if flow is not None)
    _refuse_shared_places(flows, problems)
    pipeline = Pipeline(
        name=pipeline_name, folder=str(folder), endpoint=head.endpoint, state=state, spark=confs, flows=flows
    )
    return (None if problems else pipeline), problems.sentences


def _as_name(text: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")
    return cleaned if NAME.fullmatch(cleaned) else f"pipeline-{cleaned}".rstrip("-")


def _confs(values: object, problems: Problems) -> dict[str, str]:
    if not isinstance(values, dict):
        problems.add("spark", f"expected a table of confs, got {shown(values)}")
        return {}
    confs = option_texts(_flattened(values))
    for key in confs:
        if not key.startswith("spark."):
            problems.add("spark", f'"{key}" is not a conf of Spark; their names begin with "spark."')
    return confs


def _flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted names: TOML reads `spark.ui.enabled = true` without quotes as tables in tables."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _flow(name: str, values: object, folder: Path, state: str, problems: Problems) -> Flow | None:
    where = f"flow {name}"
    if not NAME.fullmatch(name):
        problems.add(where, 'a name may hold letters, digits, "-" and "_" only and begins with a letter')
    if not isinstance(values, dict):
        problems.add(where, f"expected a table, got {shown(values)}")
        return None
    values = dict(values)
    use = values.pop("use", None)
    if use is not None and use not in READY_MADE:
        problems.add(where, f"use: there is no ready-made flow {shown(use)}{nearest(str(use), READY_MADE)}")
        return None
    kind = read_table(values, kind_of(use), where, problems)
    if kind is None:
        return None
    flow = Flow(
        name=name,
        kind=kind,
        source=kind.read_source(where, problems),
        trigger=_trigger(kind.trigger.strip(), where, problems),
        checkpoint=absolute(kind.checkpoint, folder) if kind.checkpoint else f"{state}/{name}",
    )
    kind.resolve(folder, where, problems)
    _refuse_circle(flow, where, problems)
    return flow


def _refuse_circle(flow: Flow, where: str, problems: Problems) -> None:
    """A flow that reads what it writes never ends."""
    written = flow.kind.output.topic
    if not written:
        return
    full = written if "/" in written else f"projects/{DEFAULT_PROJECT}/topics/{written}"
    names = {full, full.removeprefix(f"projects/{DEFAULT_PROJECT}/topics/")}  # a pattern may mean either
    pattern = flow.source.pattern
    matched = bool(pattern) and not problems and any(re.fullmatch(pattern or "", name) for name in names)
    if written in flow.source.topics or matched:
        problems.add(where, f"it reads {written}, which it also writes to")


def _trigger(text: str, where: str, problems: Problems) -> Trigger:
    if text in ("available-now", "once"):
        return Trigger(once=text == "once")
    match = INTERVAL.fullmatch(text)
    if not match:
        problems.add(
            f"{where}: trigger",
            f'"{text}" is none; give "available-now", "once" or a time such as "10s" or "5 minutes"',
        )
        return Trigger()
    number, unit = match.groups()
    scale = 1 if unit.startswith(("ms", "milli")) else MILLISECONDS[unit[0]]
    return Trigger(milliseconds=int(float(number) * scale))


def _refuse_shared_places(flows: Iterable[Flow], problems: Problems) -> None:
    """Two flows that keep their progress or their files in one folder would take each other's for their own."""
    seen: dict[tuple[str, str], str] = {}
    for flow in flows:
        for what, place in (("checkpoint", flow.checkpoint), ("folder", flow.kind.output.folder)):
            first = seen.setdefault((what, place), flow.name) if place else flow.name
            if first != flow.name:
                problems.add(f"flow {flow.name}", f"its {what} {place} is that of flow {first}; give each its own")
