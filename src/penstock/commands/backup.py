"""`penstock backup` and `penstock restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.commands.help import command
from penstock.commands.output import Output, count, size
from penstock.commands.parameters import argument
from penstock.commands.progress import Progress
from penstock.commands.session import Session, json_option, on_server
from penstock.errors import FailedPreconditionError, UnavailableError

if TYPE_CHECKING:
    from penstock.journal.port import BackupProgress

folder_argument = argument(
    "folder", metavar="FOLDER", help="Folder for the backup: new, empty, or with an earlier backup of the same store."
)
source_argument = argument("folder", metavar="FOLDER", help="Folder with the backup.")
store_option = click.option(
    "--data", metavar="DIR", help="Back up the store in this folder, which no server may have open."
)
target_option = click.option(
    "--data", metavar="DIR", required=True, help="Folder for the new store. It must be new or empty."
)
keep_identity_option = click.option(
    "--keep-identity",
    is_flag=True,
    help="Keep message ids. Use it to move a store, when nothing was written after the backup.",
)

TITLES = {"copying": "Copying, MiB", "checking": "Checking, MiB", "writing": "Writing, MiB"}


@command()
@on_server
@folder_argument
@store_option
def backup(session: Session, folder: str, *, data: str | None) -> None:
    """Back up the whole store while the server runs.

    The backup has everything that was durable before it began. If FOLDER holds an earlier backup of the same
    store, only new data is copied. The server writes the backup on its own machine. If the setting backup_folder is
    set, FOLDER is relative to it.
    """
    with _bar() as show:
        made = _of_store(data, folder, show) if data is not None else _of_server(session, folder, show)
    rest = f", kept {size(made['taken_over_bytes'])} of the earlier backup" if made["taken_over_bytes"] else ""
    session.output.say(
        f"Backup {made['number']} of {made['time']}: {_contents(made)}; copied {size(made['copied_bytes'])}{rest}.",
        made,
    )


@command()
@source_argument
@target_option
@keep_identity_option
@json_option
def restore(folder: str, *, data: str, keep_identity: bool, as_json: bool) -> None:
    """Create a store from a backup.

    The whole backup is checked first. The new store is a different store than the old one, which may have gone on
    after the backup: its messages have new ids, and a Spark query that read the old store starts again.
    """
    from penstock.assembly import restore as restore_store

    with _bar() as show, _local():
        made = restore_store(folder, data, show, keep_identity=keep_identity)._asdict()
    made = {name: made[name] for name in ("number", "time", "commit", "topics", "messages")}
    output = Output(json=as_json)
    output.say(f"Restored backup {made['number']} of {made['time']} into {data}: {_contents(made)}.", made)


def _of_store(data: str, folder: str, show: Callable[[BackupProgress], None]) -> dict[str, Any]:
    from penstock.assembly import back_up

    with _local():
        return back_up(data, folder, show)._asdict()


def _of_server(session: Session, folder: str, show: Callable[[BackupProgress], None]) -> dict[str, Any]:
    from penstock.journal.port import BackupProgress

    folders = {"folder": folder, "working_folder": str(Path.cwd())}
    for line in session.client.stream("/backup", body=folders):
        if "backup" in line:
            return dict(line["backup"])
        show(BackupProgress(**line["progress"]))
    raise FailedPreconditionError("The server stopped the backup before it was complete")


def _contents(made: dict[str, Any]) -> str:
    parts = [f"{count(made[name])} {name if made[name] != 1 else name[:-1]}" for name in ("topics", "messages")]
    return f"{', '.join(parts)}, up to commit {made['commit']}"


@contextmanager
def _bar() -> Iterator[Callable[[BackupProgress], None]]:
    """Show one bar for all steps. In a pipe or a log, print a line every few seconds."""
    with Progress("", lines=True) as bar:
        yield lambda news: bar.at(news.bytes >> 20, news.total_bytes >> 20, TITLES[news.step])


@contextmanager
def _local() -> Iterator[None]:
    """Report an unavailable store as a failure, because no server is involved."""
    try:
        yield
    except UnavailableError as error:
        raise FailedPreconditionError(error.message) from error
