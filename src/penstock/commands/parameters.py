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


class WholeNumber(click.types.IntParamType):
    name = "whole number"

    def __init__(self, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        self.bounds = min, max

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        _check_bounds(self, number, str(value), param, ctx)
        return number


class Number(click.types.FloatParamType):
    name = "number"

    def __init__(self, min: float | None = None, max: float | None = None) -> None:  # noqa: A002
        self.bounds = min, max

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        _check_bounds(self, number, str(value), param, ctx)
        return number


def _check_bounds(
    kind: WholeNumber | Number, number: float, text: str, param: click.Parameter | None, ctx: click.Context | None
) -> None:
    least, most = kind.bounds
    if least is not None and number < least:
        kind.fail(f"{text} is less than {least}", param, ctx)
    if most is not None and number > most:
        kind.fail(f"{text} is more than {most}", param, ctx)


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
