"""`penstock serve`: a flag for every setting in, the exit code of the server back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, cast

import typer

from penstock.settings import SETTINGS, Setting


def serve(config: str | None, **flags: Any) -> None:
    """Run the server.

    A port of 0 takes any free one, "off" keeps that door closed. Every flag is also an environment variable
    (PENSTOCK_HTTP_PORT) and a key of the settings file (http_port, or port in the table http); flags win.
    """
    given = {name: value for name, value in flags.items() if value is not None and value != []}
    switched = {name: not SETTINGS[name].default for name, value in given.items() if value is True}
    raise typer.Exit(run_server(lambda: given | switched, os.environ, config))


def run_server(
    flags: Callable[[], Mapping[str, object]],
    environment: Mapping[str, str],
    config: str | None = None,
    before: Callable[[], None] = lambda: None,
    named: Mapping[str, str] | None = None,
    announce: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> int:
    """Serve until a signal; what a user got wrong, said by `flags` or `before` as well, is one sentence.

    `named`: flags of settings that this command calls by another name. `announce` is told the address of every door
    once they all answer.
    """
    if os.getpid() == 1:
        from penstock.commands.first_process import go_on_in_child

        go_on_in_child()
    from penstock.assembly import open_parts
    from penstock.commands.emulators import read_seed_of, with_variables
    from penstock.errors import InvalidArgumentError
    from penstock.logs import escape_controls, set_up_logging
    from penstock.server import EXIT_USAGE, log, run
    from penstock.settings import load_settings, read_config, stray_variables

    try:
        file = read_config(config) if config else None
        settings = with_variables(
            load_settings(flags=flags(), environment=environment, config=file, named=named), environment
        )
        set_up_logging(settings)
        for sentence in stray_variables(environment):
            log.warning("%s", sentence)
        seed = read_seed_of(settings, environment)
        for sentence in seed.notes if seed is not None else ():
            log.warning("%s", sentence)
        before()
    except InvalidArgumentError as error:
        print(f"penstock: {escape_controls(error.message)}", file=sys.stderr)
        return EXIT_USAGE
    return run(settings, partial(open_parts, seed=seed), flags=named, announce=announce)


def _option(each: Setting) -> Parameter:
    switch = isinstance(each.default, bool)
    option = typer.Option(
        each.flag,
        metavar=None if switch else each.kind.metavar,
        help=each.sentences + (f" Default {each.shown}." if each.shown and not switch else ""),
        rich_help_panel=f"Settings of the {each.section} door" if each.section else "Settings",
    )
    kind: Any = bool if switch else list[str] if each.many else str
    return Parameter(each.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


_CONFIG = typer.Option(metavar="FILE", help="TOML file with settings.", envvar="PENSTOCK_CONFIG")
_PARAMETERS = [
    Parameter("config", Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, _CONFIG]),
    *(_option(each) for each in SETTINGS.values()),
]
# Typer reads the flags of a command from its signature.
cast(Any, serve).__signature__ = Signature(_PARAMETERS)
serve.__annotations__ = {parameter.name: parameter.annotation for parameter in _PARAMETERS}
