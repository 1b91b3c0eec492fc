"""docs/cli.md and the golden files of the help, written from the commands.

python -m tests.tidy.cli_page writes both.
"""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any
from unittest import mock

import click

from penstock.cli import SECTIONS, app
from penstock.commands.help import EXIT_CODES, Group, argument_name, command_lines, parameter_help, parameter_name
from penstock.commands.session import PANEL
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "cli.md"
GOLDEN = ROOT / "tests" / "unit" / "commands" / "golden"
COLUMNS = 80
COMMON = 3  # number of commands with the same row, above which the row is written once
PROSE = 100
HERE = "#common-arguments-and-options"

HEAD = """\
# penstock(1)

## Name

`penstock` - run the broker, look at its messages, and manage topics and subscriptions.

## Synopsis

```
penstock [--version] [-h] COMMAND [OPTIONS] ...
```

`-h` shows the help of every command. `penstock cheat` shows examples. `make docs` writes this page.

## Which server

Commands that talk to a server use its admin API at the address of its HTTP port. The address is the
first of these that is set:

1. `--address HOST:PORT`, or a URL such as `https://host` if a proxy speaks TLS
2. `--context CONTEXT`, a name from `penstock context add` for an address, a token and a project
3. `PENSTOCK_ADDRESS`
4. the context in `PENSTOCK_CONTEXT`, or the current context (`penstock context use`)
5. the address in the ready file of a running server, if `PENSTOCK_READY_FILE` names the file
6. `127.0.0.1:8090`

The token is the first of: `--token`, the token of the context in `--context`, `PENSTOCK_TOKEN`, the
content of the file in `PENSTOCK_TOKEN_FILE`, the token of the current context. It is sent to the
address of its context only. Contexts are in `~/.config/penstock/contexts.toml`, which only its
owner can read.

A short name, such as `orders`, belongs to the project of `--project`, of `PENSTOCK_PROJECT` or of
the context, else to the server's default project. A full name, such as `projects/p/topics/orders`,
contains its project.

## Common arguments and options

Every command that talks to a server has these options:

| | |
|---|---|
SHARED

Several commands have these. The sections of the commands name them.

| | |
|---|---|
COMMON

## Output

On a terminal a list is a table with rounded numbers and local times, in colour unless `NO_COLOR` is
set. In a pipe each record is one line, with tabs between the fields, exact values and no header.
Tabs and line ends inside a value are escaped. `--json` (`-J`) prints one JSON object per line, as
in the admin API. In a pipe a message is its body and a line end, unless a template or `--json` is
given. Progress bars are on standard error, and only on a terminal.

On a terminal, control characters, bidirectional marks, zero-width characters and line separators in
names and messages are escaped: `\\x1b`, `\\u202e`. `--json` escapes them as JSON does. In a pipe
bodies and JSON are exact.

Commands that delete or change data ask for confirmation. Without a terminal they need `--yes`.
`--dry-run` shows what would happen.

## Templates

`-f` (`--format`) is the format of each message. After `tail`, where `-f` means follow, it is `-F`.

| | |
|---|---|
| `%t` `%p` | topic, project |
| `%o` `%i` | offset, message id |
| `%k` `%K` | ordering key, its size in bytes |
| `%s` `%S` | body, its size in bytes |
| `%T` | publish time, in milliseconds since 1970 |
| `%h` | attributes: `a=1,b=2` |
| `%r` `%a` | for `pull`: receipt, delivery attempt |
| `%%` `\\n` `\\t` `\\r` `\\0` `\\\\` `\\xHH` | a percent sign, and bytes |

## Starts, times, durations

`-o` (`--start`) is the first message: `beginning`, `end`, an offset (`100`), the last N messages
(`-100`), or a time (`@-10m`, `@2026-11-15T10:00Z`, `@1794736800000` in milliseconds).
`-o s@TIME -o e@TIME` selects a time range. A time without a zone is UTC. A duration is `90`, `10s`,
`1h30m`, `500ms` or `2d`. A size is `512`, `10k` or `1MiB`.

## Exit codes

| code | |
|---|---|
"""


def main_command() -> Any:
    return app


def walk(command: Any, ctx: Any) -> Iterator[tuple[str, Any, Any]]:
    """Return every command with its path and a context for it."""
    for name in command.list_commands(ctx):
        inner = command.get_command(ctx, name)
        below = click.Context(inner, info_name=name, parent=ctx)
        yield below.command_path, inner, below
        if isinstance(inner, Group):
            yield from walk(inner, below)


def every_command() -> list[tuple[str, Any, Any]]:
    root = main_command()
    ctx = click.Context(root, info_name="penstock", help_option_names=["-h", "--help"])
    return [("penstock", root, ctx), *walk(root, ctx)]


