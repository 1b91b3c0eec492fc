"""Checks that docs/cli.md, the golden help files and the list of commands match the commands."""

from __future__ import annotations

import click

from penstock.cli import LISTED
from penstock.commands.help import summary
from tests.tidy.cli_page import GOLDEN, PAGE, cli_page, every_command, help_texts, main_command


def test_the_page_is_written_from_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == cli_page(), "run make docs"


def test_the_help_of_every_command_is_the_golden_one() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.txt")}
    texts = help_texts()
    assert kept.keys() == texts.keys(), "run make docs"
    for name, text in texts.items():
        assert kept[name] == text, "run make docs and look at the difference"


def test_no_help_is_wider_than_its_terminal() -> None:
    examples = {"    ", "  penstock", "  seq"}
    for name, text in help_texts().items():
        wide = [line for line in text.splitlines() if len(line) > 80 and not line.startswith(tuple(examples))]
        assert wide == [], name


def test_the_list_says_of_each_command_what_its_help_says_first() -> None:
    root = main_command()
    context = click.Context(root, info_name="penstock")
    for name, listed in LISTED.items():
        assert summary(root.get_command(context, name).help) == listed.summary, name


def test_every_parameter_has_its_help() -> None:
    silent = [
        f"{path} {parameter.name}"
        for path, command, _ in every_command()
        for parameter in command.params
        if not getattr(parameter, "help", None)
    ]
    assert silent == []
