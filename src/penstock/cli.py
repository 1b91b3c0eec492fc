"""The command line: the list of its commands, which are in `commands/`.

Nothing heavy is imported before a command needs it, so that `penstock --help` is instant.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.commands.azurite import azurite, print_version
from penstock.commands.pipeline import app as pipeline_app
from penstock.commands.serve import serve
from penstock.commands.text import app as text_app

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(text_app, name="text")
app.add_typer(pipeline_app, name="pipeline")
app.command()(azurite)
app.command()(serve)


@app.callback()
def penstock(
    *, version: Annotated[bool, typer.Option("--version", is_eager=True, callback=print_version)] = False
) -> None:
    """Penstock, a durable message broker."""


@app.command()
def version() -> None:
    """Print the version."""
    from penstock.settings import installed_version

    print(installed_version())


def main() -> None:
    app(prog_name="penstock")
