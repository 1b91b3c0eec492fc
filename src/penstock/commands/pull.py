"""`penstock pull`: lease messages of a subscription, write them, and settle them where asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.session import Session, Subscription, Template, on_server, path_of
from penstock.commands.times import seconds

AT_ONCE = 100
LONGEST_WAIT_SECONDS = 30.0  # of one request; a longer wait is several


@on_server
def pull(
    session: Session,
    subscription: Subscription,
    *,
    most: Annotated[int, typer.Option("--count", "-c", "-n", metavar="N", help="At most so many; 0: all.", min=0)] = 1,
    ack: Annotated[bool, typer.Option("--ack", "--auto-ack", help="Settle each once it is written.")] = False,
    nack: Annotated[bool, typer.Option("--nack", help="Give each back once it is written.")] = False,
    lease: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Keep them so long. Default: as the subscription says.")
    ] = None,
    wait: Annotated[str, typer.Option(metavar="DURATION", help="For a message, when there is none.")] = "0s",
    template: Template = None,
) -> None:
    """Pull messages and write them.

    Without --ack they stay leased until their time is over and are then delivered again; --json shows the receipts for
    `penstock subs ack`. The exit code is 0 also when there was nothing.
    """
    if ack and nack:
        raise WrongUsageError("Give --ack or --nack, not both")
    body: dict[str, Any] = {} if lease is None else {"lease_seconds": seconds(lease, "--lease")}
    path = path_of("subscriptions", subscription)
    written = 0
    for deliveries in _batches(session, path, most, seconds(wait, "--wait"), body):
        for each in deliveries:
            _write(session, each, template)
        written += len(deliveries)
        if ack or nack:
            receipts = [each["receipt"] for each in deliveries]
            session.post(f"{path}/{'ack' if ack else 'nack'}", {"receipts": receipts})
        if nack:
            break  # what was given back would come again
    if sys.stderr.isatty() and not session.output.json:
        _explain(written, settled=ack or nack)


def _batches(session: Session, path: str, most: int, wait: float, body: dict[str, Any]) -> Iterator[list[Any]]:
    left, patience = most or sys.maxsize, wait
    while left > 0:
        asked = min(AT_ONCE, left)
        part = min(patience, LONGEST_WAIT_SECONDS)
        answer = session.post(f"{path}/pull", {"max_messages": asked, "wait_seconds": part, **body})
        if answer["deliveries"]:
            yield answer["deliveries"]
            left -= len(answer["deliveries"])
            patience = wait
        elif (patience := patience - part) <= 0:
            return


def _write(session: Session, delivery: dict[str, Any], template: str | None) -> None:
    if session.output.json and template is None:
        session.output.line(delivery)
        return
    message = {**delivery["message"], "receipt": delivery["receipt"], "attempt": delivery["attempt"]}
    again = f"attempt {delivery['attempt']}" if delivery["attempt"] > 1 else ""
    session.output.message(message, session.output.style(again, "red") if again else "")


def _explain(written: int, *, settled: bool) -> None:
    if not written:
        print("There is nothing to pull.", file=sys.stderr)
    elif not settled:
        print("They stay leased until their deadline; give --ack to settle them.", file=sys.stderr)
