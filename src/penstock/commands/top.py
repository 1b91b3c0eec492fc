"""`penstock top`: live statistics in a terminal."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from penstock.broker.counts import SAMPLED
from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import command
from penstock.commands.output import Column, age, count, draw, rate, size, table_lines, whole_screen
from penstock.commands.parameters import WholeNumber
from penstock.commands.session import Session, on_server
from penstock.commands.value_parsers import parse_duration
from penstock.errors import UnavailableError
from penstock.terminal import safe_text

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
    """The sort order and the table that the user chose."""

    sort: str = "b"
    topics: bool = False
    paused: bool = False


class Look(NamedTuple):
    """Statistics of the server, or the reason why there are none."""

    totals: dict[str, Any]
    rows: list[dict[str, Any]]
    problem: str = ""


@command()
@on_server
@click.option("--every", "-d", metavar="DURATION", default="1s", help="Refresh interval.")
@click.option("--rounds", metavar="N", default=0, type=WholeNumber(), help="Stop after N refreshes. 0 means never.")
def top(session: Session, *, every: str, rounds: int) -> None:
    """Show live statistics of the server.

    Keys: q quits. b, a, r and n sort by backlog, age, rate and name. t switches between subscriptions and topics. Space
    pauses. This command needs a terminal. In a pipe, use penstock stats --every.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsageError("top needs a terminal. In a pipe, use penstock stats --every 1s")
    pause, view = max(LEAST_SECONDS, parse_duration(every, "--every")), View()
    look = _look(session, view)
    with _keys() as resized, whole_screen():
        number = 0
        while True:
            draw(_screen(session, look, view))
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
        # The project is requested here too, because the request may fail.
        totals, _ = session.client.get("/statistics"), session.home
        page = session.get(f"/{kind}", sort=sort[view.sort], page_size=PAGE)
        return Look(totals, page[kind])
    except UnavailableError as error:  # the server may return
        return Look({}, [], error.message)


def _screen(session: Session, look: Look, view: View) -> list[str]:
    """Return the lines of the screen, as many and as wide as the terminal has room for."""
    width, height = shutil.get_terminal_size()
    style = session.output.style
    if look.problem:
        return [style(safe_text(look.problem), "red")]
    head = list(_head(look.totals))
    rows = look.rows[: max(1, height - len(head) - 5)]
    title, *table = table_lines(rows, TOPICS if view.topics else SUBSCRIPTIONS, width, session.home)
    other, state = "subscriptions" if view.topics else "topics", "PAUSED  " if view.paused else ""
    keys = f"{state}{KEYS}  t {other}  space {'resume' if view.paused else 'pause'}"
    plain, table = [line[:width] for line in (*head, "")], [line[:width] for line in (*table, "")]
    return [*plain, style(title[:width], "bold"), *table, style(keys[:width], "dim")]


def _head(totals: dict[str, Any]) -> Iterator[str]:
    def a_second(name: str) -> str:
        return f"{name.replace('_', ' ')} {rate(totals[name]['per_second'])}/s"

    yield "   ".join(a_second(counter.name) for counter in SAMPLED if counter.unit == "messages")
    yield (
        f"backlog {count(totals['backlog_messages'])}   in flight {count(totals['in_flight_messages'])}   "
        f"oldest {age(totals['oldest_age_seconds'])}   commits {rate(totals['commits']['per_second'])}/s, "
        f"p99 {age(totals['commits']['p99_seconds'])}   cpu {100 * totals['cpu']:.0f} %   "
        f"memory {size(totals['memory_bytes'])}"
    )


@contextmanager
def _keys() -> Iterator[int]:
    """Read keys without Enter, and restore the terminal at the end. Yield a file that is readable after a resize."""
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
    """Return the key typed within this time, or "". A resize ends the wait."""
    ready, _, _ = select.select([sys.stdin, resized], [], [], wait)
    if resized in ready:
        os.read(resized, 100)
    return os.read(sys.stdin.fileno(), 1).decode("latin-1") if sys.stdin in ready else ""
