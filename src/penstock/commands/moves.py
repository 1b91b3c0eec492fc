"""`penstock redrive`, `penstock move` and `penstock moves`.

The server moves the messages. The command starts the move, shows its progress and prints the result.
"""

from __future__ import annotations

from threading import Event
from typing import Any

import click

from penstock.commands.exit_codes import FAILED, INTERRUPTED, PARTLY_DONE, complain
from penstock.commands.help import command, group
from penstock.commands.output import Column, count, moment, rate
from penstock.commands.parameters import argument, count_option, rate_option, with_all
from penstock.commands.progress import Progress, waiting
from penstock.commands.prompts import confirm
from penstock.commands.session import (
    Session,
    dry_run_option,
    on_server,
    path_of,
    subscription_argument,
    with_conditions,
    yes_option,
)
from penstock.terminal import tell
from penstock.wording import counted

app = group(help="List, show and stop moves and redrives.")

POLL_SECONDS = 0.2
NOT_CHOSEN = "not chosen"  # the only reason to leave a message that is not a failure

ids_option = click.option(
    "ids", "--id", metavar="ID", multiple=True, help="Move only the message with this id. Can be repeated."
)
most_option = count_option("most", "--max", help="Maximum number of messages to move. 0 means all.")
detach_option = click.option(
    "--detach", is_flag=True, help="Print the id of the move and exit. The server continues the move."
)
move_argument = argument("move", metavar="MOVE", help="Id of the move.")

COLUMNS = [
    Column("ID", "id"),
    Column("STATE", "state"),
    Column("FROM", "from", resource=True),
    Column("TO", "to", resource=True),
    Column("MOVED", "moved", count, right=True),
    Column("LEFT", "left", count, right=True),
    Column("UNKNOWN", "unknown", count, right=True),
    Column("TOTAL", "total", count, right=True),
    Column("STARTED", "started_at", moment),
]
FIELDS = [
    Column("id", "id"),
    Column("state", "state"),
    Column("from", "from"),
    Column("to", "to"),
    Column("moved", "moved", count),
    Column("left", "left", count),
    Column("unknown", "unknown", count),
    Column("total", "total", count),
    Column("rate", "rate", rate),
    Column("started", "started_at", moment),
    Column("ended", "ended_at", moment),
]


with_choice = with_all(with_conditions, ids_option, most_option, rate_option, detach_option, dry_run_option, yes_option)


@command()
@on_server
@subscription_argument
@click.option("--to", metavar="TOPIC", help="Send all messages to this topic, instead of the topics they came from.")
@with_choice
def redrive(session: Session, subscription: str, *, to: str | None, **how: Any) -> None:
    """Send dead letters back to the topics they came from.

    SUBSCRIPTION is a subscription of the dead letter topic, or the topic itself if it has no subscription. Every
    message is published exactly once, even if the server or this command is killed and the redrive is started again.
    The exit code is 5 if some of the chosen messages could not be moved.
    """
    _run(session, {"from": subscription, "to": to}, **how)


@command()
@on_server
@subscription_argument
@argument("to", metavar="TOPIC", help="Topic to move the messages to.")
@with_choice
def move(session: Session, subscription: str, to: str, **how: Any) -> None:
    """Move unacked messages of a subscription to another topic.

    Each message is published to TOPIC and then acked. It is published exactly once, even if the move is interrupted and
    started again.
    """
    _run(session, {"from": subscription, "to": to}, **how)


