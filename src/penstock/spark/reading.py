"""From the text of a pipeline file to records.

    [pipeline]            name, endpoint, state
    [spark]               confs, handed to Spark as they are
    [flows.NAME]          from, sql | sql_file | python, to, trigger, ...   or   use = "archive" and its own keys

The rule kept here: everything that can be known from the file and the files beside it is checked here, and told at
once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import InvalidArgumentError
from penstock.spark.problems import Problems, nearest, read_table, shown
from penstock.spark.records import (
    AVAILABLE_NOW,
    READY_MADE,
    Flow,
    FlowTable,
    Pipeline,
    PipelineTable,
    Plain,
    Replay,
    Source,
    SourceTable,
    TargetTable,
    TopicsText,
    Trigger,
)

SECTIONS = ("pipeline", "spark", "flows")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)")
MILLISECONDS = {"ms": 1, "mi": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
SINKS = ("topic", "parquet", "delta", "console")
PATH_KEYS = ("lake", "folder")
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
    table: dict[str, Any] = {"use": use}
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals:
            raise InvalidArgumentError(f'--set takes key=value, not "{each}"')
        table[key.strip()] = _value(value.strip(), listed=key.strip() in {"topics", "only"})
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
            problems.tell("", f'unknown section "{key}"{nearest(key, SECTIONS)}')
    head = read_table(content.get("pipeline", {}), PipelineTable, "pipeline", problems) or PipelineTable()
    pipeline_name = head.name if head.name is not None else _as_name(name)
    if not NAME.fullmatch(pipeline_name):
        problems.tell("pipeline: name", f'"{pipeline_name}" may hold letters, digits, "-" and "_" only')
    state = absolute(head.state, folder)
    confs = _confs(content.get("spark", {}), problems)
    flows = _flows(content.get("flows"), folder, state, problems)
    _refuse_shared_places(flows, problems)
    pipeline = Pipeline(
        name=pipeline_name,
        folder=str(folder),
        endpoint=head.endpoint,
        state=state,
        spark=confs,
        flows=tuple(flows),
    )
    return (None if problems else pipeline), problems.sentences


def absolute(path: str, folder: Path) -> str:
    """A path as it is if it names a file system (s3a://...), else absolute, from the file's folder on."""
    return path if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) else str(folder / Path(path).expanduser())


