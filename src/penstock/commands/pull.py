"""`penstock pull`: receive messages of a subscription, and ack or nack them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import command
from penstock.commands.parameters import count_option
from penstock.commands.session import Session, on_server, path_of, subscription_argument, template_option
from penstock.commands.value_parsers import parse_duration

BATCH_MESSAGES = 100
LONGEST_WAIT_SECONDS = 30.0  # of one request; a longer wait takes several requests


@command()
@on_server
@subscription_argument
@count_option("most", "--count", "-c", "-n", default=1)
@click.option("--ack", "--auto-ack", is_flag=True, help="Ack each message after it is written.")
@click.option("--nack", is_flag=True, help="Nack each message after it is written, so that it is delivered again.")
@click.option("--lease", metavar="DURATION", help="Ack deadline of the messages. Default: the subscription's.")
@click.option("--wait", metavar="DURATION", default="0s", help="Wait at most this long for a message.")
@template_option
def pull(
    session: Session,
    subscription: str,
    *,
    most: int,
    ack: bool,
    nack: bool,
    lease: str | None,
    wait: str,
    template: str | None,
) -> None:
    """Receive messages of a subscription and write them.

    Without --ack the messages are delivered again after their ack deadline. --json shows the receipts for
    penstock subs ack. The exit code is 0 even if there are no messages.
    """
    if ack and nack:
        raise WrongUsageError("Give --ack or --nack, not both")
    body: dict[str, Any] = {} if lease is None else {"lease_seconds": parse_duration(lease, "--lease")}
    path = path_of("subscriptions", subscription)
    written = 0
    for deliveries in _batches(session, path, most, parse_duration(wait, "--wait"), body):
        for delivery in deliveries:
            _write(session, delivery, template)
        written += len(deliveries)
        if ack or nack:
            receipts = [delivery["receipt"] for delivery in deliveries]
            session.post(f"{path}/{'ack' if ack else 'nack'}", {"receipts": receipts})
        if nack:
            break  # the next pull would return the same messages
    if sys.stderr.isatty() and not session.output.json:
        _explain(written, settled=ack or nack)


def _batches(session: Session, path: str, most: int, wait: float, body: dict[str, Any]) -> Iterator[list[Any]]:
    left, wait_left = most or sys.maxsize, wait
    while left > 0:
        batch = min(BATCH_MESSAGES, left)
        part = min(wait_left, LONGEST_WAIT_SECONDS)
        answer = session.post(f"{path}/pull", {"max_messages": batch, "wait_seconds": part, **body})
        if answer["deliveries"]:
            yield answer["deliveries"]
            left -= len(answer["deliveries"])
            wait_left = wait
        elif (wait_left := wait_left - part) <= 0:
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
        print("No messages.", file=sys.stderr)
    elif not settled:
        print("The messages are delivered again after their ack deadline. Use --ack to ack them.", file=sys.stderr)
