"""`penstock health`: one line and an exit code, for scripts and monitors."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import click

from penstock.commands.exit_codes import FAILED, UNREACHABLE
from penstock.commands.help import command
from penstock.commands.parameters import WholeNumber
from penstock.commands.session import Session, on_server
from penstock.commands.value_parsers import parse_duration
from penstock.errors import PenstockError, UnavailableError
from penstock.terminal import tell
from penstock.wording import counted

POLL_SECONDS = 0.1
NAGIOS = {0: 0, FAILED: 1, UNREACHABLE: 2}  # ok, warning, critical


@command()
@on_server
@click.option("--wait", metavar="DURATION", default="0s", help="Wait at most this long until the server is ready.")
@click.option("--max-backlog", metavar="N", type=WholeNumber(), help="Warn if more messages are unacked.")
@click.option("--max-age", metavar="DURATION", help="Warn if the oldest unacked message is older.")
@click.option(
    "--nagios", is_flag=True, help="Use the exit codes of a Nagios plug-in: 0 ok, 1 warning, 2 critical, 3 unknown."
)
def health(session: Session, *, wait: str, max_backlog: int | None, max_age: str | None, nagios: bool) -> None:
    """Check the server and print one line.

    The line has the format of a Nagios plug-in, with the backlog as performance data. The exit code is 0 if the server
    is healthy, 1 if a protocol has failed or a limit is exceeded, 4 if the server cannot be reached.

      penstock health --wait 30 && ./run-tests
    """
    oldest = None if max_age is None else parse_duration(max_age, "--max-age")
    code, word, sentence, figures = _look(session, parse_duration(wait, "--wait"), max_backlog, oldest)
    if session.output.json:
        session.output.line({"status": word.lower(), "message": sentence, **figures})
    else:
        numbers = " ".join(f"{name}={value:.15g}" for name, value in figures.items())
        tell(f"PENSTOCK {word} - {sentence}{f' | {numbers}' if numbers else ''}")
    raise click.exceptions.Exit(NAGIOS.get(code, 3) if nagios else code)


def _look(
    session: Session, wait: float, max_backlog: int | None, max_age: float | None
) -> tuple[int, str, str, dict[str, Any]]:
    try:
        return _judge(*_ready(session, wait), max_backlog, max_age)
    except UnavailableError as error:
        return UNREACHABLE, "CRITICAL", error.message, {}
    except PenstockError as error:
        return FAILED, "WARNING", error.message, {}


def _judge(
    server: dict[str, Any], totals: dict[str, Any], max_backlog: int | None, max_age: float | None
) -> tuple[int, str, str, dict[str, Any]]:
    faults = [f"{door['name']} is {door['state']}" for door in server["doors"] if _is_bad(door)]
    figures = {"backlog": totals["backlog_messages"], "in_flight": totals["in_flight_messages"]}
    age = totals.get("oldest_age_seconds")
    if age is not None:
        figures["oldest_age"] = age
    if max_backlog is not None and figures["backlog"] > max_backlog:
        faults.append(f"{figures['backlog']:,} unacked messages, more than {max_backlog:,}")
    if max_age is not None and (age or 0) > max_age:
        faults.append(f"oldest unacked message is {age:.0f} s old, more than {max_age:g}")
    if faults:
        return FAILED, "WARNING", "; ".join(faults), figures
    doors = ", ".join(door["name"] for door in server["doors"] if door["state"] == "open")
    return 0, "OK", f"{server['version']}, open: {doors}, {counted(figures['backlog'], 'unacked message')}", figures


def _is_bad(door: dict[str, Any]) -> bool:
    return door["state"] not in ("open", "closed", "off")


def _ready(session: Session, wait: float) -> tuple[dict[str, Any], dict[str, Any]]:
    until, never = time.monotonic() + wait, Event()
    while True:
        try:
            return session.client.get("/server"), session.client.get("/statistics")
        except UnavailableError:
            if time.monotonic() + POLL_SECONDS > until:
                raise
            never.wait(POLL_SECONDS)
