"""The command line: the list of its commands, which are in `commands/`.

A command is loaded when it is called, and nothing heavy before it is needed, so that `penstock --help` is instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from penstock.commands.help import Commands, Group, Row, print_version

UsageError: Any = typer.BadParameter.__base__  # wherever this release of typer has it


class Listed(NamedTuple):
    place: str  # module in commands/, and the function or group in it
    summary: str  # the first paragraph of its help


SECTIONS: dict[str, dict[str, Listed]] = {
    "Look": {
        "ls": Listed("queues:ls", "List every queue and topic with its name at each door."),
        "peek": Listed("reading:peek", "Show messages of a topic without consuming them."),
        "tail": Listed("reading:tail", "Show the end of a topic and, with -f, what comes."),
        "search": Listed("reading:search", "Search a topic by text, attributes or a place in JSON bodies."),
        "stats": Listed("statistics:stats", "Show totals and rates of the server."),
        "top": Listed("top:top", "Show live what the server does, like the tool of that name."),
        "lag": Listed("statistics:lag", "Show which subscriptions are behind, the furthest first."),
        "info": Listed("about:info", "Show what runs: version, doors, store, durability."),
        "settings": Listed("about:settings", "Show every setting as it is in force; secrets are hidden."),
        "health": Listed("health:health", "Say in one line whether the server is well."),
    },
    "Messages": {
        "publish": Listed("publish:publish", "Publish messages and print their ids once they are durable."),
        "pull": Listed("pull:pull", "Pull messages and write them."),
        "seek": Listed("seeking:seek", "Move a subscription back or forth."),
        "purge": Listed("seeking:purge", "Settle all that waits in a subscription, or remove all of a topic."),
        "redrive": Listed("moves:redrive", "Send dead letters back to the topics they came from."),
        "move": Listed("moves:move", "Move what is not acked of a subscription to another topic."),
        "moves": Listed("moves:app", "Moves and redrives: list, show, stop."),
        "export": Listed("export:export", "Write messages of a topic to a file, and consume nothing."),
        "import": Listed("export:import_", "Publish what a file holds, as JSON lines or Parquet."),
    },
    "Topics, subscriptions, queues": {
        "topics": Listed("topics:app", "List, create, show, change and delete topics."),
        "subs": Listed("subscriptions:app", "List, create, show, change and delete subscriptions; leases; acks."),
        "queues": Listed("queues:app", "List, create, show and delete queues."),
        "snapshots": Listed("seeking:app", "Snapshots of subscriptions: list, create, show, delete."),
        "projects": Listed("projects:app", "List projects; snapshots of all of a project, and the way back."),
    },
    "The server": {
        "serve": Listed("serve:serve", "Run the server."),
        "backup": Listed("backup:backup", "Copy the whole store into a folder, while the server runs."),
        "restore": Listed("backup:restore", "Make a store of a backup."),
        "seed": Listed("seed:seed", "Make the topics, subscriptions, queues, schemas and first messages of a file."),
        "doctor": Listed("doctor:doctor", "Check a store or a server: disk, clock, limits, who may come in."),
        "faults": Listed("faults:app", "Faults on purpose, of a server for tests: list, add, remove, hits."),
        "azurite": Listed("azurite:azurite", "Serve Azure queues alone, with Azurite's flags."),
        "gcloud": Listed("gcloud:gcloud", "Serve Pub/Sub alone, with the command line of gcloud's emulator."),
        "shims": Listed("shims:shims", "Write gcloud, azurite and azurite-queue, which start Penstock, into a folder."),
        "bench": Listed("bench:bench", "Measure publishing and consuming through the text door."),
    },
    "Other programs": {
        "text": Listed("text:app", "Send and consume over the text protocol."),
        "pipeline": Listed("pipeline:app", "Run data pipelines on Spark."),
    },
    "This command": {
        "context": Listed("contexts:app", "Names for servers: an address with a token and a project."),
        "cheat": Listed("cheat:cheat", "Show the lines people look for."),
        "completion": Listed("completion:completion", "Print the completion script of a shell."),
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
        alone.command(cmd_name, **getattr(found, "command_options", {}))(found)
        return typer.main.get_command(alone)

    def sections(self, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
        for title, commands in SECTIONS.items():
            yield title, [(name, each.summary) for name, each in commands.items()]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in LISTED and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], LISTED, n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def main(self, args: Any = None, prog_name: str | None = None, *_: Any, **extra: Any) -> Any:
        """What is wrong with the command line is one sentence as well."""
        _open_closed_streams()
        try:
            code = super().main(args, prog_name, **extra | {"standalone_mode": False})
            sys.stdout.flush()  # here, where a full disk is still met with a sentence
        except UsageError as error:
            if error.format_message().startswith("Usage: "):  # no arguments at all: the help says what there is
                error.show()
                sys.exit(error.exit_code)
            from penstock.commands.exits import WRONG_USAGE, complain

            place = error.ctx.command_path if error.ctx is not None else "penstock"
            complain(f"{error.format_message().rstrip('.')} (see {place} -h)")
            sys.exit(WRONG_USAGE)
        except typer.Abort:
            sys.exit(1)
        except OSError as error:
            _give_up_output(error)
        sys.exit(code or 0)

    def make_context(self, *given: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*given, **extra)
        except BrokenPipeError as error:  # of the help; typer would call it a failure
            _give_up_output(error)

    def invoke(self, ctx: Any) -> Any:
        from penstock.errors import PenstockError

        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            _give_up_output(error)
        except PenstockError as error:
            from penstock.commands.exits import complain, exit_code

            complain(error.message)
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _give_up_output(error: OSError) -> NoReturn:
    """Nobody reads it any more, or its disk is full. What is still in the buffer goes nowhere, and not with a fault."""
    from penstock.commands.exits import FAILED, NOT_READ, complain

    nobody_reads = isinstance(error, BrokenPipeError)
    if not nobody_reads:
        complain(f"{error.filename or 'The output cannot be written'}: {error.strerror}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(NOT_READ if nobody_reads else FAILED)


def _open_closed_streams() -> None:
    """A standard stream that the caller closed is one that has nothing to read, or takes all.

    Lowest first: each gets the number it should have, which the next socket or file would have got.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we live


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
