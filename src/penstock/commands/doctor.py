"""`penstock doctor`: what could go wrong with a store or a server, found before it does."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.commands.exits import FAILED
from penstock.commands.machine import examine_machine
from penstock.commands.output import Output
from penstock.commands.progress import Progress
from penstock.commands.session import Session, on_server
from penstock.errors import NotFoundError
from penstock.journal.port import Finding

Store = Annotated[str | None, typer.Option(metavar="DIR", help="Look at this store or backup, and ask no server.")]
Deep = Annotated[bool, typer.Option("--deep", help="Read every row of the store and check it.")]

SKEW_SECONDS = 5
STYLES = {"ok": "green", "note": "yellow", "problem": "red"}
CREDENTIALS = {
    "pubsub": "Set pubsub_tokens",
    "flight": "Set flight_tokens",
    "azure": "Set azure_accounts to keys of your own and azure_oauth to off",
    "text": "Set text_tls_cert and text_tls_client_ca",
}


@on_server
def doctor(session: Session, *, data: Store = None, deep: Deep = False) -> None:
    """Check a store or a server: disk, clock, limits, who may come in.

    Each line is ok, a note or a problem, with what to do about it; with a problem the exit code is 1. A server on this
    machine is looked at together with its store. A backup is read as a whole. Nothing is changed.
    """
    findings = _of_store(Path(data), deep) if data is not None else _of_server(session, deep)
    worst = 0
    for finding in findings:
        _print(session.output, finding)
        worst = max(worst, FAILED if finding.level == "problem" else 0)
    raise typer.Exit(worst)


def _print(output: Output, finding: Finding) -> None:
    if output.json:
        return output.line(finding._asdict())
    level = output.style(f"{finding.level:<8}", STYLES[finding.level])
    advice = f" {finding.advice}" if finding.advice else ""
    print(f"{level} {finding.check:<12} {finding.found}{advice}", flush=True)


def _of_store(data: Path, deep: bool) -> Iterator[Finding]:
    from penstock.assembly import examine_store, store_holder

    if not data.is_dir():
        raise NotFoundError(f"There is no folder {data}")
    yield _versions()
    pid = store_holder(data)
    if pid is not None:
        yield Finding("server", "ok", f"Process {pid or 'unknown'} has the store open.")
    yield from examine_machine(data, pid)
    with Progress("Checking, MiB") as bar:
        yield from examine_store(data, deep, lambda done, total: bar.at(done >> 20, total >> 20))


def _versions(server: str = "") -> Finding:
    from penstock.settings import installed_version

    own, system = installed_version(), f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if server and server != own:
        found = f"The server is Penstock {server}, this command {own}."
        return Finding("version", "note", found, "Use the command of the server's release.")
    return Finding("version", "ok", f"Penstock {own}, {system}.")


# ---------------------------------------------------------------------- a server


def _of_server(session: Session, deep: bool) -> Iterator[Finding]:
    server = session.client.get("/server")
    yield _versions(server["version"])
    yield Finding("server", "ok", f"It answers at {session.client.url}.")
    if server["durability"]["class"] == "memory":
        advice = "Leave out --memory, if messages are to survive it."
        yield Finding("durability", "note", server["durability"]["sentence"], advice)
    for door in server["doors"]:
        yield _door(door)
    yield _skew(server["now"])
    data = server["data"]
    if data is not None and _is_here(session, Path(data)):
        yield from (each for each in _of_store(Path(data), deep) if each.check not in ("version", "server"))
        return
    if deep:
        advice = "Run this on the server's machine: penstock doctor --deep."
        yield Finding("rows", "note", "The store is not on this machine, and was not read.", advice)
    free = server["journal"]["free_bytes"]
    if free is not None and free < 1 << 30:
        found = f"The server's disk has {free / 2**30:.1f} GiB left."
        yield Finding("space", "note", found, "Make room before messages are refused.")


def _is_here(session: Session, data: Path) -> bool:
    """A port of this machine may lead to another one, where a folder of that name is another store."""
    from penstock.assembly import store_holder
    from penstock.wire.hosts import host_of, is_loopback

    return is_loopback(host_of(session.client.url.partition("://")[2])) and store_holder(data) is not None


def _door(door: dict[str, Any]) -> Finding:
    from penstock.wire.hosts import host_of, is_loopback

    check, address = f"door {door['name']}", door["address"]
    if door["state"] == "closed":
        return Finding(
            check, "note", f"Closed: {door['note']}." if door["note"] else "Closed.", "Nothing, if so meant."
        )
    if door["state"] != "open":
        return Finding(check, "problem", f"It is {door['state']}.", "See the log of the server.")
    if is_loopback(host_of(address)):
        return Finding(check, "ok", f"{address}: for this machine only.")
    if door["guarded"]:
        return Finding(check, "ok", f"{address}: asks callers who they are.")
    if door["name"] == "http":
        found = f"{address}: anybody may read health and metrics; the rest is for the server's own machine."
        return Finding(check, "note", found, "Set http_tokens to use the rest from elsewhere.")
    advice = f"{CREDENTIALS.get(door['name'], 'Set credentials')}, or listen on 127.0.0.1."
    return Finding(check, "problem", f"{address}: whoever reaches it may do everything.", advice)


def _skew(now: str) -> Finding:
    seconds = datetime.fromisoformat(now).timestamp() - time.time()
    if abs(seconds) < SKEW_SECONDS:
        return Finding("time", "ok", "The server's clock agrees with this one.")
    found = f"The server's clock is {abs(seconds):,.0f} seconds {'ahead of' if seconds > 0 else 'behind'} this one."
    return Finding("time", "note", found, "Set both: NTP.")
