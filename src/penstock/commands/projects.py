"""`penstock projects`: projects and their snapshots."""

from __future__ import annotations

from typing import Any

import click

from penstock.commands.exit_codes import PARTLY_DONE
from penstock.commands.help import group
from penstock.commands.output import Column, count, moment
from penstock.commands.parameters import argument
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, dry_run_option, on_server, path_of, yes_option
from penstock.terminal import tell

app = group(help="List projects, and save and restore snapshots of a project.")

name_argument = argument("name", metavar="SNAPSHOT", help="Name of the snapshot.")
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

    Fields in a pipe: name, topics, subscriptions, unacked messages.
    """
    session.table(session.client.pages("/projects", "projects"), PROJECTS, "No projects.")


@app.command()
@on_server
@name_argument
def snapshot(session: Session, name: str) -> None:
    """Save the positions of all subscriptions of the project."""
    made = session.client.post(_path(session), {"name": name})
    session.output.say(f"Saved {made['subscriptions']:,} subscriptions of {made['project']}", made)
    if not session.output.json:
        for subscription in made["without"]:
            tell(f"  without {subscription['name']}: {subscription['reason']}")


@app.command()
@on_server
def snapshots(session: Session) -> None:
    """List the snapshots of the project.

    Fields in a pipe: name, topics, subscriptions, creation time, expiration time.
    """
    session.table(session.client.pages(_path(session), "snapshots"), SNAPSHOTS, "No snapshots.")


@app.command()
@on_server
@name_argument
@dry_run_option
@yes_option
def restore(session: Session, name: str, *, dry_run: bool, yes: bool) -> None:
    """Restore all subscriptions of the project to their positions in a snapshot.

    A subscription that was deleted since then is created again, if its topic still exists. The exit code is 5 if some
    subscriptions could not be restored.
    """
    path = f"{_path(session, name)}/restore"
    seen = session.client.post(path, {"dry_run": True})
    if dry_run:
        return _show(session, seen, "Dry run: ")
    confirm(f"Restore {name}: {_effect(seen)}?", yes)
    done = session.client.post(path, {})
    _show(session, done, "")
    if done["missing"]:
        raise click.exceptions.Exit(PARTLY_DONE)


@app.command()
@on_server
@name_argument
@yes_option
def forget(session: Session, name: str, *, yes: bool) -> None:
    """Delete a snapshot of the project."""
    confirm(f"Delete the snapshot {name}?", yes)
    session.client.delete(_path(session, name))
    session.output.say(f"Deleted {name}", {"deleted": name})


def _path(session: Session, *more: str) -> str:
    return path_of("projects", session.home, "snapshots", *more)


def _effect(seen: dict[str, Any]) -> str:
    return f"{seen['restored']:,} restored, {seen['made_again']:,} created again, {seen['missing']:,} missing"


def _show(session: Session, seen: dict[str, Any], before: str) -> None:
    session.output.say(f"{before}{_effect(seen)}", seen)
    if not session.output.json:
        for subscription in seen["subscriptions"]:
            if subscription["reason"]:
                tell(f"  {subscription['name']}: {subscription['outcome']}, {subscription['reason']}")
