"""`penstock stats` and `penstock lag`: what the server does, and who is behind."""

from __future__ import annotations

from itertools import islice
from threading import Event
from typing import Annotated, Any

import typer

from penstock.commands.output import Column, age, count, moment, rate, size
from penstock.commands.session import Session, on_server
from penstock.commands.times import seconds
from penstock.commands.topics import Limit

FLOWS = ("published", "delivered", "acked", "returned", "dead_lettered", "commits")
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


@on_server
def stats(
    session: Session,
    *,
    every: Annotated[str | None, typer.Option(metavar="DURATION", help="Again and again, until Ctrl-C.")] = None,
) -> None:
    """Show totals and rates of the server.

    Rates are those of the last ten seconds, totals those since it started. `penstock top` shows them live.
    """
    pause, never = seconds(every, "--every") if every is not None else 0.0, Event()
    while True:
        session.output.record(session.client.get("/statistics"), FIELDS)
        if not pause:
            return
        never.wait(pause)


@on_server
def lag(
    session: Session,
    *,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only readers of this topic.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Also those that are not behind.")] = False,
    limit: Limit = 0,
) -> None:
    """Show which subscriptions are behind, the furthest first.

    In a pipe: name, topic, messages behind, their bytes, in flight, age of the oldest in seconds, acked a second, and
    in how many seconds it will be done at that rate.
    """
    rows = session.pages("/subscriptions", "subscriptions", topic=topic, sort="-backlog")
    behind = (_with_end(each) for each in rows if everybody or each["backlog_messages"] or each["in_flight_messages"])
    session.table(islice(behind, limit or None), LAG, "Nobody is behind.")


def _with_end(row: dict[str, Any]) -> dict[str, Any]:
    left = row["backlog_messages"]
    done_in = 0.0 if not left else left / row["ack_rate"] if row["ack_rate"] else None
    return {**row, "done_in_seconds": done_in if done_in is None else round(done_in, 1)}
