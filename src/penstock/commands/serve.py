"""`penstock serve`, with a flag for every setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from penstock.commands.help import command
from penstock.commands.parameters import option, with_all
from penstock.settings import SETTINGS, Setting


def run_server(
    flags: Callable[[], Mapping[str, object]],
    environment: Mapping[str, str],
    config: str | None = None,
    before: Callable[[], None] = lambda: None,
    named: Mapping[str, str] | None = None,
    announce: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> int:
    """Run the server until a signal, and return its exit code. Wrong settings are reported in one sentence.

    `flags` and `before` may raise InvalidArgumentError. `named` maps settings to this command's own flags. `announce`
    is called with the addresses when the server is ready.
    """
    if os.getpid() == 1:
        from penstock.commands.container_init import continue_in_child

        continue_in_child()
    from penstock.assembly import open_parts
    from penstock.commands.exit_codes import complain
    from penstock.distribution import foreign_distribution
    from penstock.emulators.variables import read_seed_of, with_variables
    from penstock.errors import InvalidArgumentError
    from penstock.logs import set_up_logging
    from penstock.server import EXIT_USAGE, log, run
    from penstock.settings import load_settings, read_config, stray_variables

    try:
        file = read_config(config) if config else None
        settings = with_variables(
            load_settings(flags=flags(), environment=environment, config=file, named=named), environment
        )
        set_up_logging(settings)
        foreign = foreign_distribution()
        for sentence in (*stray_variables(environment), *([foreign] if foreign else [])):
            log.warning("%s", sentence)
        seed = read_seed_of(settings, environment)
        for sentence in seed.notes if seed is not None else ():
            log.warning("%s", sentence)
        before()
    except InvalidArgumentError as error:
        complain(error.message)
        return EXIT_USAGE
    return run(settings, partial(open_parts, seed=seed), flags=named, announce=announce)


PROTOCOLS = {
    "pubsub": "the Pub/Sub API",
    "azure": "the Azure Queue API",
    "text": "the text protocol",
    "flight": "Arrow Flight",
    "http": "the HTTP port",
}


def _option(setting: Setting) -> Any:
    switch = isinstance(setting.default, bool)
    return option(
        setting.name,
        setting.flag,
        metavar=None if switch else setting.kind.metavar,
        default=None,
        is_flag=switch,
        multiple=setting.many,
        help=setting.sentences + (f" Default {setting.shown}." if setting.shown and not switch else ""),
        section=f"Settings of {PROTOCOLS[setting.section]}" if setting.section else "Settings",
    )


@command()
@click.option("--config", metavar="FILE", envvar="PENSTOCK_CONFIG", help="Read settings from this TOML file.")
@with_all(*map(_option, SETTINGS.values()))
def serve(config: str | None, **flags: Any) -> None:
    """Run the server.

    Port 0 means any free port, "off" closes a port. Every flag is also an environment variable, such as
    PENSTOCK_HTTP_PORT, and a key in the settings file, such as http_port, or port in the table [http]. A flag overrides
    the variable, and the variable overrides the file.
    """
    values = {name: value for name, value in flags.items() if value not in (None, ())}
    switched = {name: not SETTINGS[name].default for name, value in values.items() if value is True}
    raise click.exceptions.Exit(run_server(lambda: values | switched, os.environ, config))
