"""`penstock seek`, `penstock purge` and `penstock snapshots`: where a subscription goes on."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.help import Commands
from penstock.commands.output import Column, moment
from penstock.commands.questions import ask
from penstock.commands.session import DryRun, Session, Subscription, Yes, on_server, path_of
from penstock.commands.templates import pairs
from penstock.commands.times import instant, local_now, rfc3339
from penstock.commands.topics import Label
from penstock.wording import counted

app = Commands("Snapshots of subscriptions: list, create, show, delete.")

Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Its short name, or projects/P/snapshots/S.")]
COLUMNS = [
    Column("SNAPSHOT", "name", resource=True),
    Column("TOPIC", "topic", resource=True),
    Column("CREATED", "created_at", moment),
    Column("EXPIRES", "expires_at", moment),
]


@on_server
def seek(
    session: Session,
    subscription: Subscription,
    to: Annotated[str, typer.Argument(metavar="WHERE", help="beginning, end, an offset, @TIME, or snapshot:NAME.")],
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a subscription back or forth.

    --dry-run says how many messages come back, and how many are skipped; so does the question before it is done.

      penstock seek billing @-10m --dry-run
      penstock seek billing @2026-11-15T10:00Z
      penstock seek billing snapshot:before-deploy
    """
    path, target = path_of("subscriptions", subscription, "seek"), _target(to)
    seen = session.post(path, {**target, "dry_run": True})
    if dry_run:
        return session.output.say(f"Would do: {_effect(seen)}", seen)
    ask(f"Seek {subscription} to {to}: {_effect(seen)}?", yes)
    done = session.post(path, target)
    session.output.say(_effect(done), done)


def _effect(seen: dict[str, Any]) -> str:
    about = "" if seen["exact"] else "at most "  # its filter will pass over some
    return (
        f"{about}{counted(seen['come_back'], 'message')} to come back, {about}{seen['skipped']:,} to be skipped, "
        f"the backlog goes from {about}{seen['backlog_before']:,} to {about}{seen['backlog_after']:,}"
    )


def _target(text: str) -> dict[str, Any]:
    if text in ("beginning", "end"):
        return {"to": text}
    if text.startswith("snapshot:"):
        return {"snapshot": text.removeprefix("snapshot:")}
    if text.startswith("@"):
        return {"time": rfc3339(instant(text[1:], local_now()))}
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return {"offset": int(text)}
    raise WrongUsageError(f"WHERE is beginning, end, an offset, @TIME or snapshot:NAME, not {text!r}")


@on_server
def purge(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="SUB", help="A subscription, or a topic with --topic.")],
    *,
    topic: Annotated[bool, typer.Option("--topic", help="It is a topic: remove all of its messages.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Settle all that waits in a subscription, or remove all of a topic."""
    path = path_of("topics" if topic else "subscriptions", name, "purge")
    seen = session.post(path, {"dry_run": True})
    what = f"{counted(seen['messages'], 'message')} of {'the topic' if topic else 'the subscription'} {name}"
    if dry_run:
        return session.output.say(f"Would purge {what}", seen)
    ask(f"Purge {what}?", yes)
    done = session.post(path, {})
    session.output.say(f"Purged {counted(done['messages'], 'message')}", done)


@app.command()
@on_server
def ls(session: Session) -> None:
    """List snapshots.

    In a pipe: name, topic, time of creation, time at which it expires.
    """
    session.table(session.pages("/snapshots", "snapshots"), COLUMNS, "There is no snapshot.")


@app.command()
@on_server
def create(session: Session, snapshot: Snapshot, subscription: Subscription, *, label: Label = None) -> None:
    """Remember where a subscription is."""
    labels = {"labels": pairs(label, "A label")} if label else {}
    made = session.create("/snapshots", {"name": snapshot, "subscription": subscription, **labels})
    session.output.say(made["name"], made)


@app.command()
@on_server
def show(session: Session, snapshot: Snapshot) -> None:
    """Show a snapshot."""
    session.output.record(session.get(path_of("snapshots", snapshot)))


@app.command()
@on_server
def delete(session: Session, snapshot: Snapshot, *, yes: Yes = False) -> None:
    """Delete a snapshot."""
    ask(f"Delete the snapshot {snapshot}?", yes)
    session.delete(path_of("snapshots", snapshot))
    session.output.say(f"Deleted {snapshot}", {"deleted": snapshot})
