"""Commands and groups of commands, and their help: plain text of one form, for terminals, pipes and docs/cli.md."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from inspect import cleandoc
from typing import Any, NoReturn

import click

EXIT_CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 not found, 4 cannot reach the server, "
    "5 partly done, 130 interrupted, 141 output closed."
)
WIDEST, NARROWEST, FIRST_COLUMN = 100, 50, 28

Row = tuple[str, str]


class PlainHelp(click.Command):
    """A command with our form of help, and with --version."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("\n".join(command_lines(self, ctx, _width())))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _answer_version(self, args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click leaves it out where an option has no value
            raise


class Command(PlainHelp):
    pass


class Group(PlainHelp, click.Group):
    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # as they are written, and not sorted

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[Row]]]:
        """Yield titles, each with the names and summaries of its commands."""
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        yield (
            "Commands",
            [(command.name or "", summary(command.help)) for command in commands if command and not command.hidden],
        )

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], names, n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


command = partial(click.command, cls=Command)
group = partial(Group, no_args_is_help=True)


def summary(text: str | None) -> str:
    """Return the first sentence of a help text."""
    return " ".join(cleandoc(text or "").partition("\n\n")[0].split())


def command_lines(command: Any, ctx: Any, width: int) -> Iterator[str]:
    yield from _wrap(f"Usage: {ctx.command_path} {' '.join(_usage(command, ctx))}", width, "    ")
    yield from _paragraphs(command.help or "", width)
    for title, rows in [*_parameters(command, ctx), *(command.sections(ctx) if isinstance(command, Group) else [])]:
        yield from ("", f"{_bold(title)}:")
        yield from _list_rows(rows, width)
    yield ""
    yield from _wrap(EXIT_CODES, width)


def _usage(command: Any, ctx: Any) -> Iterator[str]:
    yield "[OPTIONS]"
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument" and not getattr(parameter, "hidden", False):
            shown = argument_name(parameter)
            yield shown if parameter.required else f"[{shown}]"
    if isinstance(command, Group):
        yield "COMMAND ..."


def argument_name(parameter: Any) -> str:
    return (parameter.metavar or (parameter.name or "").upper()) + ("..." if parameter.nargs != 1 else "")


def _paragraphs(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a help text. Paragraphs are wrapped, indented examples stay as they are."""
    for paragraph in filter(None, cleandoc(text).split("\n\n")):
        yield ""
        if paragraph.startswith("  "):
            yield from paragraph.splitlines()
        else:
            yield from _wrap(" ".join(paragraph.split()), width)


def _parameters(command: Any, ctx: Any) -> list[tuple[str, list[Row]]]:
    titles: dict[str, list[Row]] = {}
    for parameter in command.get_params(ctx):
        if getattr(parameter, "hidden", False):
            continue
        kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
        title = getattr(parameter, "section", "") or kind
        titles.setdefault(title, []).append((parameter_name(parameter), parameter_help(parameter)))
    order = sorted(titles, key=lambda title: (title != "Arguments", title != "Options"))
    return [(title, titles[title]) for title in order]


def parameter_name(option: Any) -> str:
    if option.param_type_name == "argument":
        return argument_name(option)
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=len))
    if option.is_flag or getattr(option, "count", False):
        return names
    return f"{names} {option.metavar or (option.name or '').upper()}"


def parameter_help(parameter: Any) -> str:
    help_text = " ".join((getattr(parameter, "help", None) or "").split())
    notes = []
    if parameter.envvar:
        notes.append(parameter.envvar if isinstance(parameter.envvar, str) else ", ".join(parameter.envvar))
    default = parameter.default
    if (
        getattr(parameter, "show_default", None) is not False
        and isinstance(default, str | int | float)
        and default is not False
        and default != ""
    ):
        notes.append(f"default {default}")
    return f"{help_text} [{'; '.join(notes)}]" if notes else help_text


def _list_rows(rows: Iterable[Row], width: int) -> Iterator[str]:
    rows = list(rows)
    column = min(FIRST_COLUMN, max((len(name) for name, _ in rows), default=0) + 2)
    indent = " " * (2 + column)
    for name, text in rows:
        lines = list(_wrap(text, width, indent, indent)) or [indent]
        if len(name) + 2 > column:
            yield f"  {name}"
            yield from lines
        else:
            yield f"  {name:<{column}}{lines[0].strip()}".rstrip()
            yield from lines[1:]


def _wrap(text: str, width: int, later: str = "", first: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False, break_long_words=False
    )


def _bold(text: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def _width() -> int:
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def _answer_version(command: Any, args: list[str]) -> None:
    """Print the version if the arguments begin with --version and the command has no such option."""
    if args[:1] == ["--version"] and not any("--version" in parameter.opts for parameter in command.params):
        print_version()


def print_version(sentence: str = "{}") -> NoReturn:
    from penstock.distribution import installed_version

    print(sentence.format(installed_version()))
    raise click.exceptions.Exit
