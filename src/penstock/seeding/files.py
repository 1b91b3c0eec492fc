"""The reader of seed files: our own TOML and JSON, and the formats of other tools (emulators/seeds.py)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.emulators.seeds import Foreign, from_variables, names_topics
from penstock.seeding.document_reader import check_parts
from penstock.seeding.lines import Lines, json_lines, toml_lines
from penstock.seeding.source import Source
from penstock.seeding.topology import SeedError

ENVIRONMENT = "env"  # instead of a file: read the variables of other emulators
AUTO = "auto"  # instead of a file: read our default file, or else these variables, if they exist
OWN_DEFAULT = "/etc/penstock/seed.toml"
STANDARD_INPUT = "-"
CONFIG, CONFIG_DEFAULT = "PUBSUBC_CONFIG", "/etc/pubsubc/config.json"
BYTES_MAX = 16 << 20
TOO_DEEP = "values are nested too deeply"

_TOML_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)
_SUFFIXES = {".toml": ".toml", ".json": ".json", ".env": ".env", ".yaml": ".yaml", ".yml": ".yaml"}
_BEGINS = {  # first characters; a TOML table begins with [name] or [[name]], and our keys are in lower case
    ".json": re.compile(r"\s*(?:\{|\[\s*[{\]])"),
    ".env": re.compile(r"(?:\s|#[^\n]*\n)*(?:export\s+)?[A-Z][A-Z0-9]*_\w*="),
}
_VARIABLE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.-]*)=(.*)")


def read_seed(where: str, environment: Mapping[str, str]) -> Source:
    """Read a file, "-" or "env". Raise SeedError, with the line, if it cannot be read."""
    if where == ENVIRONMENT:
        return read_environment(environment)
    return read_text(_content(where), where if where != STANDARD_INPUT else "standard input")


def find_seed(environment: Mapping[str, str]) -> str | None:
    """Return the seed that `auto` means, or None if there is none."""
    if Path(OWN_DEFAULT).is_file():
        return OWN_DEFAULT
    return ENVIRONMENT if names_seed(environment) else None


def names_seed(environment: Mapping[str, str]) -> bool:
    """Return whether the variables or the file of other emulators have a seed."""
    return bool(_config(environment)) or names_topics(environment)


def read_environment(environment: Mapping[str, str]) -> Source:
    """Read a seed from the file that the environment names, or else from its variables."""
    if config := _config(environment):
        return read_text(_content(config), config)
    return from_variables(environment, "the environment")


def _config(environment: Mapping[str, str]) -> str:
    return environment.get(CONFIG) or (CONFIG_DEFAULT if Path(CONFIG_DEFAULT).is_file() else "")


def read_text(text: str, label: str) -> Source:
    form = _form(text, label)
    if form == ".yaml":
        raise SeedError(f"{label}: YAML is not supported; use TOML or JSON")
    if form == ".env":
        return from_variables(_variables(text, label), label)
    content, lines = _json(text, label) if form == ".json" else _toml(text, label)
    foreign = Foreign(label, lines).read(content)
    if foreign is not None:
        return foreign
    if not isinstance(content, Mapping):
        raise SeedError(f"{label}: A seed must be an object with topics, subscriptions, queues and schemas")
    source = Source(label, content, {place: f"{label}, line {line}" for place, line in lines.items()})
    try:
        check_parts(content)
    except SeedError as error:
        raise source.locate_error(error) from None
    return source


def _form(text: str, label: str) -> str:
    """Return the format, by the file's extension or else by its first characters."""
    suffix = Path(label).suffix or Path(label).name
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return next((form for form, begins in _BEGINS.items() if begins.match(text)), ".toml")


def _content(path: str) -> str:
    try:
        content = _standard_input() if path == STANDARD_INPUT else Path(path).read_bytes()
    except OSError as error:
        raise SeedError(f"cannot read the seed {path}: {error.strerror}") from None
    if len(content) > BYTES_MAX:
        raise SeedError(f"the seed {path} is larger than {BYTES_MAX >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SeedError(f"the seed {path} is not UTF-8") from None


def _standard_input() -> bytes:
    import sys

    return sys.stdin.buffer.read(BYTES_MAX + 1)


def _toml(text: str, label: str) -> tuple[Any, Lines]:
    text = text.replace("\r\n", "\n")
    try:
        return tomllib.loads(text), toml_lines(text)
    except tomllib.TOMLDecodeError as error:
        match = _TOML_LINE.fullmatch(str(error))
        line, reason = (int(match[2]), match[1]) if match else (_last_line(text), str(error))
        raise SeedError(f"{label}, line {line}: not valid TOML: {reason}") from None
    except RecursionError:
        raise SeedError(f"{label}: not valid TOML: {TOO_DEEP}") from None


def _json(text: str, label: str) -> tuple[Any, Lines]:
    try:
        return msgspec.json.decode(text), json_lines(text)
    except RecursionError:
        raise SeedError(f"{label}: not valid JSON: {TOO_DEEP}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        reason = f"{label}: not valid JSON: {error}"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"{label}, line {min(error.lineno, _last_line(text))}: not valid JSON: {error.msg}"
    except RecursionError:
        pass
    raise SeedError(reason)


def _last_line(text: str) -> int:
    return text.rstrip().count("\n") + 1


def _variables(text: str, label: str) -> dict[str, str]:
    """Parse a file of NAME=value lines, like container tools."""
    variables = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _VARIABLE.fullmatch(line)
        if match is None:
            raise SeedError(f"{label}, line {number}: expected NAME=value")
        variables[match[1]] = match[2].strip().strip("\"'")
    return variables