def help_texts() -> dict[str, str]:
    """Return the help of each command under the name of its golden file."""
    with mock.patch.dict(os.environ, {"NO_COLOR": "1"}):
        return {
            f"{path.replace(' ', '-')}.txt": "\n".join(command_lines(command, ctx, COLUMNS)) + "\n"
            for path, command, ctx in every_command()
        }


def cli_page() -> str:
    commands = {path: (command, ctx) for path, command, ctx in every_command()}
    shared = [option for option in commands["penstock topics ls"][0].params if _section(option) == PANEL]
    uses = Counter(_row(parameter) for command, _ in commands.values() for parameter in _own(command))
    common = {row.split("`")[1]: row for row, count in reversed(uses.items()) if count >= COMMON}
    lines = [
        HEAD.replace("SHARED", "\n".join(map(_row, shared)))
        .replace("COMMON", "\n".join(reversed(common.values())))
        .rstrip("\n")
    ]
    codes = EXIT_CODES.removeprefix("Exit codes: ").rstrip(".").split(", ")
    lines += [f"| {code} | {meaning} |" for code, _, meaning in (entry.partition(" ") for entry in codes)]
    described = dict.fromkeys(common.values(), HERE)
    for title, listed in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in listed:
            inside = [path for path in commands if path == f"penstock {name}" or path.startswith(f"penstock {name} ")]
            for path in inside:
                lines += ["", f"### {path}", "", *_command(path, *commands[path], described)]
    return "\n".join(lines) + "\n"


def _command(path: str, command: Any, ctx: Any, described: dict[str, str]) -> Iterator[str]:
    """Write the section of a command. Rows that are elsewhere on the page become links."""
    parameters = _own(command)
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    words = [argument_name(argument) if argument.required else f"[{argument_name(argument)}]" for argument in arguments]
    has_options = len(parameters) > len(arguments)
    usage = " ".join([path, *(["[OPTIONS]"] if has_options else []), *words])
    if words:
        yield from ("```", usage, "```", "")
    yield from list(_prose(command.help or ""))[1:]
    rows = dict(zip(map(_row, parameters), parameters, strict=True))
    places = Counter(described[row] for row in rows if row in described)
    named = {
        row: described[row] for row in rows if places[described.get(row, "")] >= COMMON or described.get(row) == HERE
    }
    if table := [row for row in rows if row not in named]:
        yield from ("", "| | |", "|---|---|", *_merged(table))
    for anchor in dict.fromkeys(named.values()):
        names = [_short_name(rows[row]) for row in named if named[row] == anchor]
        options = [name for name in names if name.startswith("`-") or anchor != HERE]
        title = "Common options" if anchor == HERE else f"As in {anchor.strip('#').replace('-', ' ')}"
        if options:
            text = f"[{title}]({anchor}): {', '.join(options)}."
            yield from ("", *textwrap.wrap(text, PROSE, break_on_hyphens=False, break_long_words=False))
    for row in rows:
        described.setdefault(row, f"#{path.replace(' ', '-')}")
    if any(_section(parameter).startswith("Settings") for parameter in command.params):
        yield from ("", "There is also a flag for [every setting](settings.md).")


def _merged(rows: list[str]) -> list[str]:
    """Join the names of rows with the same help."""
    names: dict[str, list[str]] = {}
    for row in rows:
        name, _, text = row[2:].partition(" | ")
        names.setdefault(text, []).append(name)
    return [f"| {'<br>'.join(name)} | {text}" for text, name in names.items()]


def _own(command: Any) -> list[Any]:
    """Return the arguments and options that only this command and a few others have, arguments first."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    return [*arguments, *filter(_is_its_own, options)]


def _short_name(parameter: Any) -> str:
    """Return the first long name of an option."""
    names = parameter_name(parameter).split(", ")
    return f"`{next((name for name in names if name.startswith('--')), names[0]).partition(' ')[0]}`"


def _section(parameter: Any) -> str:
    return str(getattr(parameter, "section", ""))


def _is_its_own(option: Any) -> bool:
    panel = _section(option)
    return panel != PANEL and not panel.startswith("Settings") and not option.hidden


def _prose(text: str) -> Iterator[str]:
    for paragraph in filter(None, cleandoc(text).split("\n\n")):
        yield ""
        if paragraph.startswith("  "):
            yield from ("```bash", *textwrap.dedent(paragraph).splitlines(), "```")
        else:
            yield from textwrap.wrap(" ".join(paragraph.split()), PROSE, break_on_hyphens=False, break_long_words=False)


def _row(parameter: Any) -> str:
    name = parameter_name(parameter).replace("|", "\\|")
    return f"| `{name}` | {parameter_help(parameter).replace('|', chr(92) + '|')} |"


def write() -> None:
    PAGE.write_text(cli_page(), encoding="utf-8")
    GOLDEN.mkdir(exist_ok=True)
    texts = help_texts()
    for path in GOLDEN.glob("*.txt"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
