"""`penstock faults`: let calls of a server for tests fail, wait, or be answered wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.help import Commands
from penstock.commands.output import Column, clock_time, count, moment
from penstock.commands.session import Session, on_server, path_of
from penstock.wording import counted

app = Commands("Faults on purpose, of a server for tests: list, add, remove, hits.")

FaultId = Annotated[str, typer.Argument(metavar="FAULT", help="Its id.")]

FAULTS = [
    Column("ID", "id"),
    Column("EFFECT", "effect"),
    Column("RULE", "says"),
    Column("CALLS", "calls", count, right=True),
    Column("HITS", "hits", count, right=True),
    Column("HELD", "held", count, right=True),
    Column("LAST HIT", "last_hit_at", clock_time),
]
HITS = [
    Column("HIT", "number", count, right=True),
    Column("CALL", "call", count, right=True),
    Column("AT", "at", moment),
    Column("DOOR", "door"),
    Column("VERB", "verb"),
    Column("RESOURCE", "resource", resource=True),
    Column("MESSAGES", "messages", count, right=True),
]


@app.command()
@on_server
def ls(session: Session) -> None:
    """List the faults in force.

    In a pipe: id, effect, what else the rule says, calls it was about, hits, calls it holds, time of the last hit.
    """
    faults = session.pages("/faults", "faults")
    rows = faults if session.output.json else (_row(each) for each in faults)
    session.table(rows, FAULTS, "There is no fault.")


@app.command()
@on_server
def add(
    session: Session,
    effect: Annotated[
        str,
        typer.Argument(
            metavar="EFFECT", help="error, latency, drop, close, hold, duplicate, reorder, expire or disk_full."
        ),
    ],
    *,
    door: Annotated[str | None, typer.Option(metavar="DOOR", help="Calls through it: pubsub, azure, text ...")] = None,
    verb: Annotated[str | None, typer.Option(metavar="VERB", help="Calls of it: publish, pull, push, ack ...")] = None,
    resource: Annotated[
        str | None, typer.Option(metavar="NAME", help="Calls about this topic or subscription.")
    ] = None,
    nth: Annotated[int | None, typer.Option(metavar="N", help="Only the call of this number.")] = None,
    every: Annotated[int | None, typer.Option(metavar="N", help="Each so-manieth call.")] = None,
    probability: Annotated[float | None, typer.Option(metavar="P", help="A call with this probability.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of the probability.")] = None,
    times: Annotated[int | None, typer.Option(metavar="N", help="At most so many hits; 0: no limit.")] = None,
    error: Annotated[str | None, typer.Option(metavar="ERROR", help="unavailable, not_found, internal ...")] = None,
    code: Annotated[
        str | None, typer.Option(metavar="CODE", help="One of the door's protocol: ABORTED, OperationTimedOut ...")
    ] = None,
    message: Annotated[str | None, typer.Option(metavar="TEXT", help="The sentence of the error.")] = None,
    retry_after: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="What the client is told to wait.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of latency; of hold: at most so long.")
    ] = None,
) -> None:
    """Add a fault and print its id; --project makes it one of that project's calls.

    penstock faults add error --error unavailable --door pubsub --verb publish --nth 2

    penstock faults add drop --verb publish --resource orders --times 1
    """
    given = {
        "effect": effect,
        "door": door,
        "verb": verb,
        "resource": resource,
        "nth": nth,
        "every": every,
        "probability": probability,
        "seed": seed,
        "times": times,
        "error": error,
        "code": code,
        "message": message,
        "retry_after_seconds": retry_after,
        "seconds": seconds,
    }
    made = session.create("/faults", {name: value for name, value in given.items() if value is not None})
    session.output.say(made["id"], made)


@app.command()
@on_server
def rm(
    session: Session,
    faults: Annotated[list[str] | None, typer.Argument(metavar="FAULT...", help="Their ids.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All of them, or all of --project.")] = False,
) -> None:
    """Remove faults; calls that they hold go on."""
    if bool(faults) == every:
        raise WrongUsageError("Give the ids of faults, or --all")
    removed = len(faults or ())
    for each in faults or ():
        session.client.delete(path_of("faults", each))
    if every:
        removed = session.delete("/faults")["removed"]
    session.output.say(f"Removed {counted(removed, 'fault')}", {"removed": removed})


@app.command()
@on_server
def hits(
    session: Session,
    fault: FaultId,
    *,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="Wait up to so long for them.", min=0, max=60)] = 0,
    at_least: Annotated[int, typer.Option(metavar="N", help="Wait for so many.", min=1)] = 1,
) -> None:
    """List the last hits of a fault, the oldest of them first.

    In a pipe: number of the hit, number of the call, time, door, verb, resource, messages.
    """
    found = session.client.pages(path_of("faults", fault, "hits"), "hits", wait_seconds=wait, at_least=at_least)
    session.table(found, HITS, "It has not hit yet.")


def _row(fault: dict[str, Any]) -> dict[str, Any]:
    rule = {name: value for name, value in fault["rule"].items() if value not in (None, "")}
    return {**fault, "effect": rule.pop("effect"), "says": " ".join(_words(rule))}


def _words(rule: dict[str, Any]) -> Iterator[str]:
    for name, value in rule.items():
        yield f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
