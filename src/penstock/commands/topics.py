"""`penstock topics`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from penstock.broker.model import TopicOptions
from penstock.commands.help import group
from penstock.commands.option_flags import read_options, with_topic_options
from penstock.commands.output import Column, age, count, moment, rate, size
from penstock.commands.parameters import WholeNumber
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, on_server, path_of, topic_argument, yes_option
from penstock.wording import counted

app = group(help="List, create, show, change and delete topics.")

search_option = click.option("--search", metavar="TEXT", help="Only names that contain this text.")
limit_option = click.option(
    "--limit", metavar="N", default=0, type=WholeNumber(min=0), help="Maximum number of lines. 0 means all."
)
label_option = click.option(
    "--label", metavar="KEY=VALUE", multiple=True, help="Label of the resource. Can be repeated."
)

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


@app.command()
@on_server
@search_option
@click.option("--sort", metavar="KEY", help="Sort by name, messages, bytes or rate. -rate puts the largest first.")
@limit_option
def ls(session: Session, *, search: str | None, sort: str | None, limit: int) -> None:
    """List topics.

    Fields in a pipe: name, messages, bytes, subscriptions, published messages per second, time of the last message.
    """
    rows = session.pages("/topics", "topics", search=search, sort=sort)
    session.table(islice(rows, limit or None), COLUMNS, "No topics.")


@app.command()
@on_server
@topic_argument
@with_topic_options
def create(session: Session, topic: str, **options: Any) -> None:
    """Create a topic."""
    made = session.create("/topics", {"name": topic, **read_options(TopicOptions, options)})
    session.output.say(made["name"], made)


@app.command()
@on_server
@topic_argument
def show(session: Session, topic: str) -> None:
    """Show a topic."""
    session.output.record(session.get(path_of("topics", topic)), FIELDS)


@app.command()
@on_server
@topic_argument
@with_topic_options
def change(session: Session, topic: str, **options: Any) -> None:
    """Change options of a topic. Options that are not given keep their values. --label replaces all labels."""
    session.output.record(session.patch(path_of("topics", topic), read_options(TopicOptions, options)), FIELDS)


@app.command()
@on_server
@topic_argument
@yes_option
def delete(session: Session, topic: str, *, yes: bool) -> None:
    """Delete a topic and its messages. Its subscriptions stay, but they deliver nothing more."""
    record = session.get(path_of("topics", topic))
    messages, subscriptions = counted(record["messages"], "message"), counted(record["subscriptions"], "subscription")
    confirm(f"Delete {record['name']} with {messages} and {subscriptions}?", yes)
    session.delete(path_of("topics", topic))
    session.output.say(f"Deleted {record['name']}", {"deleted": record["name"]})
