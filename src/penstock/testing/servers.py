"""A server for tests: a separate process, in memory, on free ports."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.admin.client import Client
from penstock.errors import UnavailableError
from penstock.testing.project import Project
from penstock.testing.settings import check_settings

START_SECONDS = 60.0  # maximum time of a start
STOP_SECONDS = 10.0
POLL_SECONDS = 0.005


class Server:
    """A running server for tests. `admin` is a client of its admin API, `addresses` its addresses by protocol."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.pid = int(ready["pid"])
        self.addresses: dict[str, str] = {door: address for door, address in ready.items() if door != "pid"}
        self.admin = Client(self.addresses["http"])
        self.projects: set[Project] = set()  # projects with open clients

    def __getitem__(self, door: str) -> str:
        """Return the address, HOST:PORT, of pubsub, azure, text, flight or http."""
        if door not in self.addresses:
            served = ", ".join(sorted(self.addresses))
            raise UnavailableError(f"This server has no address for {door!r}; it has {served}")
        return self.addresses[door]

    def project(self, name: str | None = None) -> Project:
        """Return a project with its own clock. Without a name it is new and empty."""
        project = Project(self, name or f"test-{secrets.token_hex(5)}")
        self.projects.add(project)
        return project

    def close(self) -> None:
        """Close the connection and the clients of all projects. The server keeps running."""
        for project in list(self.projects):
            project.close()
        self.admin.close()


@contextmanager
def server(**settings: object) -> Iterator[Server]:
    """Run a server during a `with` block.

    Settings have the names of docs/settings.md, such as `queue_messages_max=10`. An invalid one raises
    InvalidArgumentError. UnavailableError means that the server did not start.
    """
    values = check_settings(settings) if settings else {}
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        process, ready = start(Path(folder), os.getpid(), values)
        running = Server(ready)
        try:
            yield running
        finally:
            running.close()
            stop(process)


def start(folder: Path, owner: int, settings: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start a server and wait until it is ready. It ends when it is stopped, or after the process `owner`."""
    ready_file, log = folder / "ready.json", folder / "log.txt"
    values = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "penstock.testing.process", str(ready_file), str(owner), *values]
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and arguments that no shell reads
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
    until = time.monotonic() + START_SECONDS
    while not ready_file.exists():
        try:
            process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() < until:
                continue
            stop(process)
        raise UnavailableError(f"The server did not start: {_reason(log)}")
    return process, json.loads(ready_file.read_bytes())


def _reason(log: Path) -> str:
    """Return the last line of the log: a sentence, or the end of a traceback."""
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote no log")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
