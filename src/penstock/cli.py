"""The command line: the list of the commands in `commands/`.

The module of a command is imported when the command is called, so that `penstock --help` starts quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from penstock.commands.help import Group, Row
from penstock.commands.parameters import version_option


class Listed(NamedTuple):
    place: str  # module in commands/, and the command or group in it
    summary: str  # the first paragraph of its help


SECTIONS: dict[str, dict[str, Listed]] = {
    "Look": {
        "ls": Listed("queues:ls", "List all queues and topics, with their names in every protocol."),
        "peek": Listed("messages:peek", "Show messages of a topic without consuming them."),
        "tail": Listed("messages:tail", "Show the last messages of a topic and, with -f, new messages."),
        "search": Listed("messages:search", "Search a topic by text, attributes or a value in JSON bodies."),
        "stats": Listed("statistics:stats", "Show totals and rates of the server."),
        "top": Listed("top:top", "Show live statistics of the server."),
        "lag": Listed("statistics:lag", "Show the backlog of subscriptions, largest first."),
        "info": Listed("about:info", "Show the server's version, addresses, store and durability."),
        "settings": Listed("about:settings", "Show the server's settings. Secrets are hidden."),
        "health": Listed("health:health", "Check the server and print one line."),
    },
    "Messages": {
        "publish": Listed("publish:publish", "Publish messages and print their ids once they are durable."),
        "pull": Listed("pull:pull", "Receive messages of a subscription and write them."),
        "seek": Listed("positions:seek", "Move a subscription to an earlier or later position."),
        "purge": Listed("positions:purge", "Ack all messages of a subscription, or remove all messages of a topic."),
        "redrive": Listed("moves:redrive", "Send dead letters back to the topics they came from."),
        "move": Listed("moves:move", "Move unacked messages of a subscription to another topic."),
        "moves": Listed("moves:app", "List, show and stop moves and redrives."),
        "export": Listed("export:export", "Write messages of a topic to a file, without consuming them."),
        "import": Listed("export:import_", "Publish the messages of a file in the format of penstock export."),
    },
    "Topics, subscriptions, queues": {
        "topics": Listed("topics:app", "List, create, show, change and delete topics."),
        "subs": Listed(
            "subscriptions:app", "List, create, show, change and delete subscriptions, their leases and acks."
        ),
        "queues": Listed("queues:app", "List, create, show and delete queues."),
        "snapshots": Listed("positions:app", "List, create, show and delete snapshots of subscriptions."),
        "projects": Listed("projects:app", "List projects, and save and restore snapshots of a project."),
    },
    "The server": {
        "serve": Listed("serve:serve", "Run the server."),
        "backup": Listed("backup:backup", "Back up the whole store while the server runs."),
        "restore": Listed("backup:restore", "Create a store from a backup."),
        "seed": Listed("seed:seed", "Create the topics, subscriptions, queues, schemas and first messages of a file."),
        "doctor": Listed("doctor:doctor", "Check a server or a store: disk, clock, limits, authentication."),
        "faults": Listed("faults:app", "Inject faults into a test server: list, add, remove, show hits."),
        "azurite": Listed("azurite:azurite", "Run a server for Azure queues only, with the flags of Azurite."),
        "gcloud": Listed("gcloud:gcloud", "Run a server for Pub/Sub only, with the command line of gcloud's emulator."),
        "shims": Listed(
            "shims:shims", "Write the scripts gcloud, azurite and azurite-queue, which start Penstock, to a folder."
        ),
        "bench": Listed("bench:bench", "Measure publishing and consuming through the text protocol."),
    },
    "Other programs": {
        "text": Listed("text:app", "Send and consume over the text protocol."),
        "pipeline": Listed("pipeline:app", "Run data pipelines on Spark."),
    },
    "This command": {
        "context": Listed("contexts:app", "Name servers: an address, a token and a project for each."),
        "cheat": Listed("cheat:cheat", "Show examples of common commands."),
        "completion": Listed("completion:completion", "Print the completion script of a shell."),
        "version": Listed("version:version", "Print the version."),
    },
}
LISTED = {name: listed for commands in SECTIONS.values() for name, listed in commands.items()}


class Penstock(Group):
    """The `penstock` command. It turns exceptions of commands into exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(LISTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LISTED:
            return None
        module, _, attribute = LISTED[cmd_name].place.partition(":")
        command: click.Command = getattr(import_module(f"penstock.commands.{module}"), attribute)
        command.name = cmd_name
        return command

    def sections(self, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
        for title, commands in SECTIONS.items():
            yield title, [(name, listed.summary) for name, listed in commands.items()]

    def main(self, args: Any = None, prog_name: str | None = None, *_: Any, **extra: Any) -> Any:
        """Run the command line. Report wrong usage in one sentence."""
        _open_closed_streams()
        try:
            code = super().main(args, prog_name, **extra | {"standalone_mode": False})
            sys.stdout.flush()  # so that a full disk is reported as an error
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            from penstock.commands.exit_codes import WRONG_USAGE, complain

            command = error.ctx.command_path if error.ctx is not None else "penstock"
            complain(f"{error.format_message().rstrip('.')} (see {command} -h)")
            sys.exit(WRONG_USAGE)
        except click.Abort:
            sys.exit(1)
        except OSError as error:
            _give_up_output(error)
        sys.exit(code or 0)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:  # while the help is printed; click would report it as a failure
            _give_up_output(error)

    def invoke(self, ctx: Any) -> Any:
        from penstock.errors import PenstockError

        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            _give_up_output(error)
        except PenstockError as error:
            from penstock.commands.exit_codes import complain, exit_code

            complain(error.message)
            raise click.exceptions.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None


def _give_up_output(error: OSError) -> NoReturn:
    """Exit because the output was closed or its disk is full. Discard buffered output."""
    from penstock.commands.exit_codes import FAILED, OUTPUT_CLOSED, complain

    closed = isinstance(error, BrokenPipeError)
    if not closed:
        complain(f"{error.filename or 'The output cannot be written'}: {error.strerror}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(OUTPUT_CLOSED if closed else FAILED)


def _open_closed_streams() -> None:
    """Open /dev/null in place of standard streams that the caller closed.

    In this order each stream gets its usual file descriptor, before a socket or a file can take it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the process ends


@click.command("penstock", cls=Penstock, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
@version_option("--version", sentence="{}")
def app() -> None:
    """Penstock, a durable message broker."""


def main() -> None:
    app(prog_name="penstock")
