"""`penstock redrive`, `penstock move` and `penstock moves`: dead letters back, or messages to another topic.

The server does it; the command starts it, shows how far it is, and ends with what was moved, left and unknown.
"""

from __future__ import annotations

from threading import Event
from typing import Annotated, Any

import typer

from penstock.commands.exits import FAILED, INTERRUPTED, PARTLY_DONE, complain
from penstock.commands.help import Commands
from penstock.commands.output import Column, count, moment, rate
from penstock.commands.progress import Progress, waiting
from penstock.commands.questions import ask
from penstock.commands.session import CONDITIONS, DryRun, Session, Subscription, Yes, on_server, path_of, sharing
from penstock.wording import counted

app = Commands("Moves and redrives: list, show, stop.")

POLL_SECONDS = 0.2
NOT_CHOSEN = "not chosen"  # the one reason to leave a message that is no failure

Ids = Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this message; repeat for more.")]
Most = Annotated[int, typer.Option("--max", metavar="N", help="At most so many; 0: all.", min=0)]
Rate = Annotated[float, typer.Option("--rate", metavar="N", help="At most so many a second; 0: no limit.", min=0)]
Detach = Annotated[bool, typer.Option("--detach", help="Print the id of the move and leave it to the server.")]
Move = Annotated[str, typer.Argument(metavar="MOVE", help="Its id.")]

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


with_choice = sharing(
    CONDITIONS
    | {
        "ids": (Ids, None),
        "most": (Most, 0),
        "rate": (Rate, 0),
        "detach": (Detach, False),
        "dry_run": (DryRun, False),
        "yes": (Yes, False),
    },
    "how",
    dict,
)


@on_server
@with_choice
def redrive(
    session: Session,
    subscription: Subscription,
    *,
    to: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Not where each came from, but all to this topic.")
    ] = None,
    how: dict[str, Any],
) -> None:
    """Send dead letters back to the topics they came from.

    SUB is a subscription of the dead letter topic, or that topic where nobody reads it. A message is published once
    also when the server or this command is killed in the middle and the redrive is started again. The exit code is 5
    when something that was chosen could not be moved.
    """
    _run(session, {"from": subscription, "to": to}, **how)


@on_server
@with_choice
def move(
    session: Session,
    subscription: Subscription,
    to: Annotated[str, typer.Argument(metavar="TOPIC", help="Where they go.")],
    *,
    how: dict[str, Any],
) -> None:
    """Move what is not acked of a subscription to another topic.

    Each is published there and then acked here, once also when it is broken off and started again.
    """
    _run(session, {"from": subscription, "to": to}, **how)


def _run(
    session: Session,
    move: dict[str, Any],
    *,
    ids: list[str] | None,
    most: int,
    rate: float,
    detach: bool,
    dry_run: bool,
    yes: bool,
    **conditions: str | None,
) -> None:
    move |= {name: value or "" for name, value in conditions.items()} | {"ids": ids or [], "max": most}
    with waiting("Counting"):
        seen = session.create("/moves", {**move, "dry_run": True})
    if dry_run:
        return _show_preview(session, seen)
    if not seen["would_move"]:
        return _end(session, _not_begun(seen, move, rate))
    about = "" if seen["complete"] else "at least "
    ask(f"Move {about}{counted(seen['would_move'], 'message')} to {_places(seen)}?", yes)
    started = session.create("/moves", {**move, "rate": rate})
    if detach:
        return session.output.say(started["id"], started)
    try:
        _watch(session, started)
    except KeyboardInterrupt:
        session.client.delete(path_of("moves", started["id"]))
        _receipt(session, session.client.get(path_of("moves", started["id"])))
        raise typer.Exit(INTERRUPTED) from None


def _places(seen: dict[str, Any]) -> str:
    topics = list(seen["by_topic"])
    return topics[0] if len(topics) == 1 else f"{len(topics)} topics"


def _show_preview(session: Session, seen: dict[str, Any]) -> None:
    if session.output.json:
        return session.output.line(seen)
    about = "" if seen["complete"] else "at least "
    print(f"Would move {about}{seen['would_move']:,}, would leave {seen['would_leave']:,}")
    for topic, number in seen["by_topic"].items():
        print(f"  {number:,} to {topic}")
    for reason, number in seen["reasons"].items():
        print(f"  {number:,} stay: {reason}")


def _watch(session: Session, move: dict[str, Any]) -> None:
    never = Event()
    with Progress("Moving", move["total"]) as bar:
        while move["state"] == "running":
            never.wait(POLL_SECONDS)
            move = session.client.get(path_of("moves", move["id"]))
            bar.at(move["moved"] + move["left"] + move["unknown"], move["total"])
    _end(session, move)


def _not_begun(seen: dict[str, Any], move: dict[str, Any], rate: float) -> dict[str, Any]:
    """The record of a move that has nothing to do, and is not started: as one that is over, without id and times."""
    never: dict[str, Any] = {"id": None, "started_at": None, "ended_at": None, "reason": "", "topic": None}
    counts = {"moved": 0, "left": seen["would_leave"], "unknown": 0, "total": seen["would_leave"]}
    places = {"from": move["from"], "to": move["to"], "reasons": seen["reasons"], "max": move["max"], "rate": rate}
    return never | {"state": "done"} | counts | places


def _end(session: Session, move: dict[str, Any]) -> None:
    """The receipt, and the exit code of what came of it."""
    _receipt(session, move)
    failed = {reason: number for reason, number in move["reasons"].items() if reason != NOT_CHOSEN}
    if move["state"] == "failed":
        raise typer.Exit(FAILED)
    if move["state"] != "done" or failed or move["unknown"]:
        raise typer.Exit(PARTLY_DONE)


def _receipt(session: Session, move: dict[str, Any]) -> None:
    sentence = f"Moved {move['moved']:,}, left {move['left']:,}, unknown {move['unknown']:,}"
    if move["id"] is None:
        sentence = f"There is nothing to move; left {move['left']:,}"
    session.output.say(sentence, move)
    if not session.output.json:
        for reason, number in move["reasons"].items():
            print(f"  {number:,} stay: {reason}")
    if move["reason"]:
        complain(f"The move {'ended' if move['state'] == 'done' else move['state']}: {move['reason']}")


@app.command()
@on_server
def ls(session: Session) -> None:
    """List the moves since the start of the server.

    In a pipe: id, state, from, to, moved, left, unknown, total, time of the start.
    """
    session.table(session.client.pages("/moves", "moves"), COLUMNS, "There was no move.")


@app.command()
@on_server
def show(session: Session, move: Move) -> None:
    """Show a move."""
    session.output.record(session.client.get(path_of("moves", move)), FIELDS)


@app.command()
@on_server
def stop(session: Session, move: Move) -> None:
    """Stop a move after the step it is in; what was moved stays moved."""
    session.client.delete(path_of("moves", move))
    _receipt(session, session.client.get(path_of("moves", move)))
