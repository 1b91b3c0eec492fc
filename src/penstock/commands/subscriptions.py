"""`penstock subs`: subscriptions, their consumers and leases, and acks by receipt."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from penstock.broker.model import SubscriptionOptions
from penstock.commands.exit_codes import FAILED, WrongUsageError
from penstock.commands.help import group
from penstock.commands.option_flags import read_options, with_subscription_options
from penstock.commands.output import Column, age, count, moment, rate, size, yes_no
from penstock.commands.parameters import argument
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, on_server, path_of, subscription_argument, yes_option
from penstock.commands.topics import limit_option, search_option
from penstock.commands.value_parsers import parse_duration, parse_time, rfc3339, utc_now
from penstock.wording import counted

app = group(help="List, create, show, change and delete subscriptions, their leases and acks.")

COLUMNS = [
    Column("SUBSCRIPTION", "name", resource=True),
    Column("TOPIC", "topic", resource=True),
    Column("KIND", "kind"),
    Column("BACKLOG", "backlog_messages", count, right=True),
    Column("IN FLIGHT", "in_flight_messages", count, right=True),
    Column("OLDEST", "oldest_age_seconds", age, right=True),
    Column("ACKED/S", "ack_rate", rate, right=True),
]
FIELDS = [
    Column("name", "name"),
    Column("topic", "topic"),
    Column("kind", "kind"),
    Column("detached", "detached", yes_no),
    Column("created", "created_at", moment),
    Column("backlog", "backlog_messages", count),
    Column("backlog size", "backlog_bytes", size),
    Column("in flight", "in_flight_messages", count),
    Column("in flight size", "in_flight_bytes", size),
    Column("oldest", "oldest_age_seconds", age),
    Column("delivered/s", "deliver_rate", rate),
    Column("acked/s", "ack_rate", rate),
    Column("last used", "last_used_at", moment),
]
LEASES = [
    Column("OFFSET", "offset", right=True),
    Column("ID", "id"),
    Column("UNTIL", "deadline", moment),
    Column("ATTEMPTS", "attempts", count, right=True),
    Column("EXTENDED", "extensions", count, right=True),
    Column("PROTOCOL", "door"),
    Column("CONSUMER", "holder"),
    Column("SINCE", "leased_at", moment),
]

NO_CONSUMERS = "No consumer is connected, and none holds messages."
CONSUMERS = [
    Column("PROTOCOL", "door"),
    Column("CONSUMER", "holder"),
    Column("KIND", "kind"),
    Column("ADDRESS", "address"),
    Column("SINCE", "since", moment),
    Column("WINDOW", "window", count, right=True),
    Column("LEASES", "leases", count, right=True),
    Column("UNTIL", "next_deadline", moment),
]
CURSORS = [
    Column("CONSUMER", "consumer"),
    Column("TOPIC", "topic", resource=True),
    Column("OFFSET", "offset", right=True),
    Column("LAG", "lag_messages", count, right=True),
    Column("LAG SIZE", "lag_bytes", size, right=True),
    Column("LAST BATCH", "last_batch.at", moment),
    Column("FROM", "last_batch.first_offset", right=True),
    Column("UNTIL", "last_batch.next_offset", right=True),
    Column("SUBSCRIPTION", "subscription", resource=True),
]


@app.command()
@on_server
@click.option("--topic", metavar="TOPIC", help="Only subscriptions of this topic.")
@search_option
@click.option("--sort", metavar="KEY", help="Sort by name, backlog, oldest or rate. -backlog puts the largest first.")
@limit_option
def ls(session: Session, *, topic: str | None, search: str | None, sort: str | None, limit: int) -> None:
    """List subscriptions.

    Fields in a pipe: name, topic, kind, backlog, messages in flight, age of the oldest unacked message in seconds,
    acks per second.
    """
    rows = session.pages("/subscriptions", "subscriptions", topic=topic, search=search, sort=sort)
    session.table(islice(rows, limit or None), COLUMNS, "No subscriptions.")


@app.command()
@on_server
@subscription_argument
@argument("topic", metavar="TOPIC", help="Topic to subscribe to.")
@click.option(
    "--start",
    "-o",
    metavar="START",
    default="end",
    help="First message to deliver: end (only new messages), beginning, an offset, or @TIME.",
)
@with_subscription_options
def create(session: Session, subscription: str, topic: str, *, start: str, **options: Any) -> None:
    """Create a subscription."""
    body = {
        "name": subscription,
        "topic": topic,
        "start": _start(start),
        "options": read_options(SubscriptionOptions, options),
    }
    made = session.create("/subscriptions", body)
    session.output.say(made["name"], made)


def _start(text: str) -> str | int:
    if text in ("beginning", "end"):
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    if text.startswith("@"):
        return rfc3339(parse_time(text[1:], utc_now()))
    raise WrongUsageError(f"--start must be beginning, end, an offset or @TIME, not {text!r}")


@app.command()
@on_server
@subscription_argument
def show(session: Session, subscription: str) -> None:
    """Show a subscription and its connected consumers."""
    record = session.get(path_of("subscriptions", subscription))
    connected = session.get(path_of("subscriptions", subscription, "consumers"))
    if not session.output.terminal or session.output.json:
        session.output.record(record | {"connected": connected["consumers"], "cursor": connected["cursor"]}, FIELDS)
        return
    session.output.record(record, FIELDS)
    if connected["cursor"] is not None:
        session.table([connected["cursor"]], CURSORS)
    else:
        session.table(connected["consumers"], CONSUMERS, NO_CONSUMERS)


@app.command()
@on_server
@subscription_argument
@with_subscription_options
def change(session: Session, subscription: str, **options: Any) -> None:
    """Change options of a subscription. Options that are not given keep their values."""
    changed = session.patch(
        path_of("subscriptions", subscription), {"options": read_options(SubscriptionOptions, options)}
    )
    session.output.record(changed, FIELDS)


@app.command()
@on_server
@subscription_argument
@yes_option
def delete(session: Session, subscription: str, *, yes: bool) -> None:
    """Delete a subscription. The messages stay in the topic."""
    record = session.get(path_of("subscriptions", subscription))
    backlog = counted(record["backlog_messages"], "unacked message")
    confirm(f"Delete {record['name']} with {backlog}?", yes)
    session.delete(path_of("subscriptions", subscription))
    session.output.say(f"Deleted {record['name']}", {"deleted": record["name"]})


@app.command()
@on_server
@subscription_argument
def consumers(session: Session, subscription: str) -> None:
    """Show the consumers that are connected to a subscription or hold messages of it.

    Fields in a pipe: protocol, consumer, kind, address, time of connecting, window, leases, first ack deadline.
    """
    connected = session.get(path_of("subscriptions", subscription, "consumers"))
    session.table(connected["consumers"], CONSUMERS, NO_CONSUMERS)


@app.command()
@on_server
@click.option("--topic", metavar="TOPIC", help="Only readers of this topic.")
@limit_option
def cursors(session: Session, *, topic: str | None, limit: int) -> None:
    """Show the positions of readers such as Spark, and how far behind they are.

    Fields in a pipe: consumer, topic, offset, messages behind, bytes behind, time, first and next offset of the last
    batch, subscription.
    """
    rows = session.pages("/cursors", "cursors", topic=topic)
    session.table(islice(rows, limit or None), CURSORS, "No readers.")


@app.command()
@on_server
@subscription_argument
@limit_option
def leases(session: Session, subscription: str, *, limit: int) -> None:
    """Show the messages in flight, their consumers and ack deadlines.

    Fields in a pipe: offset, id, ack deadline, attempts, extensions, protocol, consumer, time of delivery.
    """
    rows = session.pages(path_of("subscriptions", subscription, "leases"), "leases")
    session.table(islice(rows, limit or None), LEASES, "No messages in flight.")


receipts_argument = argument(
    "receipts",
    metavar="RECEIPT",
    nargs=-1,
    required=True,
    help="Receipt of a delivery, as shown by penstock pull --json.",
)


@app.command()
@on_server
@subscription_argument
@receipts_argument
def ack(session: Session, subscription: str, receipts: tuple[str, ...]) -> None:
    """Ack messages by their receipts."""
    _settle(session, subscription, "ack", {"receipts": list(receipts)})


@app.command()
@on_server
@subscription_argument
@receipts_argument
@click.option(
    "--delay", metavar="DURATION", help="Time before the messages are delivered again. Default: the retry policy."
)
def nack(session: Session, subscription: str, receipts: tuple[str, ...], *, delay: str | None) -> None:
    """Nack messages by their receipts, so that they are delivered again."""
    wait = {} if delay is None else {"delay_seconds": parse_duration(delay, "--delay")}
    _settle(session, subscription, "nack", {"receipts": list(receipts), **wait})


@app.command()
@on_server
@subscription_argument
@receipts_argument
@click.option("--by", metavar="DURATION", default="60s", help="New ack deadline, counted from now.")
def extend(session: Session, subscription: str, receipts: tuple[str, ...], *, by: str) -> None:
    """Extend the ack deadline of messages by their receipts."""
    _settle(session, subscription, "extend", {"receipts": list(receipts), "seconds": parse_duration(by, "--by")})


def _settle(session: Session, subscription: str, verb: str, body: dict[str, Any]) -> None:
    answer = session.post(path_of("subscriptions", subscription, verb), body)
    stale, malformed = len(answer["stale"]), len(answer["malformed"])
    counts = {"no longer good": stale, "no receipt of this subscription": malformed}
    parts = [f"{answer['settled']} done", *(f"{what}: {number}" for what, number in counts.items() if number)]
    session.output.say(", ".join(parts), answer)
    if stale or malformed:
        raise click.exceptions.Exit(FAILED)
