"""`penstock queues`, and `penstock ls`: the names of queues and topics in every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.commands.help import command, group
from penstock.commands.output import Column, age, count, size
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, on_server, path_of, queue_argument, yes_option
from penstock.commands.topics import limit_option, search_option
from penstock.wording import counted

app = group(help="List, create, show and delete queues.")

COLUMNS = [
    Column("QUEUE", "name"),
    Column("PROJECT", "project"),
    Column("BACKLOG", "backlog_messages", count, right=True),
    Column("IN FLIGHT", "in_flight_messages", count, right=True),
    Column("OLDEST", "oldest_age_seconds", age, right=True),
]
FIELDS = [
    Column("name", "name"),
    Column("project", "project"),
    Column("topic", "topic"),
    Column("subscription", "subscription"),
    Column("backlog", "backlog_messages", count),
    Column("backlog size", "backlog_bytes", size),
    Column("in flight", "in_flight_messages", count),
    Column("oldest", "oldest_age_seconds", age),
    Column("Pub/Sub", "names.pubsub"),
    Column("Azure", "names.azure"),
    Column("text", "names.text"),
    Column("Python", "names.python"),
    Column("Spark", "names.spark"),
]
DOORS = [
    Column("NAME", "id"),
    Column("KIND", "kind"),
    Column("PUB/SUB", "names.pubsub"),
    Column("AZURE", "names.azure"),
    Column("TEXT", "names.text"),
    Column("PYTHON", "names.python"),
    Column("SPARK", "names.spark"),
]


@app.command("ls")
@on_server
@search_option
@limit_option
def list_queues(session: Session, *, search: str | None, limit: int) -> None:
    """List queues.

    Fields in a pipe: name, project, backlog, messages in flight, age of the oldest unacked message in seconds.
    """
    rows = session.pages("/queues", "queues", search=search)
    session.table(islice(rows, limit or None), COLUMNS, "No queues.")


@app.command()
@on_server
@queue_argument
def create(session: Session, queue: str) -> None:
    """Create a queue: a topic, and a subscription with the same name."""
    made = session.create("/queues", {"name": queue})
    session.output.say(made["name"], made)


@app.command()
@on_server
@queue_argument
def show(session: Session, queue: str) -> None:
    """Show a queue, and its name in every protocol."""
    session.output.record(session.get(path_of("queues", queue)), FIELDS)


@app.command()
@on_server
@queue_argument
@yes_option
def delete(session: Session, queue: str, *, yes: bool) -> None:
    """Delete a queue: its topic, the messages and the subscription."""
    record = session.get(path_of("queues", queue))
    backlog = counted(record["backlog_messages"], "unacked message")
    confirm(f"Delete the queue {record['name']} with {backlog}?", yes)
    session.delete(path_of("queues", queue))
    session.output.say(f"Deleted {record['name']}", {"deleted": record["name"]})


@command()
@on_server
@search_option
@limit_option
def ls(session: Session, *, search: str | None, limit: int) -> None:
    """List all queues and topics, with their names in every protocol.

    A dash (in a pipe an empty field) means that clients of this protocol cannot reach the queue or topic: the protocol
    is closed, uses another project or does not allow the name, or it has only queues and this is a topic.
    """
    session.table(islice(_find_queues(session, search), limit or None), DOORS, "No queues and no topics.")


def _find_queues(session: Session, search: str | None) -> Iterator[dict[str, Any]]:
    queues = {queue["topic"] for queue in session.pages("/queues", "queues", search=search)}
    for topic in session.pages("/topics", "topics", search=search):
        kind = "queue" if topic["name"] in queues else "topic"
        yield {"id": topic["id"], "kind": kind, "name": topic["name"], "names": topic["names"]}
