"""How commands are grouped and how their help looks: plain text of one form, for terminals, pipes and docs/cli.md.

Written here and not by typer's panels, so that `penstock --help` costs little and reads the same with every release.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from inspect import cleandoc
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.commands.values import read_plain_values

EXIT_CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 not found, 4 cannot reach the server, "
    "5 partly done, 130 interrupted, 141 nobody reads the output."
)
WIDEST, NARROWEST, FIRST_COLUMN = 100, 50, 28

Row = tuple[str, str]
Run = TypeVar("Run", bound=Callable[..., Any])


class PlainHelp:
    """What commands and groups of them have beyond typer's."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write("\n".join(command_lines(self, ctx, _width())))

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        _answer_version(self, args)
        read_plain_values(self.get_params(ctx))
        parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return parsed


class Command(PlainHelp, TyperCommand):
    pass


class Group(PlainHelp, TyperGroup):
    def sections(self, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
        """The commands with their summaries, below titles."""
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        yield "Commands", [(each.name or "", summary(each.help)) for each in commands if each and not each.hidden]


class Commands(typer.Typer):
    """A group of commands whose help looks like this."""

    def __init__(self, help: str, cls: type[Group] = Group) -> None:  # noqa: A002 - as in typer
        super().__init__(
            cls=cls,
            help=help,
            no_args_is_help=True,
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Run], Run]:
        return super().command(name, **{"cls": Command} | options)


def summary(text: str | None) -> str:
    """The first sentence of a help text."""
    return " ".join(cleandoc(text or "").partition("\n\n")[0].split())


def command_lines(command: Any, ctx: Any, width: int) -> Iterator[str]:
    yield from _wrapped(f"Usage: {ctx.command_path} {' '.join(_usage(command, ctx))}", width, "    ")
    yield from _paragraphs(command.help or "", width)
    for title, rows in [*_parameters(command, ctx), *(command.sections(ctx) if isinstance(command, Group) else [])]:
        yield from ("", f"{_bold(title)}:")
        yield from _listed(rows, width)
    yield ""
    yield from _wrapped(EXIT_CODES, width)


def _usage(command: Any, ctx: Any) -> Iterator[str]:
    yield "[OPTIONS]"
    for each in command.get_params(ctx):
        if each.param_type_name == "argument" and not getattr(each, "hidden", False):
            shown = argument_name(each)
            yield shown if each.required else f"[{shown}]"
    if isinstance(command, Group):
        yield "COMMAND ..."


def argument_name(parameter: Any) -> str:
    return (parameter.metavar or (parameter.name or "").upper()) + ("..." if parameter.nargs != 1 else "")


def _paragraphs(text: str, width: int) -> Iterator[str]:
    """Paragraphs are filled; one that is indented is an example, and stays as it is."""
    for paragraph in filter(None, cleandoc(text).split("\n\n")):
        yield ""
        if paragraph.startswith("  "):
            yield from paragraph.splitlines()
        else:
            yield from _wrapped(" ".join(paragraph.split()), width)


def _parameters(command: Any, ctx: Any) -> list[tuple[str, list[Row]]]:
    titles: dict[str, list[Row]] = {}
    for each in command.get_params(ctx):
        if getattr(each, "hidden", False):
            continue
        kind = "Arguments" if each.param_type_name == "argument" else "Options"
        title = getattr(each, "rich_help_panel", None) or kind
        titles.setdefault(title, []).append((parameter_name(each), parameter_help(each)))
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
    if parameter.show_default and isinstance(default, str | int | float) and default is not False and default != "":
        notes.append(f"default {default}")
    return f"{help_text} [{'; '.join(notes)}]" if notes else help_text


def _listed(rows: Iterable[Row], width: int) -> Iterator[str]:
    rows = list(rows)
    column = min(FIRST_COLUMN, max((len(name) for name, _ in rows), default=0) + 2)
    indent = " " * (2 + column)
    for name, text in rows:
        lines = list(_wrapped(text, width, indent, indent)) or [indent]
        if len(name) + 2 > column:
            yield f"  {name}"
            yield from lines
        else:
            yield f"  {name:<{column}}{lines[0].strip()}".rstrip()
            yield from lines[1:]


def _wrapped(text: str, width: int, later: str = "", first: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False, break_long_words=False
    )


def _bold(text: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def _width() -> int:
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def _answer_version(command: Any, args: list[str]) -> None:
    """`--version` works after every command that has no such option of its own."""
    if args[:1] == ["--version"] and not any("--version" in each.opts for each in command.params):
        print_version(True)


def print_version(wanted: bool) -> None:
    if wanted:
        _say_version("{}")


def print_version_instead(wanted: bool, command: str) -> None:
    """Where Penstock answers to the name of a vendor's command."""
    if wanted:
        _say_version(f"Penstock {{}}, in place of {command}")


def _say_version(sentence: str) -> NoReturn:
    from penstock.settings import installed_version

    print(sentence.format(installed_version()))
    raise typer.Exit
