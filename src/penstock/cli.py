"""The command line: the list of its commands, which are in `commands/`.

A command is loaded when it is called, and nothing heavy before it is needed, so that `penstock --help` is instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from penstock.commands.help import Commands, Group, Row, print_version


class Listed(NamedTuple):
    place: str  # module in commands/, and the function or group in it
    summary: str  # the first paragraph of its help


SECTIONS: dict[str, dict[str, Listed]] = {
    "Look": {
        "topics": Listed("topics:app", "List, create, show, change and delete topics."),
    },
    "The server": {
        "serve": Listed("serve:serve", "Run the server."),
        "azurite": Listed("azurite:azurite", "Serve Azure queues alone, with Azurite's flags."),
    },
    "Other programs": {
        "text": Listed("text:app", "Send and consume over the text protocol."),
        "pipeline": Listed("pipeline:app", "Run data pipelines on Spark."),
    },
    "This command": {
        "context": Listed("contexts:app", "Names for servers: an address with a token and a project."),
        "version": Listed("version:version", "Print the version."),
    },
}
LISTED = {name: each for commands in SECTIONS.values() for name, each in commands.items()}


class Penstock(Group):
    """The command itself. What goes wrong inside a command becomes its exit code here."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(LISTED)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in LISTED:
            return None
        module, _, attribute = LISTED[cmd_name].place.partition(":")
        found = getattr(import_module(f"penstock.commands.{module}"), attribute)
        if isinstance(found, typer.Typer):
            command = typer.main.get_group(found)
            command.name = cmd_name
            return command
        alone = Commands("")
        alone.command(cmd_name)(found)
        return typer.main.get_command(alone)

    def sections(self, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
        for title, commands in SECTIONS.items():
            yield title, [(name, each.summary) for name, each in commands.items()]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in LISTED and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], LISTED, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        from penstock.errors import PenstockError

        try:
            return super().invoke(ctx)
        except PenstockError as error:
            from penstock.commands.exits import complain, exit_code

            complain(error.message)
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


app = Commands("Penstock, a durable message broker.", cls=Penstock)


@app.callback()
def penstock(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    app(prog_name="penstock")
