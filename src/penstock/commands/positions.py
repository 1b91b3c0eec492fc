"""`penstock seek`, `penstock purge` and `penstock snapshots`: the position of a subscription."""

from __future__ import annotations

import re
from typing import Any

import click

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import command, group
from penstock.commands.output import Column, moment
from penstock.commands.parameters import argument
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, dry_run_option, on_server, path_of, subscription_argument, yes_option
from penstock.commands.templates import pairs
from penstock.commands.topics import label_option
from penstock.commands.value_parsers import parse_time, rfc3339, utc_now
from penstock.wording import counted

app = group(help="List, create, show and delete snapshots of subscriptions.")

snapshot_argument = argument("snapshot", metavar="SNAPSHOT", help="Snapshot name, or projects/P/snapshots/S.")
COLUMNS = [
    Column("SNAPSHOT", "name", resource=True),
    Column("TOPIC", "topic", resource=True),
    Column("CREATED", "created_at", moment),
    Column("EXPIRES", "expires_at", moment),
]


@command()
@on_server
@subscription_argument
@argument("to", metavar="POSITION", help="beginning, end, an offset, @TIME, or snapshot:NAME.")
@dry_run_option
@yes_option
def seek(session: Session, subscription: str, to: str, *, dry_run: bool, yes: bool) -> None:
    """Move a subscription to an earlier or later position.

    --dry-run, and the question before the change, show how many messages are delivered again and how many are skipped.

      penstock seek billing @-10m --dry-run
      penstock seek billing @2026-11-15T10:00Z
      penstock seek billing snapshot:before-deploy
    """
    path, target = path_of("subscriptions", subscription, "seek"), _target(to)
    seen = session.post(path, {**target, "dry_run": True})
    if dry_run:
        return session.output.say(f"Dry run: {_effect(seen)}", seen)
    confirm(f"Seek {subscription} to {to}: {_effect(seen)}?", yes)
    done = session.post(path, target)
    session.output.say(_effect(done), done)


def _effect(seen: dict[str, Any]) -> str:
    about = "" if seen["exact"] else "at most "  # some messages may not match the filter
    return (
        f"{about}{counted(seen['come_back'], 'message')} delivered again, {about}{seen['skipped']:,} skipped, "
        f"backlog {about}{seen['backlog_before']:,} before, {about}{seen['backlog_after']:,} after"
    )


def _target(text: str) -> dict[str, Any]:
    if text in ("beginning", "end"):
        return {"to": text}
    if text.startswith("snapshot:"):
        return {"snapshot": text.removeprefix("snapshot:")}
    if text.startswith("@"):
        return {"time": rfc3339(parse_time(text[1:], utc_now()))}
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return {"offset": int(text)}
    raise WrongUsageError(f"POSITION must be beginning, end, an offset, @TIME or snapshot:NAME, not {text!r}")


@command()
@on_server
@argument("name", metavar="SUBSCRIPTION", help="Subscription name, or topic name with --topic.")
@click.option("--topic", is_flag=True, help="Remove all messages of a topic.")
@dry_run_option
@yes_option
def purge(session: Session, name: str, *, topic: bool, dry_run: bool, yes: bool) -> None:
    """Ack all messages of a subscription, or remove all messages of a topic."""
    path = path_of("topics" if topic else "subscriptions", name, "purge")
    seen = session.post(path, {"dry_run": True})
    what = f"{counted(seen['messages'], 'message')} of {'the topic' if topic else 'the subscription'} {name}"
    if dry_run:
        return session.output.say(f"Would purge {what}", seen)
    confirm(f"Purge {what}?", yes)
    done = session.post(path, {})
    session.output.say(f"Purged {counted(done['messages'], 'message')}", done)


@app.command()
@on_server
def ls(session: Session) -> None:
    """List snapshots.

    Fields in a pipe: name, topic, creation time, expiration time.
    """
    session.table(session.pages("/snapshots", "snapshots"), COLUMNS, "No snapshots.")


@app.command()
@on_server
@snapshot_argument
@subscription_argument
@label_option
def create(session: Session, snapshot: str, subscription: str, *, label: tuple[str, ...]) -> None:
    """Save the position of a subscription."""
    labels = {"labels": pairs(label, "A label")} if label else {}
    made = session.create("/snapshots", {"name": snapshot, "subscription": subscription, **labels})
    session.output.say(made["name"], made)


@app.command()
@on_server
@snapshot_argument
def show(session: Session, snapshot: str) -> None:
    """Show a snapshot."""
    session.output.record(session.get(path_of("snapshots", snapshot)), [Column("name", "name")])


@app.command()
@on_server
@snapshot_argument
@yes_option
def delete(session: Session, snapshot: str, *, yes: bool) -> None:
    """Delete a snapshot."""
    confirm(f"Delete the snapshot {snapshot}?", yes)
    session.delete(path_of("snapshots", snapshot))
    session.output.say(f"Deleted {snapshot}", {"deleted": snapshot})
