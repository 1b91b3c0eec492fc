"""Arguments and options of commands, beyond those of click."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from penstock.commands.help import print_version

Run = TypeVar("Run", bound=Callable[..., Any])


class Argument(click.Argument):
    """An argument with a help text, which click has only since 8.5."""

    def __init__(self, *names: Any, help: str = "", hidden: bool = False, **settings: Any) -> None:  # noqa: A002
        super().__init__(*names, **settings)
        self.help = help
        self.hidden = hidden


class Option(click.Option):
    """An option that the help lists below the title `section`."""

    def __init__(self, *names: Any, section: str = "", **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section


class WholeNumber(click.IntRange):
    name = "whole number"


class Number(click.FloatRange):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        return number


def with_all(*options: Any) -> Callable[[Run], Run]:
    """Return a decorator that adds several options, in this order."""

    def decorate(run: Run) -> Run:
        for give in reversed(options):
            run = give(run)
        return run

    return decorate


argument = partial(click.argument, cls=Argument)
option = partial(click.option, cls=Option)


def count_option(*names: str, default: int = 0, **settings: Any) -> Callable[[Run], Run]:
    """Return an option with a number of messages."""
    settings.setdefault("type", WholeNumber(min=0))
    settings.setdefault("help", "Maximum number of messages. 0 means all.")
    return click.option(*names, metavar="N", default=default, **settings)


rate_option = count_option(
    "--rate", type=Number(min=0), help="Maximum number of messages per second. 0 means no limit."
)
retry_option = click.option(
    "--retry", metavar="DURATION", default="30s", help="Retry for this time while the server cannot be reached."
)


def version_option(*names: str, sentence: str) -> Callable[[Run], Run]:
    """Return an option that prints a sentence with the version in place of {}."""

    def answer(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
        if wanted:
            print_version(sentence)

    return click.option(
        *names, is_flag=True, is_eager=True, expose_value=False, callback=answer, help="Print the version."
    )
