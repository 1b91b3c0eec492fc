"""`penstock faults`: make calls of a test server fail, wait or return wrong answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import group
from penstock.commands.output import Column, clock_time, count, moment
from penstock.commands.parameters import Number, WholeNumber, argument
from penstock.commands.session import Session, on_server, path_of
from penstock.wording import counted

app = group(help="Inject faults into a test server: list, add, remove, show hits.")

fault_id_argument = argument("fault", metavar="FAULT", help="Id of the fault.")

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
    Column("PROTOCOL", "door"),
    Column("VERB", "verb"),
    Column("RESOURCE", "resource", resource=True),
    Column("MESSAGES", "messages", count, right=True),
]


@app.command()
@on_server
def ls(session: Session) -> None:
    """List the faults in force.

    Fields in a pipe: id, effect, rest of the rule, matching calls, hits, held calls, time of the last hit.
    """
    faults = session.pages("/faults", "faults")
    rows = faults if session.output.json else (_row(fault) for fault in faults)
    session.table(rows, FAULTS, "No faults.")


# --door was the name of --protocol.
@app.command(context_settings={"token_normalize_func": lambda name: "protocol" if name == "door" else name})
@on_server
@argument(
    "effect", metavar="EFFECT", help="error, latency, drop, close, hold, duplicate, reorder, expire or disk_full."
)
@click.option(
    "door", "--protocol", metavar="PROTOCOL", help="Only calls of this protocol: pubsub, azure, text, flight or http."
)
@click.option("--verb", metavar="VERB", help="Only calls of this kind: publish, pull, push, ack ...")
@click.option("--resource", metavar="NAME", help="Only calls on this topic or subscription.")
@click.option("--nth", metavar="N", type=WholeNumber(), help="Apply only to the Nth matching call.")
@click.option("--every", metavar="N", type=WholeNumber(), help="Apply to every Nth matching call.")
@click.option(
    "--probability", metavar="P", type=Number(), help="Apply to each matching call with this probability, from 0 to 1."
)
@click.option("--seed", metavar="N", type=WholeNumber(), help="Seed of the random numbers for --probability.")
@click.option("--times", metavar="N", type=WholeNumber(), help="Stop after N hits. 0 means no limit.")
@click.option("--error", metavar="ERROR", help="Error to return: unavailable, not_found, internal ...")
@click.option("--code", metavar="CODE", help="Error code of the protocol to return: ABORTED, OperationTimedOut ...")
@click.option("--message", metavar="TEXT", help="Message of the error.")
@click.option(
    "retry_after_seconds",
    "--retry-after",
    metavar="SECONDS",
    type=Number(),
    help="Retry delay to send to the client.",
)
@click.option("--seconds", metavar="SECONDS", type=Number(), help="Delay of latency, or longest time of hold.")
def add(session: Session, effect: str, **rule: Any) -> None:
    """Add a fault and print its id.

    With --project the fault applies only to calls of that project.

      penstock faults add error --error unavailable --protocol pubsub --nth 2
      penstock faults add drop --verb publish --resource orders --times 1
    """
    given = {name: value for name, value in rule.items() if value is not None}
    made = session.create("/faults", {"effect": effect, **given})
    session.output.say(made["id"], made)


@app.command()
@on_server
@argument("faults", metavar="FAULT", nargs=-1, help="Ids of the faults.")
@click.option("every", "--all", is_flag=True, help="Remove all faults, or all faults of --project.")
def rm(session: Session, faults: tuple[str, ...], *, every: bool) -> None:
    """Remove faults. Held calls continue."""
    if bool(faults) == every:
        raise WrongUsageError("Give the ids of faults, or --all")
    removed = len(faults)
    for fault in faults:
        session.client.delete(path_of("faults", fault))
    if every:
        removed = session.delete("/faults")["removed"]
    session.output.say(f"Removed {counted(removed, 'fault')}", {"removed": removed})


@app.command()
@on_server
@fault_id_argument
@click.option(
    "--wait", metavar="SECONDS", default=0, type=Number(min=0, max=60), help="Wait at most this long for the hits."
)
@click.option("--at-least", metavar="N", default=1, type=WholeNumber(min=1), help="Number of hits to wait for.")
def hits(session: Session, fault: str, *, wait: float, at_least: int) -> None:
    """List the last hits of a fault, oldest first.

    Fields in a pipe: number of the hit, number of the call, time, protocol, verb, resource, messages.
    """
    rows = session.client.pages(path_of("faults", fault, "hits"), "hits", wait_seconds=wait, at_least=at_least)
    session.table(rows, HITS, "No hits yet.")


def _row(fault: dict[str, Any]) -> dict[str, Any]:
    rule = {name: value for name, value in fault["rule"].items() if value not in (None, "")}
    return {**fault, "effect": rule.pop("effect"), "says": " ".join(_words(rule))}


def _words(rule: dict[str, Any]) -> Iterator[str]:
    for name, value in rule.items():
        yield f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