def _run(
    session: Session,
    move: dict[str, Any],
    *,
    ids: tuple[str, ...],
    most: int,
    rate: float,
    detach: bool,
    dry_run: bool,
    yes: bool,
    **conditions: str | None,
) -> None:
    move |= {name: value or "" for name, value in conditions.items()} | {"ids": list(ids), "max": most}
    with waiting("Counting"):
        seen = session.create("/moves", {**move, "dry_run": True})
    if dry_run:
        return _show_preview(session, seen)
    if not seen["would_move"]:
        return _end(session, _empty_result(seen, move, rate))
    about = "" if seen["complete"] else "at least "
    confirm(f"Move {about}{counted(seen['would_move'], 'message')} to {_places(seen)}?", yes)
    started = session.create("/moves", {**move, "rate": rate})
    if detach:
        return session.output.say(started["id"], started)
    try:
        _watch(session, started)
    except KeyboardInterrupt:
        session.client.delete(path_of("moves", started["id"]))
        _print_result(session, session.client.get(path_of("moves", started["id"])))
        raise click.exceptions.Exit(INTERRUPTED) from None


def _places(seen: dict[str, Any]) -> str:
    topics = list(seen["by_topic"])
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"


def _show_preview(session: Session, seen: dict[str, Any]) -> None:
    if session.output.json:
        return session.output.line(seen)
    about = "" if seen["complete"] else "at least "
    tell(f"Would move {about}{seen['would_move']:,}, would leave {seen['would_leave']:,}")
    for topic, number in seen["by_topic"].items():
        tell(f"  {number:,} to {topic}")
    for reason, number in seen["reasons"].items():
        tell(f"  {number:,} left: {reason}")


def _watch(session: Session, move: dict[str, Any]) -> None:
    never = Event()
    with Progress("Moving", move["total"]) as bar:
        while move["state"] == "running":
            never.wait(POLL_SECONDS)
            move = session.client.get(path_of("moves", move["id"]))
            bar.at(move["moved"] + move["left"] + move["unknown"], move["total"])
    _end(session, move)


def _empty_result(seen: dict[str, Any], move: dict[str, Any], rate: float) -> dict[str, Any]:
    """Return the record of a move that is not started because there is nothing to move."""
    never: dict[str, Any] = {"id": None, "started_at": None, "ended_at": None, "reason": "", "topic": None}
    counts = {"moved": 0, "left": seen["would_leave"], "unknown": 0, "total": seen["would_leave"]}
    places = {"from": move["from"], "to": move["to"], "reasons": seen["reasons"], "max": move["max"], "rate": rate}
    return never | {"state": "done"} | counts | places


def _end(session: Session, move: dict[str, Any]) -> None:
    """Print the result and exit with its code."""
    _print_result(session, move)
    failed = {reason: number for reason, number in move["reasons"].items() if reason != NOT_CHOSEN}
    if move["state"] == "failed":
        raise click.exceptions.Exit(FAILED)
    if move["state"] != "done" or failed or move["unknown"]:
        raise click.exceptions.Exit(PARTLY_DONE)


def _print_result(session: Session, move: dict[str, Any]) -> None:
    sentence = f"Moved {move['moved']:,}, left {move['left']:,}, unknown {move['unknown']:,}"
    if move["id"] is None:
        sentence = f"Nothing to move, left {move['left']:,}"
    session.output.say(sentence, move)
    if not session.output.json:
        for reason, number in move["reasons"].items():
            tell(f"  {number:,} left: {reason}")
    if move["reason"]:
        complain(f"The move {'ended' if move['state'] == 'done' else move['state']}: {move['reason']}")


@app.command()
@on_server
def ls(session: Session) -> None:
    """List the moves since the server started.

    Fields in a pipe: id, state, from, to, moved, left, unknown, total, start time.
    """
    session.table(session.client.pages("/moves", "moves"), COLUMNS, "No moves.")


@app.command()
@on_server
@move_argument
def show(session: Session, move: str) -> None:
    """Show a move."""
    session.output.record(session.client.get(path_of("moves", move)), FIELDS)


@app.command()
@on_server
@move_argument
def stop(session: Session, move: str) -> None:
    """Stop a move after its current step. Messages that were moved stay moved."""
    session.client.delete(path_of("moves", move))
    _print_result(session, session.client.get(path_of("moves", move)))
