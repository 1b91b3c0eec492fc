"""`penstock projects`: list them, remember where all subscriptions of one are, and go back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.commands.exits import PARTLY_DONE
from penstock.commands.help import Commands
from penstock.commands.output import Column, count, moment
from penstock.commands.questions import ask
from penstock.commands.session import DryRun, Session, Yes, on_server, path_of

app = Commands("List projects; snapshots of all of a project, and the way back.")

Name = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Its name.")]
PROJECTS = [
    Column("PROJECT", "project"),
    Column("TOPICS", "topics", count, right=True),
    Column("SUBS", "subscriptions", count, right=True),
    Column("BACKLOG", "backlog_messages", count, right=True),
]
SNAPSHOTS = [
    Column("SNAPSHOT", "name"),
    Column("TOPICS", "topics", count, right=True),
    Column("SUBS", "subscriptions", count, right=True),
    Column("CREATED", "created_at", moment),
    Column("EXPIRES", "expires_at", moment),
]


@app.command()
@on_server
def ls(session: Session) -> None:
    """List projects.

    In a pipe: name, topics, subscriptions, waiting messages.
    """
    session.table(session.client.pages("/projects", "projects"), PROJECTS, "There is no project.")


@app.command()
@on_server
def snapshot(session: Session, name: Name) -> None:
    """Remember where every subscription of the project is."""
    made = session.client.post(_path(session), {"name": name})
    session.output.say(f"Remembered {made['subscriptions']:,} subscriptions of {made['project']}", made)
    if not session.output.json:
        for each in made["without"]:
            print(f"  without {each['name']}: {each['reason']}")


@app.command()
@on_server
def snapshots(session: Session) -> None:
    """List the snapshots of the project.

    In a pipe: name, topics, subscriptions, time of creation, time at which it expires.
    """
    session.table(session.client.pages(_path(session), "snapshots"), SNAPSHOTS, "There is no snapshot.")


@app.command()
@on_server
def restore(session: Session, name: Name, *, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Take every subscription of the project back to where it was.

    What was deleted meanwhile is made again where its topic is still there. The exit code is 5 where some are missing.
    """
    path = f"{_path(session, name)}/restore"
    seen = session.client.post(path, {"dry_run": True})
    if dry_run:
        return _show(session, seen, "Would do: ")
    ask(f"Go back to {name}: {_effect(seen)}?", yes)
    done = session.client.post(path, {})
    _show(session, done, "")
    if done["missing"]:
        raise typer.Exit(PARTLY_DONE)


@app.command()
@on_server
def forget(session: Session, name: Name, *, yes: Yes = False) -> None:
    """Delete a snapshot of the project."""
    ask(f"Delete the snapshot {name}?", yes)
    session.client.delete(_path(session, name))
    session.output.say(f"Deleted {name}", {"deleted": name})


def _path(session: Session, *more: str) -> str:
    return path_of("projects", session.home, "snapshots", *more)


def _effect(seen: dict[str, Any]) -> str:
    return f"{seen['restored']:,} restored, {seen['made_again']:,} made again, {seen['missing']:,} missing"


def _show(session: Session, seen: dict[str, Any], before: str) -> None:
    session.output.say(f"{before}{_effect(seen)}", seen)
    if not session.output.json:
        for each in seen["subscriptions"]:
            if each["reason"]:
                print(f"  {each['name']}: {each['outcome']}, {each['reason']}")
