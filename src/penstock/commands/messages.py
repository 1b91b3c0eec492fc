"""`penstock peek`, `tail` and `search`: messages without consuming them."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import click

from penstock.commands.exit_codes import NOT_FOUND, WrongUsageError
from penstock.commands.help import command
from penstock.commands.parameters import WholeNumber, argument, count_option
from penstock.commands.progress import Progress, waiting
from penstock.commands.session import (
    Session,
    filter_option,
    json_path_option,
    on_server,
    path_of,
    template_option,
    topic_argument,
    with_conditions,
)
from penstock.commands.value_parsers import Window, parse_window, utc_now

PAGE = 1000
PEEK_MAX = 100_000
start_option = click.option(
    "--start",
    "-o",
    metavar="START",
    multiple=True,
    help="First message: beginning, end, an offset, -100 for the last 100, or a time such as @-10m or "
    "@2026-11-15T10:00Z. -o s@TIME -o e@TIME selects a time range.",
)
decode_option = click.option(
    "--decode", "-d", is_flag=True, help="Decode bodies with the schema of the topic, and show them as JSON."
)
followed_template_option = click.option(
    "template", "--format", "-F", metavar="TEMPLATE", help="How to write a message: '%t %o %k %s\\n'."
)


@command()
@on_server
@argument("name", metavar="TOPIC", help="Topic name, or subscription name with --sub.")
@start_option
@count_option(
    "most", "--count", "-c", "-n", default=10, type=WholeNumber(min=1, max=PEEK_MAX), help="Maximum number of messages."
)
@click.option("--sub", "-s", is_flag=True, help="Show the messages that the next pull of a subscription would return.")
@decode_option
@template_option
@with_conditions
def peek(
    session: Session,
    name: str,
    *,
    start: tuple[str, ...],
    most: int,
    sub: bool,
    decode: bool,
    template: str | None,
    **conditions: str | None,
) -> None:
    """Show messages of a topic without consuming them.

    Without -o, the last matching messages are shown.

      penstock peek orders -o 100 -n 5
      penstock peek orders -o @-10m
      penstock peek orders --sub
      penstock peek readings --decode
    """
    if sub:
        if start or any(conditions.values()):
            raise WrongUsageError("--sub cannot be combined with --start or conditions")
        parameters = {"max": most} | _decoding(decode)
        for message in session.get(path_of("subscriptions", name, "messages"), **parameters)["messages"]:
            session.output.message(message)
        return
    parameters = {**conditions, **_decoding(decode)}
    if not start:
        with waiting("Looking"):
            rows = reversed(list(_read(session, name, {"order": "desc", **parameters}, most)))
    else:
        query = _query(session, name, parse_window(start, utc_now(), Window()))
        rows = _read(session, name, query | parameters, most)
    for message in rows:
        session.output.message(message)


@command()
@on_server
@topic_argument
@click.option("--follow", "-f", is_flag=True, help="Show new messages as they arrive, until Ctrl-C.")
@count_option("--lines", "-n", default=10, help="Begin with the last N messages.")
@start_option
@click.option("exit_at_end", "--exit", "-e", is_flag=True, help="Stop at the end of the topic, even with -f.")
@count_option("most", "--count", "-c", help="Stop after N messages. 0 means no limit.")
@decode_option
@followed_template_option
@with_conditions
def tail(
    session: Session,
    topic: str,
    *,
    follow: bool,
    lines: int,
    start: tuple[str, ...],
    exit_at_end: bool,
    most: int,
    decode: bool,
    template: str | None,
    **conditions: str | None,
) -> None:
    """Show the last messages of a topic and, with -f, new messages.

    Messages are not consumed.

      penstock tail -f orders
      penstock tail orders -n 100 --filter 'attributes.kind = "paid"'
      penstock tail orders -o s@-1h -o e@-30m -F '%T %s\\n'
    """
    default = Window(first=-lines) if lines else Window(at_end=True)
    query = _query(session, topic, parse_window(start, utc_now(), default))
    follows = follow and not exit_at_end
    if follows and "until_time" in query:
        raise WrongUsageError("-f cannot be combined with an end (-o e@TIME)")
    query |= {**conditions, **_decoding(decode)}
    with closing(messages(session, topic, query, follow=follows)) as rows:
        for number, message in enumerate(rows, 1):
            session.output.message(message)
            if number == most:
                break


@command()
@on_server
@topic_argument
@argument("text", metavar="TEXT", required=False, help="Text in the body or an attribute.")
@json_path_option
@filter_option
@start_option
@count_option("most", "--count", "-c", "-n")
@decode_option
@template_option
def search(
    session: Session,
    topic: str,
    text: str | None,
    *,
    start: tuple[str, ...],
    most: int,
    decode: bool,
    template: str | None,
    **conditions: str | None,
) -> None:
    """Search a topic by text, attributes or a value in JSON bodies.

    The search starts at the beginning of the topic, or at --start. Ctrl-C stops it. The exit code is 3 if no message
    matches.

      penstock search orders 4711
      penstock search orders --where '$.customer.id=17' -o @-1h
      penstock search orders --filter 'hasPrefix(attributes.kind, "pay")' --json
    """
    conditions["text"] = text
    if not any(conditions.values()):
        raise WrongUsageError("Give a TEXT, --filter or --where to search for")
    query = _query(session, topic, parse_window(start, utc_now(), Window(first=0)))
    number = 0
    with (
        Progress("Searching") as bar,
        closing(messages(session, topic, query | conditions | _decoding(decode), bar=bar)) as rows,
    ):
        for number, message in enumerate(rows, 1):
            bar.hide()
            session.output.message(message)
            if number == most:
                break
    if not number:
        if sys.stderr.isatty():
            print("No messages found.", file=sys.stderr)
        raise click.exceptions.Exit(NOT_FOUND)


def _query(session: Session, topic: str, chosen: Window) -> dict[str, Any]:
    next_offset = session.get(path_of("topics", topic))["next_offset"] if chosen.at_end else 0
    return chosen.query(next_offset)


def _decoding(decode: bool) -> dict[str, Any]:
    return {"decode": "true"} if decode else {}


def _read(session: Session, topic: str, query: dict[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """Yield at most `most` messages, page by page. An incomplete page has the offset of the next one."""
    path, left = path_of("topics", topic, "messages"), most
    start, end = ("until", "until_time") if query.get("order") == "desc" else ("from", "at")
    while left > 0:
        page = session.get(path, **query, max=min(PAGE, left))
        yield from page["messages"]
        left -= len(page["messages"])
        if page["complete"]:
            return
        query = {name: value for name, value in query.items() if name != end} | {start: page["next_offset"]}


def messages(
    session: Session, topic: str, query: dict[str, Any], *, follow: bool = False, bar: Progress | None = None
) -> Generator[dict[str, Any], None, None]:
    """Yield the messages of a topic as the server finds them, and show the offsets on `bar`."""
    first = -1
    for line in session.stream(path_of("topics", topic, "stream"), **query, follow=follow):
        if "progress" not in line:
            yield line
        elif bar is not None:
            offset = line["progress"]["next_offset"]
            first = offset if first < 0 else first
            bar.at(offset - first)
