"""`penstock top`: the server live in a terminal, once a second."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.output import Column, age, count, rate, rich_table, size
from penstock.commands.session import Session, on_server
from penstock.commands.times import seconds
from penstock.errors import UnavailableError

PAGE = 200
LEAST_SECONDS = 0.1
SORTS = {"b": "-backlog", "n": "name", "a": "-oldest", "r": "-rate"}
TOPIC_SORTS = {"b": "-messages", "n": "name", "a": "-messages", "r": "-rate"}
KEYS = "q quit  b backlog  a age  r rate  n name"

SUBSCRIPTIONS = [
    Column("SUBSCRIPTION", "name", resource=True),
    Column("BACKLOG", "backlog_messages", count, right=True),
    Column("IN FLIGHT", "in_flight_messages", count, right=True),
    Column("OLDEST", "oldest_age_seconds", age, right=True),
    Column("OUT/S", "deliver_rate", rate, right=True),
    Column("ACKED/S", "ack_rate", rate, right=True),
]
TOPICS = [
    Column("TOPIC", "name", resource=True),
    Column("MESSAGES", "messages", count, right=True),
    Column("SIZE", "bytes", size, right=True),
    Column("SUBS", "subscriptions", count, right=True),
    Column("IN/S", "publish_rate", rate, right=True),
]


class View(NamedTuple):
    """What the person chose."""

    sort: str = "b"
    topics: bool = False
    paused: bool = False


class Look(NamedTuple):
    """What the server answered, or why it did not."""

    totals: dict[str, Any]
    rows: list[dict[str, Any]]
    problem: str = ""


@on_server
def top(
    session: Session,
    *,
    every: Annotated[str, typer.Option("--every", "-d", metavar="DURATION", help="Between two looks.")] = "1s",
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", help="End after so many looks; 0: never.")] = 0,
) -> None:
    """Show live what the server does, like the tool of that name.

    Keys: q ends it; b, a, r and n sort by backlog, age, rate and name; t changes between subscriptions and topics;
    space pauses. It needs a terminal; in a pipe, use stats --every.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsageError("top needs a terminal; in a pipe, use penstock stats --every 1s")
    from rich.live import Live

    pause, view = max(LEAST_SECONDS, seconds(every, "--every")), View()
    look = _look(session, view)
    with _keys() as resized, Live(console=session.output.console, screen=True, auto_refresh=False) as live:
        number = 0
        while True:
            live.update(_screen(session, look, view), refresh=True)
            number += 1
            if number == rounds:
                return
            key = _key(pause, resized)
            if key in ("q", "\x03", "\x04"):
                return
            view = _after(view, key)
            if not view.paused:
                look = _look(session, view)


def _after(view: View, key: str) -> View:
    if key in SORTS:
        return view._replace(sort=key)
    if key == "t":
        return view._replace(topics=not view.topics)
    return view._replace(paused=not view.paused) if key == " " else view


def _look(session: Session, view: View) -> Look:
    kind, sort = ("topics", TOPIC_SORTS) if view.topics else ("subscriptions", SORTS)
    try:
        totals, _ = session.client.get("/statistics"), session.home  # asked for here, where it may fail
        page = session.get(f"/{kind}", sort=sort[view.sort], page_size=PAGE)
        return Look(totals, page[kind])
    except UnavailableError as error:  # it may come back
        return Look({}, [], error.message)


def _screen(session: Session, look: Look, view: View) -> Any:
    from rich.console import Group
    from rich.text import Text

    height, width = session.output.console.height, session.output.console.width
    if look.problem:
        return Text(look.problem, style="red")
    head = [Text(line, no_wrap=True, overflow="ellipsis") for line in _head(look.totals)]
    columns = TOPICS if view.topics else SUBSCRIPTIONS
    table = rich_table(look.rows[: max(1, height - len(head) - 4)], columns, session.home)
    other, state = "subscriptions" if view.topics else "topics", "PAUSED  " if view.paused else ""
    keys = f"{KEYS}  t {other}  space {'go on' if view.paused else 'pause'}"
    foot = Text(f"{state}{keys}"[:width], style="dim", no_wrap=True)
    return Group(*head, Text(""), table, Text(""), foot)


def _head(totals: dict[str, Any]) -> Iterator[str]:
    def a_second(name: str) -> str:
        return f"{name.replace('_', ' ')} {rate(totals[name]['per_second'])}/s"

    yield "   ".join(map(a_second, ("published", "delivered", "acked", "returned", "dead_lettered")))
    yield (
        f"backlog {count(totals['backlog_messages'])}   in flight {count(totals['in_flight_messages'])}   "
        f"oldest {age(totals['oldest_age_seconds'])}   commits {rate(totals['commits']['per_second'])}/s, "
        f"p99 {age(totals['commits']['p99_seconds'])}   cpu {100 * totals['cpu']:.0f} %   "
        f"memory {size(totals['memory_bytes'])}"
    )


@contextmanager
def _keys() -> Iterator[int]:
    """Keys come as they are typed, and the terminal is as before in the end; readable where its size changed."""
    terminal = sys.stdin.fileno()
    before, (reader, writer) = termios.tcgetattr(terminal), os.pipe()
    os.set_blocking(writer, False)
    handler = signal.signal(signal.SIGWINCH, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        tty.setcbreak(terminal)
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGWINCH, handler)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(reader)
        os.close(writer)


def _key(wait: float, resized: int) -> str:
    """What was typed within that time; a changed size of the terminal ends the wait as well."""
    ready, _, _ = select.select([sys.stdin, resized], [], [], wait)
    if resized in ready:
        os.read(resized, 100)
    return os.read(sys.stdin.fileno(), 1).decode("latin-1") if sys.stdin in ready else ""
