"""`penstock backup` and `penstock restore`: the whole store into a folder, and a store of that again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.commands.output import Output, count, size
from penstock.commands.progress import Progress
from penstock.commands.session import JsonOption, Session, on_server
from penstock.errors import FailedPreconditionError, UnavailableError

if TYPE_CHECKING:
    from penstock.journal.port import BackupProgress

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="Of the backup: new, empty, or with an earlier one.")]
Source = Annotated[str, typer.Argument(metavar="FOLDER", help="With the backup.")]
Store = Annotated[str | None, typer.Option(metavar="DIR", help="A store that no server has open, instead of a server.")]
Target = Annotated[str, typer.Option(metavar="DIR", help="Folder of the new store: new, or empty.")]
KeepIdentity = Annotated[
    bool,
    typer.Option(
        "--keep-identity", help="Keep the ids of messages: for a move, when nothing was written after the backup."
    ),
]

TITLES = {"copying": "Copying, MiB", "checking": "Checking, MiB", "writing": "Writing, MiB"}


@on_server
def backup(session: Session, folder: Folder, *, data: Store = None) -> None:
    """Copy the whole store into a folder, while the server runs.

    The backup is the store after one of its commits: all that was answered before it began is in it. A folder that
    holds an earlier backup of the same store is brought up to date, and only what is new is copied. The server writes
    it, on its own machine; where it has the setting backup_folder, FOLDER is below that one.
    """
    with _bar() as show:
        made = _of_store(data, folder, show) if data is not None else _of_server(session, folder, show)
    rest = f", took over {size(made['taken_over_bytes'])}" if made["taken_over_bytes"] else ""
    session.output.say(
        f"Backup {made['number']} of {made['time']}: {_contents(made)}; copied {size(made['copied_bytes'])}{rest}.",
        made,
    )


def restore(folder: Source, *, data: Target, keep_identity: KeepIdentity = False, as_json: JsonOption = False) -> None:
    """Make a store of a backup.

    The backup is checked first, all of it; then the store is made in a folder that is new or empty, whole or not at
    all. It is another store than the old one, which may have gone on after the backup: its messages have new ids, and
    a Spark query that read the old one begins anew.
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

    place = {"folder": folder, "working_folder": str(Path.cwd())}
    for line in session.client.stream("/backup", body=place):
        if "backup" in line:
            return dict(line["backup"])
        show(BackupProgress(**line["progress"]))
    raise FailedPreconditionError("The server ended the backup before it was done")


def _contents(made: dict[str, Any]) -> str:
    parts = [f"{count(made[name])} {name if made[name] != 1 else name[:-1]}" for name in ("topics", "messages")]
    return f"{', '.join(parts)}, up to commit {made['commit']}"


@contextmanager
def _bar() -> Iterator[Callable[[BackupProgress], None]]:
    """One for all steps, each with its title."""
    with Progress("") as bar:
        yield lambda news: bar.at(news.bytes >> 20, news.total_bytes >> 20, TITLES[news.step])


@contextmanager
def _local() -> Iterator[None]:
    """What cannot be used here is a failure, and not a server that cannot be reached."""
    try:
        yield
    except UnavailableError as error:
        raise FailedPreconditionError(error.message) from error
