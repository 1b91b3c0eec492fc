"""The reader of a pipeline file.

    [pipeline]            name, endpoint, state
    [spark]               configuration, passed to Spark unchanged
    [flows.NAME]          from, sql | sql_file | python, to, trigger, ...   or   use = "archive" and its own keys

It checks all that can be checked with the file and the files next to it, and reports all problems at once.
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
from penstock.spark.problems import Problems, nearest, read_table, show_value
from penstock.spark.records import Flow, Pipeline, PipelineTable, Trigger, option_texts

SECTIONS = ("pipeline", "spark", "flows")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)")
MILLISECONDS = {"ms": 1, "mi": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
DEFAULT_PROJECT = "penstock"  # of a broker with default settings


def read_pipeline(path: str, changes: Mapping[str, str] = {}) -> tuple[Pipeline | None, list[str]]:
    """Read a file. Return its pipeline, or None, and all problems. `changes` replace keys of [pipeline]."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the pipeline file {path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not text
        raise InvalidArgumentError(f"the pipeline file {path} is not valid TOML: {error}") from error
    except RecursionError:
        raise InvalidArgumentError(f"the pipeline file {path} is not valid TOML: it is nested too deeply") from None
    head = content.get("pipeline", {})
    if changes and isinstance(head, dict):
        content["pipeline"] = head | dict(changes)
    return build_pipeline(content, folder=Path(path).resolve().parent, name=Path(path).stem)


def choose(pipeline: Pipeline, only: list[str]) -> Pipeline:
    """Return the pipeline with only these flows, or with all flows if `only` is empty."""
    names = [flow.name for flow in pipeline.flows]
    for name in only:
        if name not in names:
            raise InvalidArgumentError(f'unknown flow "{name}"{nearest(name, names)}')
    if not only:
        return pipeline
    return msgspec.structs.replace(pipeline, flows=tuple(flow for flow in pipeline.flows if flow.name in only))


def ready_made(use: str, settings: list[str], pipeline: Mapping[str, object]) -> tuple[Pipeline | None, list[str]]:
    """Return the pipeline of one ready-made flow, or None, and all problems. `settings` are `key=value` texts."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind_of(use))}
    lists = {key for key, field in fields.items() if list in [get_origin(member) for member in get_args(field.type)]}
    table: dict[str, Any] = {"use": use}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InvalidArgumentError(f'--set takes key=value, not "{setting}"')
        table[key.strip()] = _parse_value(value.strip(), listed=key.strip() in lists)
    content = {"pipeline": {"name": use, **pipeline}, "flows": {use: table}}
    return build_pipeline(content, folder=Path.cwd(), name=use)


def _parse_value(text: str, *, listed: bool) -> object:
    """Parse a value as TOML, or else return the text itself. `listed`: split the text at commas."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text.split(",") if listed and "," in text else text


def build_pipeline(content: Mapping[str, object], *, folder: Path, name: str) -> tuple[Pipeline | None, list[str]]:
    problems = Problems()
    for key in content:
        if key not in SECTIONS:
            problems.add("", f'unknown section "{key}"{nearest(key, SECTIONS)}')
    head = read_table(content.get("pipeline", {}), PipelineTable, "pipeline", problems) or PipelineTable()
    pipeline_name = head.name if head.name is not None else _as_name(name)
    if not NAME.fullmatch(pipeline_name):
        problems.add("pipeline: name", f'"{pipeline_name}" may contain only letters, digits, "-" and "_"')
    state = absolute(head.state, folder)
    confs = _read_confs(content.get("spark", {}), problems)
    tables = content.get("flows")
    if not isinstance(tables, dict) or not tables:
        problems.add("", "the file has no flows; add one with [flows.NAME]")
        tables = {}
    read = [_read_flow(flow_name, table, folder, state, problems) for flow_name, table in tables.items()]
    flows = tuple(flow for flow in read if flow is not None)
    _refuse_shared_folders(flows, problems)
    pipeline = Pipeline(
        name=pipeline_name, folder=str(folder), endpoint=head.endpoint, state=state, spark=confs, flows=flows
    )
    return (None if problems else pipeline), problems.sentences


def _as_name(text: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")
    return cleaned if NAME.fullmatch(cleaned) else f"pipeline-{cleaned}".rstrip("-")


def _read_confs(values: object, problems: Problems) -> dict[str, str]:
    if not isinstance(values, dict):
        problems.add("spark", f"expected a table, got {show_value(values)}")
        return {}
    confs = option_texts(_flatten(values))
    for key in confs:
        if not key.startswith("spark."):
            problems.add("spark", f'"{key}" is not a configuration key of Spark; its keys start with "spark."')
    return confs


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted keys, because TOML reads an unquoted `spark.ui.enabled = true` as nested tables."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _read_flow(name: str, values: object, folder: Path, state: str, problems: Problems) -> Flow | None:
    where = f"flow {name}"
    if not NAME.fullmatch(name):
        problems.add(where, 'a name may contain only letters, digits, "-" and "_", and must start with a letter')
    if not isinstance(values, dict):
        problems.add(where, f"expected a table, got {show_value(values)}")
        return None
    values = dict(values)
    use = values.pop("use", None)
    if use is not None and use not in READY_MADE:
        problems.add(where, f"use: unknown ready-made flow {show_value(use)}{nearest(str(use), READY_MADE)}")
        return None
    kind = read_table(values, kind_of(use), where, problems)
    if kind is None:
        return None
    flow = Flow(
        name=name,
        kind=kind,
        source=kind.read_source(where, problems),
        trigger=_read_trigger(kind.trigger.strip(), where, problems),
        checkpoint=absolute(kind.checkpoint, folder) if kind.checkpoint else f"{state}/{name}",
    )
    kind.resolve(folder, where, problems)
    _refuse_circle(flow, where, problems)
    return flow


def _refuse_circle(flow: Flow, where: str, problems: Problems) -> None:
    """Refuse a flow that reads the topic it writes, because it would never end."""
    written = flow.kind.output.topic
    if not written:
        return
    full = written if "/" in written else f"projects/{DEFAULT_PROJECT}/topics/{written}"
    names = {full, full.removeprefix(f"projects/{DEFAULT_PROJECT}/topics/")}  # a pattern may match either
    pattern = flow.source.pattern
    matched = bool(pattern) and not problems and any(re.fullmatch(pattern or "", name) for name in names)
    if written in flow.source.topics or matched:
        problems.add(where, f"it reads and writes the same topic, {written}")


def _read_trigger(text: str, where: str, problems: Problems) -> Trigger:
    if text in ("available-now", "once"):
        return Trigger(once=text == "once")
    match = INTERVAL.fullmatch(text)
    if not match:
        problems.add(
            f"{where}: trigger",
            f'"{text}" is invalid; use "available-now", "once" or an interval such as "10s" or "5 minutes"',
        )
        return Trigger()
    number, unit = match.groups()
    scale = 1 if unit.startswith(("ms", "milli")) else MILLISECONDS[unit[0]]
    return Trigger(milliseconds=int(float(number) * scale))


def _refuse_shared_folders(flows: Iterable[Flow], problems: Problems) -> None:
    """Refuse two flows with the same checkpoint or output folder, because each would use the other's files."""
    seen: dict[tuple[str, str], str] = {}
    for flow in flows:
        for use, path in (("checkpoint", flow.checkpoint), ("folder", flow.kind.output.folder)):
            first = seen.setdefault((use, path), flow.name) if path else flow.name
            if first != flow.name:
                problems.add(f"flow {flow.name}", f"its {use} {path} is also used by flow {first}; set another one")
