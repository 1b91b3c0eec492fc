"""`penstock peek`, `tail` and `search`: look at messages and consume nothing."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Annotated, Any

import typer

from penstock.commands.exits import NOT_FOUND, WrongUsageError
from penstock.commands.progress import Progress, waiting
from penstock.commands.session import (
    Conditions,
    Filter,
    JsonPath,
    Session,
    Template,
    Topic,
    on_server,
    path_of,
    with_conditions,
)
from penstock.commands.times import Window, local_now, window

PAGE = 1000
PEEK_MAX = 100_000
Start = Annotated[
    list[str] | None,
    typer.Option(
        "--start",
        "-o",
        metavar="START",
        help="beginning, end, 100, -100 (the last 100), @-10m, @2026-11-15T10:00Z; -o s@TIME -o e@TIME: between.",
    ),
]
Decode = Annotated[
    bool, typer.Option("--decode", "-d", help="Avro and Protocol Buffers as JSON, by the schema of the topic.")
]
FollowedTemplate = Annotated[
    str | None,
    typer.Option("--format", "-F", metavar="TEMPLATE", help="How to write a message: '%t %o %k %s\\n'."),
]


@on_server
@with_conditions
def peek(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Or a subscription, with --sub.")],
    *,
    start: Start = None,
    most: Annotated[
        int, typer.Option("--count", "-c", "-n", metavar="N", help="At most so many.", min=1, max=PEEK_MAX)
    ] = 10,
    sub: Annotated[bool, typer.Option("--sub", "-s", help="What the next pull of a subscription would give.")] = False,
    decode: Decode = False,
    template: Template = None,
    conditions: Conditions,
) -> None:
    """Show messages of a topic without consuming them.

    Without -o, the last ones: of the topic, or of those that meet the conditions.

      penstock peek orders -o 100 -n 5
      penstock peek orders -o @-10m
      penstock peek orders --sub
      penstock peek readings --decode
    """
    if sub:
        if start or any(conditions.values()):
            raise WrongUsageError("--sub shows what comes next: it goes with no start and no condition")
        asked = {"max": most} | _decoding(decode)
        for message in session.get(path_of("subscriptions", name, "messages"), **asked)["messages"]:
            session.output.message(message)
        return
    asked = {**conditions, **_decoding(decode)}
    if not start:
        with waiting("Looking"):
            found = reversed(list(_read(session, name, {"order": "desc", **asked}, most)))
    else:
        query = _query(session, name, window(start, local_now(), Window()))
        found = _read(session, name, query | asked, most)
    for message in found:
        session.output.message(message)


@on_server
@with_conditions
def tail(
    session: Session,
    topic: Topic,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", help="Begin so many before the end.", min=0)] = 10,
    start: Start = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", "-e", help="End at the end, as without -f.")] = False,
    most: Annotated[int, typer.Option("--count", "-c", metavar="N", help="End after so many; 0: never.", min=0)] = 0,
    decode: Decode = False,
    template: FollowedTemplate = None,
    conditions: Conditions,
) -> None:
    """Show the end of a topic and, with -f, what comes.

    Nothing is consumed.

      penstock tail -f orders
      penstock tail orders -n 100 --filter 'attributes.kind = "paid"'
      penstock tail orders -o s@-1h -o e@-30m -F '%T %s\\n'
    """
    default = Window(first=-lines) if lines else Window(at_end=True)
    query = _query(session, topic, window(start or [], local_now(), default))
    follows = follow and not exit_at_end
    if follows and "until_time" in query:
        raise WrongUsageError("-f goes on and on: leave it away, or the end of the window")
    query |= {**conditions, **_decoding(decode)}
    with closing(messages(session, topic, query, follow=follows)) as found:
        for number, message in enumerate(found, 1):
            session.output.message(message)
            if number == most:
                break


@on_server
def search(
    session: Session,
    topic: Topic,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="In body or attributes.")] = None,
    *,
    where: JsonPath = None,
    filter_: Filter = None,
    start: Start = None,
    most: Annotated[int, typer.Option("--count", "-c", "-n", metavar="N", help="At most so many; 0: all.", min=0)] = 0,
    decode: Decode = False,
    template: Template = None,
) -> None:
    """Search a topic by text, attributes or a place in JSON bodies.

    From its beginning, unless -o says otherwise; what is found is shown as it is found, and Ctrl-C ends it. The exit
    code is 3 where nothing was found.

      penstock search orders 4711
      penstock search orders --where '$.customer.id=17' -o @-1h
      penstock search orders --filter 'hasPrefix(attributes.kind, "pay")' --json
    """
    conditions = {"text": text, "json": where, "filter": filter_}
    if not any(conditions.values()):
        raise WrongUsageError("Give a TEXT, --filter or --where to search for")
    query = _query(session, topic, window(start or [], local_now(), Window(first=0)))
    number = 0
    with (
        Progress("Searching") as bar,
        closing(messages(session, topic, query | conditions | _decoding(decode), bar=bar)) as found,
    ):
        for number, message in enumerate(found, 1):
            bar.hide()
            session.output.message(message)
            if number == most:
                break
    if not number:
        if sys.stderr.isatty():
            print("Nothing was found.", file=sys.stderr)
        raise typer.Exit(NOT_FOUND)


def _query(session: Session, topic: str, chosen: Window) -> dict[str, Any]:
    next_offset = session.get(path_of("topics", topic))["next_offset"] if chosen.at_end else 0
    return chosen.query(next_offset)


def _decoding(decode: bool) -> dict[str, Any]:
    return {"decode": "true"} if decode else {}


def _read(session: Session, topic: str, query: dict[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """Page by page: an answer may stop short of what was asked for, and says where to go on."""
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
    """The messages of a topic as the server finds them, however many; `bar` goes along with the offsets."""
    first = -1
    for line in session.stream(path_of("topics", topic, "stream"), **query, follow=follow):
        if "progress" not in line:
            yield line
        elif bar is not None:
            place = line["progress"]["next_offset"]
            first = place if first < 0 else first
            bar.at(place - first)
