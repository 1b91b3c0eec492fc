"""`penstock queues` and `penstock ls`: queues, and what each thing is called at every door."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.commands.help import Commands
from penstock.commands.output import Column, age, count, size
from penstock.commands.questions import ask
from penstock.commands.session import Queue, Session, Yes, on_server, path_of
from penstock.commands.topics import Limit, Search
from penstock.wording import counted

app = Commands("List, create, show and delete queues.")

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
def list_queues(session: Session, *, search: Search = None, limit: Limit = 0) -> None:
    """List queues.

    In a pipe: name, project, backlog, in flight, age of the oldest in seconds.
    """
    rows = session.pages("/queues", "queues", search=search)
    session.table(islice(rows, limit or None), COLUMNS, "There is no queue.")


@app.command()
@on_server
def create(session: Session, queue: Queue) -> None:
    """Create a queue: a topic, and the subscription of its name."""
    made = session.create("/queues", {"name": queue})
    session.output.say(made["name"], made)


@app.command()
@on_server
def show(session: Session, queue: Queue) -> None:
    """Show all about a queue, and its name at every door."""
    session.output.record(session.get(path_of("queues", queue)), FIELDS)


@app.command()
@on_server
def delete(session: Session, queue: Queue, *, yes: Yes = False) -> None:
    """Delete a queue: its topic with the messages, and its subscription."""
    known = session.get(path_of("queues", queue))
    ask(f"Delete the queue {known['name']} with {counted(known['backlog_messages'], 'message')} waiting?", yes)
    session.delete(path_of("queues", queue))
    session.output.say(f"Deleted {known['name']}", {"deleted": known["name"]})


@on_server
def ls(session: Session, *, search: Search = None, limit: Limit = 0) -> None:
    """List every queue and topic with its name at each door.

    A dash, in a pipe an empty field, where clients of that door cannot reach it: they live in another project, the
    name is not allowed there, the door is closed, or it is Azure's and this is no queue.
    """
    session.table(islice(_named(session, search), limit or None), DOORS, "There is no queue and no topic.")


def _named(session: Session, search: str | None) -> Iterator[dict[str, Any]]:
    queues = {each["topic"] for each in session.pages("/queues", "queues", search=search)}
    for topic in session.pages("/topics", "topics", search=search):
        kind = "queue" if topic["name"] in queues else "topic"
        yield {"id": topic["id"], "kind": kind, "name": topic["name"], "names": topic["names"]}
