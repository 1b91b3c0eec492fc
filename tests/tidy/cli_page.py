"""docs/cli.md and the golden files of every command's help, written from the commands.

python -m tests.tidy.cli_page writes both.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any
from unittest import mock

import typer

from penstock.cli import SECTIONS, app
from penstock.commands.help import EXIT_CODES, Group, argument_name, command_lines, parameter_help, parameter_name
from penstock.commands.session import PANEL
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "cli.md"
GOLDEN = ROOT / "tests" / "unit" / "commands" / "golden"
COLUMNS = 80
PROSE = 100

HEAD = """\
# penstock(1)

## Name

`penstock` - run the broker, look inside it, and act.

## Synopsis

```
penstock [--version] [-h] COMMAND [OPTIONS] ...
```

`-h` works after every command and every group of commands; `penstock cheat` has the lines that
people look for. This page is written from the commands by `make docs`.

## Which server

Commands on a server use its admin API, at the address of its HTTP door. The first of these that is
there says where that is:

1. `--address HOST:PORT` (or a URL such as `https://host`, where something before it speaks TLS)
2. `--context NAME`, which `penstock context add` gave to an address with a token and a project
3. `PENSTOCK_ADDRESS`
4. the context that `PENSTOCK_CONTEXT` names, or the current one (`penstock context use`)
5. the ready file of a running server, if `PENSTOCK_READY_FILE` names one
6. `127.0.0.1:8090`

The token is that of `--token`, of the context that `--context` names, of `PENSTOCK_TOKEN`, of the
file that `PENSTOCK_TOKEN_FILE` names, or of the context in use; the token of a context goes to its
own address only. Contexts are kept in `~/.config/penstock/contexts.toml`, which only its owner can
read.

A short name lives in the project of `--project` (`PENSTOCK_PROJECT`, or the context's), else in the
server's default project; a full one, such as `projects/p/topics/orders`, says it itself.

These options come after every command on a server:

SHARED

## Output

On a terminal a list is a table, in colour unless `NO_COLOR` is set, with numbers as people read
them and times in their own zone. In a pipe it is one line a record, with tabs between the fields,
exact values and no header; tabs and line ends inside a value are escaped. `--json` (`-J`) gives one
JSON object a line, as the API has it. A message is its body and a line end in a pipe, unless a
template or `--json` says otherwise. Progress bars are on standard error, and only on a terminal.

What does harm asks first, and is refused without a terminal unless `--yes` is given; `--dry-run`
says what would be done.

## Templates

`-f` (`--format`; after `tail`, where `-f` follows, `-F`) says how a message is written:

| | |
|---|---|
| `%t` `%p` | topic, project |
| `%o` `%i` | offset, id |
| `%k` `%K` | ordering key, its size |
| `%s` `%S` | body as it is, its size in bytes |
| `%T` | publish time, in milliseconds since 1970 |
| `%h` | attributes: `a=1,b=2` |
| `%r` `%a` | of `pull`: receipt, delivery attempt |
| `%%` `\\n` `\\t` `\\r` `\\0` `\\\\` `\\xHH` | a percent sign, and bytes |

## Starts, times, durations

`-o` says where to begin: `beginning`, `end`, an offset (`100`), the last so many (`-100`), a time
(`@-10m`, `@2026-11-15T10:00Z`, `@1794736800000` in milliseconds); `-o s@TIME -o e@TIME` is a
window. A time without a zone is UTC. A duration is `90`, `10s`, `1h30m`, `500ms`, `2d`; a size is
`512`, `10k` or `1MiB`.

## Exit codes

| code | |
|---|---|
"""


def main_command() -> Any:
    return typer.main.get_group(app)


def walk(command: Any, ctx: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every command below, by its path, with a context for it."""
    for name in command.list_commands(ctx):
        inner = command.get_command(ctx, name)
        below = typer.Context(inner, info_name=name, parent=ctx)
        yield below.command_path, inner, below
        if isinstance(inner, Group):
            yield from walk(inner, below)


def every_command() -> list[tuple[str, Any, Any]]:
    root = main_command()
    ctx = typer.Context(root, info_name="penstock", help_option_names=["-h", "--help"])
    return [("penstock", root, ctx), *walk(root, ctx)]


def help_texts() -> dict[str, str]:
    """The help of each command by the name of its golden file."""
    with mock.patch.dict(os.environ, {"NO_COLOR": "1"}):
        return {
            f"{path.replace(' ', '-')}.txt": "\n".join(command_lines(command, ctx, COLUMNS)) + "\n"
            for path, command, ctx in every_command()
        }


def cli_page() -> str:
    commands = {path: (command, ctx) for path, command, ctx in every_command()}
    shared = [each for each in commands["penstock topics ls"][0].params if each.rich_help_panel == PANEL]
    lines = [HEAD.replace("SHARED", "\n".join(["| option | |", "|---|---|", *map(_row, shared)])).rstrip("\n")]
    codes = EXIT_CODES.removeprefix("Exit codes: ").rstrip(".").split(", ")
    lines += [f"| {code} | {meaning} |" for code, _, meaning in (each.partition(" ") for each in codes)]
    for title, listed in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in listed:
            inside = [path for path in commands if path == f"penstock {name}" or path.startswith(f"penstock {name} ")]
            for path in inside:
                lines += ["", f"### {path}", "", *_command(path, *commands[path])]
    return "\n".join(lines) + "\n"


def _command(path: str, command: Any, ctx: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and _is_its_own(each)]
    words = [argument_name(each) if each.required else f"[{argument_name(each)}]" for each in arguments]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *words, *(["COMMAND"] if _is_group(command) else [])])
    yield from ("```", usage, "```")
    yield from _prose(command.help or "")
    if arguments or options:
        yield from ("", "| | |", "|---|---|", *map(_row, [*arguments, *options]))
    if any((each.rich_help_panel or "").startswith("Settings") for each in command.params):
        yield from ("", "And a flag for [every setting](settings.md).")


def _is_group(command: Any) -> bool:
    return isinstance(command, Group)


def _is_its_own(option: Any) -> bool:
    panel = option.rich_help_panel or ""
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
