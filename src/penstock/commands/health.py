"""`penstock health`: one line and an exit code, for scripts and monitors."""

from __future__ import annotations

import time
from threading import Event
from typing import Annotated, Any

import typer

from penstock.commands.exits import FAILED, UNREACHABLE
from penstock.commands.session import Session, on_server
from penstock.commands.times import seconds
from penstock.errors import PenstockError, UnavailableError
from penstock.wording import counted

POLL_SECONDS = 0.1
NAGIOS = {0: 0, FAILED: 1, UNREACHABLE: 2}  # ok, warning, critical


@on_server
def health(
    session: Session,
    *,
    wait: Annotated[str, typer.Option(metavar="DURATION", help="Until the server is ready, so long at most.")] = "0s",
    max_backlog: Annotated[int | None, typer.Option(metavar="N", help="More waiting messages are a fault.")] = None,
    max_age: Annotated[str | None, typer.Option(metavar="DURATION", help="An older one is a fault.")] = None,
    nagios: Annotated[
        bool, typer.Option("--nagios", help="Exit codes of a Nagios plug-in: 0 ok, 1 warning, 2 critical, 3 unknown.")
    ] = False,
) -> None:
    """Say in one line whether the server is well.

    The line is that of a Nagios plug-in, with the backlog as its performance data. The exit code is 0 when all is well,
    1 when a door is closed or a limit is passed, 4 when the server cannot be reached.

      penstock health --wait 30 && ./run-tests
    """
    oldest = None if max_age is None else seconds(max_age, "--max-age")
    code, word, sentence, figures = _look(session, seconds(wait, "--wait"), max_backlog, oldest)
    if session.output.json:
        session.output.line({"status": word.lower(), "message": sentence, **figures})
    else:
        numbers = " ".join(f"{name}={value:.15g}" for name, value in figures.items())
        print(f"PENSTOCK {word} - {sentence}{f' | {numbers}' if numbers else ''}")
    raise typer.Exit(NAGIOS.get(code, 3) if nagios else code)


def _look(
    session: Session, wait: float, max_backlog: int | None, max_age: float | None
) -> tuple[int, str, str, dict[str, Any]]:
    try:
        server, totals = _ready(session, wait)
    except UnavailableError as error:
        return UNREACHABLE, "CRITICAL", error.message, {}
    except PenstockError as error:
        return FAILED, "WARNING", error.message, {}
    faults = [f"the {each['name']} door is {each['state']}" for each in server["doors"] if _is_bad(each)]
    figures = {"backlog": totals["backlog_messages"], "in_flight": totals["in_flight_messages"]}
    age = totals.get("oldest_age_seconds")
    if age is not None:
        figures["oldest_age"] = age
    if max_backlog is not None and figures["backlog"] > max_backlog:
        faults.append(f"{figures['backlog']:,} messages wait, more than {max_backlog:,}")
    if max_age is not None and (age or 0) > max_age:
        faults.append(f"the oldest waits for {age:.0f} s, more than {max_age:g}")
    if faults:
        return FAILED, "WARNING", "; ".join(faults), figures
    doors = ", ".join(each["name"] for each in server["doors"] if each["state"] == "open")
    return 0, "OK", f"{server['version']}, doors {doors}, {counted(figures['backlog'], 'message')} waiting", figures


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
