"""Reading a seed, whatever its form: TOML and JSON of ours, and the forms of other tools (conventions.py)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.seeding.conventions import Foreign, from_variables, names_topics
from penstock.seeding.lines import Lines, json_lines, toml_lines
from penstock.seeding.reading import check_parts
from penstock.seeding.source import Source
from penstock.seeding.topology import SeedError

ENVIRONMENT = "env"  # instead of a file: the variables of other emulators
AUTO = "auto"  # instead of a file: whichever is there of our own file and those variables
OWN_DEFAULT = "/etc/penstock/seed.toml"
STANDARD_INPUT = "-"
CONFIG, CONFIG_DEFAULT = "PUBSUBC_CONFIG", "/etc/pubsubc/config.json"
BYTES_MAX = 16 << 20

_TOML_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)
_SUFFIXES = {".toml": ".toml", ".json": ".json", ".env": ".env", ".yaml": ".yaml", ".yml": ".yaml"}
_BEGINS = {  # a table of TOML begins with [name] or [[name]], a key of ours is in small letters
    ".json": re.compile(r"\s*(?:\{|\[\s*[{\]])"),
    ".env": re.compile(r"(?:\s|#[^\n]*\n)*(?:export\s+)?[A-Z][A-Z0-9]*_\w*="),
}
_VARIABLE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.-]*)=(.*)")


def read_seed(where: str, environment: Mapping[str, str]) -> Source:
    """SeedError says what cannot be read, with its line."""
    if where == ENVIRONMENT:
        return read_environment(environment)
    return read_text(_content(where), where if where != STANDARD_INPUT else "standard input")


def find_seed(environment: Mapping[str, str]) -> str | None:
    """What `auto` stands for; None: nothing is there."""
    if Path(OWN_DEFAULT).is_file():
        return OWN_DEFAULT
    return ENVIRONMENT if names_seed(environment) else None


def names_seed(environment: Mapping[str, str]) -> bool:
    """Whether there is a seed in the variables of other emulators, or in the file of theirs."""
    return bool(_config(environment)) or names_topics(environment)


def read_environment(environment: Mapping[str, str]) -> Source:
    """A file that the environment names wins over variables."""
    if config := _config(environment):
        return read_text(_content(config), config)
    return from_variables(environment, "the environment")


def _config(environment: Mapping[str, str]) -> str:
    return environment.get(CONFIG) or (CONFIG_DEFAULT if Path(CONFIG_DEFAULT).is_file() else "")


def read_text(text: str, label: str) -> Source:
    form = _form(text, label)
    if form == ".yaml":
        raise SeedError(f"{label}: YAML is not read; write it as TOML or JSON")
    if form == ".env":
        return from_variables(_variables(text, label), label)
    content, lines = _json(text, label) if form == ".json" else _toml(text, label)
    foreign = Foreign(label, lines).read(content)
    if foreign is not None:
        return foreign
    if not isinstance(content, Mapping):
        raise SeedError(f"{label}: A topology is an object with topics, subscriptions, queues and schemas")
    source = Source(label, content, {place: f"{label}, line {line}" for place, line in lines.items()})
    try:
        check_parts(content)
    except SeedError as error:
        raise source.explained(error) from None
    return source


def _form(text: str, label: str) -> str:
    """By the ending of the file's name; without one of those, by how it begins."""
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
        found = _TOML_LINE.fullmatch(str(error))
        line, reason = (int(found[2]), found[1]) if found else (_last_line(text), str(error))
        raise SeedError(f"{label}, line {line}: not valid TOML: {reason}") from None


def _json(text: str, label: str) -> tuple[Any, Lines]:
    try:
        return msgspec.json.decode(text), json_lines(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
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
    """A file of NAME=value lines, as container tools read them."""
    variables = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _VARIABLE.fullmatch(line)
        if found is None:
            raise SeedError(f"{label}, line {number}: expected NAME=value")
        variables[found[1]] = found[2].strip().strip("\"'")
    return variables
