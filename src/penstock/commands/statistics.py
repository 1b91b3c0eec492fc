"""`penstock stats` and `penstock lag`."""

from __future__ import annotations

from itertools import islice
from threading import Event
from typing import Any

import click

from penstock.broker.counts import SAMPLED
from penstock.commands.help import command
from penstock.commands.output import Column, age, count, moment, rate, size
from penstock.commands.session import Session, on_server
from penstock.commands.topics import limit_option
from penstock.commands.value_parsers import parse_duration

FLOWS = [*(counter.name for counter in SAMPLED if counter.unit == "messages"), "commits"]
FIELDS = [
    *(Column(f"{name.replace('_', ' ')}/s", f"{name}.per_second", rate) for name in FLOWS),
    *(Column(name.replace("_", " "), f"{name}.total", count) for name in FLOWS),
    Column("published bytes/s", "published_bytes.per_second", size),
    Column("backlog", "backlog_messages", count),
    Column("in flight", "in_flight_messages", count),
    Column("oldest", "oldest_age_seconds", age),
    Column("commit median", "commits.p50_seconds", age),
    Column("commit p99", "commits.p99_seconds", age),
    Column("cpu", "cpu", lambda value: f"{100 * value:.0f} %"),
    Column("memory", "memory_bytes", size),
    Column("at", "at", moment),
]
LAG = [
    Column("SUBSCRIPTION", "name", resource=True),
    Column("TOPIC", "topic", resource=True),
    Column("BEHIND", "backlog_messages", count, right=True),
    Column("BYTES", "backlog_bytes", size, right=True),
    Column("IN FLIGHT", "in_flight_messages", count, right=True),
    Column("OLDEST", "oldest_age_seconds", age, right=True),
    Column("ACKED/S", "ack_rate", rate, right=True),
    Column("DONE IN", "done_in_seconds", age, right=True),
]


@command()
@on_server
@click.option("--every", metavar="DURATION", help="Repeat at this interval, until Ctrl-C.")
def stats(session: Session, *, every: str | None) -> None:
    """Show totals and rates of the server.

    Rates are averages of the last ten seconds. Totals count from the start of the server. penstock top shows them live.
    """
    pause, never = parse_duration(every, "--every") if every is not None else 0.0, Event()
    while True:
        session.output.record(session.client.get("/statistics"), FIELDS)
        if not pause:
            return
        never.wait(pause)


@command()
@on_server
@click.option("--topic", metavar="TOPIC", help="Only subscriptions of this topic.")
@click.option("everybody", "--all", is_flag=True, help="Also show subscriptions without a backlog.")
@limit_option
def lag(session: Session, *, topic: str | None, everybody: bool, limit: int) -> None:
    """Show the backlog of subscriptions, largest first.

    Fields in a pipe: name, topic, backlog in messages and in bytes, messages in flight, age of the oldest unacked
    message in seconds, acks per second, seconds until the backlog is empty at this rate.
    """
    rows = session.pages("/subscriptions", "subscriptions", topic=topic, sort="-backlog")
    behind = (_with_end(row) for row in rows if everybody or row["backlog_messages"] or row["in_flight_messages"])
    session.table(islice(behind, limit or None), LAG, "No backlog.")


def _with_end(row: dict[str, Any]) -> dict[str, Any]:
    left = row["backlog_messages"]
    done_in = 0.0 if not left else left / row["ack_rate"] if row["ack_rate"] else None
    return {**row, "done_in_seconds": done_in if done_in is None else round(done_in, 1)}
