"""`penstock topics`: list, create, show, change and delete topics."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from penstock.commands.help import Commands
from penstock.commands.output import Column, age, count, moment, rate, size
from penstock.commands.questions import ask
from penstock.commands.session import Session, Topic, Yes, on_server, path_of, sharing
from penstock.commands.templates import pairs
from penstock.commands.times import seconds
from penstock.commands.times import size as read_size
from penstock.wording import counted

app = Commands("List, create, show, change and delete topics.")

Search = Annotated[str | None, typer.Option(metavar="TEXT", help="Only names with this inside.")]
Limit = Annotated[int, typer.Option(metavar="N", help="At most so many; 0: all.", min=0)]
Label = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Repeat for more.")]
Retention = Annotated[str | None, typer.Option(metavar="DURATION", help="Keep acked messages so long.")]
RetentionBytes = Annotated[str | None, typer.Option(metavar="SIZE", help="At most so much of them; 0: no cap.")]

COLUMNS = [
    Column("TOPIC", "name", resource=True),
    Column("MESSAGES", "messages", count, right=True),
    Column("SIZE", "bytes", size, right=True),
    Column("SUBS", "subscriptions", count, right=True),
    Column("PUBLISHED/S", "publish_rate", rate, right=True),
    Column("LAST PUBLISHED", "last_published_at", moment),
]
FIELDS = [
    Column("name", "name"),
    Column("created", "created_at", moment),
    Column("messages", "messages", count),
    Column("size", "bytes", size),
    Column("first offset", "first_offset"),
    Column("next offset", "next_offset"),
    Column("subscriptions", "subscriptions", count),
    Column("retention", "retention_seconds", age),
    Column("retention size", "retention_bytes", size),
    Column("schema", "schema"),
    Column("published", "published", count),
    Column("last published", "last_published_at", moment),
    Column("published/s", "publish_rate", rate),
    Column("bytes/s", "publish_bytes_rate", size),
]


def _options(label: list[str] | None, retention: str | None, retention_bytes: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if label is not None:
        given["labels"] = pairs(label, "A label")
    if retention is not None:
        given["retention_seconds"] = seconds(retention, "--retention")
    if retention_bytes is not None:
        given["retention_bytes"] = read_size(retention_bytes, "--retention-bytes")
    return given


with_options = sharing(
    {"label": (Label, None), "retention": (Retention, None), "retention_bytes": (RetentionBytes, None)},
    "options",
    _options,
)


@app.command()
@on_server
def ls(
    session: Session,
    *,
    search: Search = None,
    sort: Annotated[
        str | None, typer.Option(metavar="KEY", help="name, messages, bytes, rate ...; -rate: largest first.")
    ] = None,
    limit: Limit = 0,
) -> None:
    """List topics.

    In a pipe: name, messages, bytes, subscriptions, messages published a second, time of the last.
    """
    rows = session.pages("/topics", "topics", search=search, sort=sort)
    session.table(islice(rows, limit or None), COLUMNS, "There is no topic.")


@app.command()
@on_server
@with_options
def create(session: Session, topic: Topic, *, options: dict[str, Any]) -> None:
    """Create a topic."""
    made = session.create("/topics", {"name": topic, **options})
    session.output.say(made["name"], made)


@app.command()
@on_server
def show(session: Session, topic: Topic) -> None:
    """Show all about a topic."""
    session.output.record(session.get(path_of("topics", topic)), FIELDS)


@app.command()
@on_server
@with_options
def change(session: Session, topic: Topic, *, options: dict[str, Any]) -> None:
    """Change a topic; what is not given stays as it is. Labels replace all that there were."""
    session.output.record(session.patch(path_of("topics", topic), options), FIELDS)


@app.command()
@on_server
def delete(session: Session, topic: Topic, *, yes: Yes = False) -> None:
    """Delete a topic and its messages; its subscriptions stay, detached."""
    known = session.get(path_of("topics", topic))
    ask(
        f"Delete {known['name']} with {counted(known['messages'], 'message')}, "
        f"read by {counted(known['subscriptions'], 'subscription')}?",
        yes,
    )
    session.delete(path_of("topics", topic))
    session.output.say(f"Deleted {known['name']}", {"deleted": known["name"]})