def _as_name(text: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")
    return cleaned if NAME.fullmatch(cleaned) else f"pipeline-{cleaned}".rstrip("-")


def _confs(values: object, problems: Problems) -> dict[str, str]:
    if not isinstance(values, dict):
        problems.tell("spark", f"expected a table of confs, got {shown(values)}")
        return {}
    confs: dict[str, str] = {}
    for key, value in _flattened(values):
        if not key.startswith("spark."):
            problems.tell("spark", f'"{key}" is not a conf of Spark; their names begin with "spark."')
        confs[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return confs


def _flattened(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Dotted names: TOML reads `spark.ui.enabled = true` without quotes as tables in tables."""
    pairs: list[tuple[str, object]] = []
    for key, value in values.items():
        pairs += _flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return pairs


def _flows(values: object, folder: Path, state: str, problems: Problems) -> list[Flow]:
    if not isinstance(values, dict) or not values:
        problems.tell("", "there are no flows; begin one with [flows.NAME]")
        return []
    found = [_flow(name, table, folder, state, problems) for name, table in values.items()]
    return [flow for flow in found if flow is not None]


def _flow(name: str, values: object, folder: Path, state: str, problems: Problems) -> Flow | None:
    where = f"flow {name}"
    if not NAME.fullmatch(name):
        problems.tell(where, 'a name may hold letters, digits, "-" and "_" only and begins with a letter')
    if not isinstance(values, dict):
        problems.tell(where, f"expected a table, got {shown(values)}")
        return None
    values = dict(values)
    use = values.pop("use", None)
    if use is not None and use not in READY_MADE:
        problems.tell(where, f"use: there is no ready-made flow {shown(use)}{nearest(str(use), READY_MADE)}")
        return None
    table: FlowTable | None = read_table(values, READY_MADE[use] if use else Plain, where, problems)
    if table is None:
        return None
    for key in PATH_KEYS:
        if hasattr(table, key):
            setattr(table, key, absolute(getattr(table, key), folder))
    flow = Flow(
        name=name,
        use=use,
        table=table,
        source=_source(table, where, problems),
        trigger=_trigger(table, where, problems),
        target=_target(table, folder, where, problems) if isinstance(table, Plain) else None,
        checkpoint=absolute(table.checkpoint, folder) if table.checkpoint else f"{state}/{name}",
        sql=_sql(table, folder, where, problems) if isinstance(table, Plain) else None,
    )
    _refuse_circle(flow, where, problems)
    return flow


def _refuse_circle(flow: Flow, where: str, problems: Problems) -> None:
    """A flow that reads what it writes never ends."""
    written = flow.target.topic if flow.target is not None else getattr(flow.table, "topic", None)
    if not written or isinstance(flow.table, Replay):
        return
    full = written if "/" in written else f"projects/{DEFAULT_PROJECT}/topics/{written}"
    names = {full, full.removeprefix(f"projects/{DEFAULT_PROJECT}/topics/")}  # a pattern may mean either
    pattern = flow.source.pattern
    matched = bool(pattern) and not problems and any(re.fullmatch(pattern or "", name) for name in names)
    if written in flow.source.topics or matched:
        problems.tell(where, f"it reads {written}, which it also writes to")


def _source(table: FlowTable, where: str, problems: Problems) -> Source:
    plain = isinstance(table, Plain)
    given: TopicsText | None = getattr(table, "source", None) or getattr(table, "topics", None)
    key = f"{where}: {'from' if plain else 'topics'}"
    if isinstance(given, dict):
        read = read_table(given, SourceTable, key, problems)
        if read is None:
            return Source()
        if (read.pattern is None) == (read.format is None) or (read.format and not plain):
            problems.tell(key, 'give a topic, a list of them or { pattern = "..." }')
        _check_pattern(read.pattern, key, problems)
        return Source(pattern=read.pattern, format=read.format)
    topics = (given,) if isinstance(given, str) else tuple(given or ())
    if (not topics and hasattr(table, "source" if plain else "topics")) or not all(topics):
        problems.tell(key, "a topic needs a name")
    return Source(topics=topics)


def _check_pattern(pattern: str | None, where: str, problems: Problems) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        problems.tell(where, f'"{pattern}" is not a regular expression: {error}')


def _trigger(table: FlowTable, where: str, problems: Problems) -> Trigger:
    text = table.trigger.strip()
    if text == AVAILABLE_NOW:
        return Trigger()
    if text == "once":
        return Trigger(once=True)
    match = INTERVAL.fullmatch(text)
    if not match:
        problems.tell(
            f"{where}: trigger",
            f'"{text}" is none; give "available-now", "once" or a time such as "10s" or "5 minutes"',
        )
        return Trigger()
    number, unit = match.groups()
    scale = 1 if unit.startswith(("ms", "milli")) else MILLISECONDS[unit[0]]
    return Trigger(milliseconds=int(float(number) * scale))


def _target(table: Plain, folder: Path, where: str, problems: Problems) -> TargetTable | None:
    values = {"topic": table.to} if isinstance(table.to, str) else table.to
    where = f"{where}: to"
    target = read_table(values, TargetTable, where, problems)
    if target is None:
        return None
    chosen = [name for name in SINKS if getattr(target, name)]
    if len(chosen) != 1:
        problems.tell(where, f"give exactly one of {', '.join(SINKS)}, not {' and '.join(chosen) or 'none'}")
    if target.partition_by and not (target.parquet or target.delta):
        problems.tell(where, "partition_by is for parquet and delta")
    target.parquet = absolute(target.parquet, folder) if target.parquet else None
    target.delta = absolute(target.delta, folder) if target.delta else None
    return target


def _sql(table: Plain, folder: Path, where: str, problems: Problems) -> str | None:
    ways = [key for key in ("sql", "sql_file", "python") if getattr(table, key) is not None]
    if len(ways) > 1:
        problems.tell(where, f"give one of {' and '.join(ways)}, not all of them")
    if table.python is not None and not re.fullmatch(r".+:\w+", table.python):
        problems.tell(f"{where}: python", f'"{table.python}" is neither "module:function" nor "file.py:function"')
    text = table.sql
    if table.sql_file is not None:
        try:
            text = (folder / table.sql_file).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            problems.tell(f"{where}: sql_file", f"cannot read {table.sql_file}: {getattr(error, 'strerror', error)}")
            return None
    if text is not None and not re.search(r"\bsource\b", text, re.IGNORECASE):
        problems.tell(f"{where}: {'sql_file' if table.sql_file else 'sql'}", "it reads nothing; select FROM source")
    return text


def _refuse_shared_places(flows: list[Flow], problems: Problems) -> None:
    """Two flows that keep their progress or their files in one folder would take each other's for their own."""
    seen: dict[tuple[str, str], str] = {}
    for flow in flows:
        folders = {"checkpoint": flow.checkpoint}
        if flow.target is not None and flow.target.parquet:
            folders["folder"] = flow.target.parquet
        elif flow.use in ("archive", "insights", "dead-letters"):
            folders["folder"] = flow.where
        for what, place in folders.items():
            first = seen.setdefault((what, place), flow.name)
            if first != flow.name:
                problems.tell(f"flow {flow.name}", f"its {what} {place} is that of flow {first}; give each its own")
