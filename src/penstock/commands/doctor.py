"""`penstock doctor`: checks of a store or a server."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from penstock.commands.exit_codes import FAILED
from penstock.commands.help import command
from penstock.commands.host_checks import check_host
from penstock.commands.output import Output
from penstock.commands.progress import Progress
from penstock.commands.session import Session, on_server
from penstock.errors import NotFoundError
from penstock.journal.port import Finding

store_option = click.option("--data", metavar="DIR", help="Check this store or backup instead of a server.")
deep_option = click.option("--deep", is_flag=True, help="Read and check every row of the store.")

SKEW_SECONDS = 5
STYLES = {"ok": "green", "note": "yellow", "problem": "red"}
CREDENTIALS = {
    "pubsub": "Set pubsub_tokens",
    "flight": "Set flight_tokens",
    "azure": "Set azure_accounts to keys of your own and azure_oauth to off",
    "text": "Set text_tls_cert and text_tls_client_ca",
}


@command()
@on_server
@store_option
@deep_option
def doctor(session: Session, *, data: str | None, deep: bool) -> None:
    """Check a server or a store: disk, clock, limits, authentication.

    Each line is ok, a note or a problem, with advice. The exit code is 1 if there is a problem. If the server runs on
    this machine, its store is checked as well. A backup is read completely. Nothing is changed.
    """
    findings = _of_store(Path(data), deep) if data is not None else _of_server(session, deep)
    worst = 0
    for finding in findings:
        _print(session.output, finding)
        worst = max(worst, FAILED if finding.level == "problem" else 0)
    raise click.exceptions.Exit(worst)


def _print(output: Output, finding: Finding) -> None:
    if output.json:
        return output.line(finding._asdict())
    level = output.style(f"{finding.level:<8}", STYLES[finding.level])
    advice = f" {finding.advice}" if finding.advice else ""
    print(level, output.escape(f"{finding.check:<12} {finding.found}{advice}"), flush=True)


def _of_store(data: Path, deep: bool) -> Iterator[Finding]:
    from penstock.assembly import examine_store, store_holder

    if not data.is_dir():
        raise NotFoundError(f"Folder not found: {data}")
    yield _versions()
    pid = store_holder(data)
    if pid is not None:
        yield Finding("server", "ok", f"Process {pid or 'unknown'} has the store open.")
    yield from check_host(data, pid)
    with Progress("Checking, MiB") as bar:
        yield from examine_store(data, deep, lambda done, total: bar.at(done >> 20, total >> 20))


def _versions(server: str = "") -> Finding:
    from penstock.distribution import installed_version

    own, system = installed_version(), f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if server and server != own:
        sentence = f"The server is Penstock {server}, this command {own}."
        return Finding("version", "note", sentence, "Use the same version for both.")
    return Finding("version", "ok", f"Penstock {own}, {system}.")


# ---------------------------------------------------------------------- a server


def _of_server(session: Session, deep: bool) -> Iterator[Finding]:
    server = session.client.get("/server")
    yield _versions(server["version"])
    yield Finding("server", "ok", f"Reachable at {session.client.url}.")
    if server["durability"]["class"] == "memory":
        advice = "Start the server without --memory to keep messages."
        yield Finding("durability", "note", server["durability"]["sentence"], advice)
    for door in server["doors"]:
        yield _door(door)
    yield _skew(server["now"])
    data = server["data"]
    if data is not None and "\0" not in data and _is_here(session, Path(data)):
        yield from (finding for finding in _of_store(Path(data), deep) if finding.check not in ("version", "server"))
        return
    if deep:
        advice = "Run penstock doctor --deep on the server's machine."
        yield Finding("rows", "note", "The store is not on this machine and was not read.", advice)
    free = server["journal"]["free_bytes"]
    if free is not None and free < 1 << 30:
        sentence = f"The server's disk has {free / 2**30:.1f} GiB left."
        yield Finding("space", "note", sentence, "Free disk space before messages are refused.")


def _is_here(session: Session, data: Path) -> bool:
    """Return whether the store is on this machine. A local port may be forwarded to another machine."""
    from penstock.assembly import store_holder
    from penstock.wire.hosts import host_of, is_loopback

    return is_loopback(host_of(session.client.url.partition("://")[2])) and store_holder(data) is not None


def _door(door: dict[str, Any]) -> Finding:
    from penstock.wire.hosts import host_of, is_loopback

    check, address = f"{door['name']} port", door["address"]
    if door["state"] == "closed":
        return Finding(
            check, "note", f"Closed: {door['note']}." if door["note"] else "Closed.", "Nothing, if this is intended."
        )
    if door["state"] != "open":
        return Finding(check, "problem", f"State: {door['state']}.", "See the server's log.")
    if is_loopback(host_of(address)):
        return Finding(check, "ok", f"{address}: reachable from this machine only.")
    if door["guarded"]:
        return Finding(check, "ok", f"{address}: authentication required.")
    if door["name"] == "http":
        sentence = f"{address}: health and metrics are public. Everything else is for the server's own machine."
        return Finding(check, "note", sentence, "Set http_tokens to use it from other machines.")
    advice = f"{CREDENTIALS.get(door['name'], 'Set credentials')}, or listen on 127.0.0.1."
    return Finding(check, "problem", f"{address}: reachable from other machines without authentication.", advice)


def _skew(now: str) -> Finding:
    seconds = datetime.fromisoformat(now).timestamp() - time.time()
    if abs(seconds) < SKEW_SECONDS:
        return Finding("time", "ok", "The server's clock agrees with this one.")
    sentence = f"The server's clock is {abs(seconds):,.0f} seconds {'ahead of' if seconds > 0 else 'behind'} this one."
    return Finding("time", "note", sentence, "Synchronize both clocks with NTP.")
