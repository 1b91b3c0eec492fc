"""A server for tests: a process of its own, in memory, on free ports."""

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
from penstock.testing.settings import checked

START_SECONDS = 60.0  # only a start that fails takes so long
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.005


class Server:
    """A running server, whoever started it."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.pid = int(ready["pid"])
        self.addresses: dict[str, str] = {door: place for door, place in ready.items() if door != "pid"}
        self.admin = Client(self.addresses["http"])
        self.projects: set[Project] = set()  # whose clients are open

    def __getitem__(self, door: str) -> str:
        """The address of a door: pubsub, azure, text or http."""
        if door not in self.addresses:
            raise UnavailableError(f"This server has no door {door}; it has {', '.join(sorted(self.addresses))}")
        return self.addresses[door]

    def project(self, name: str | None = None) -> Project:
        """One of its own for a test: nothing is in it, and its time is its own."""
        project = Project(self, name or f"test-{secrets.token_hex(5)}")
        self.projects.add(project)
        return project

    def close(self) -> None:
        """Close the connection, and the clients of projects; the server goes on."""
        for project in list(self.projects):
            project.close()
        self.admin.close()


@contextmanager
def server(**settings: object) -> Iterator[Server]:
    """A server that ends with the block. Settings by the names of docs/settings.md: `queue_messages_max=10`.

    InvalidArgumentError says what is wrong with one.
    """
    given = checked(settings) if settings else {}
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        process, ready = start(Path(folder), os.getpid(), given)
        running = Server(ready)
        try:
            yield running
        finally:
            running.close()
            stop(process)


def start(folder: Path, owner: int, settings: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """A server that is ready; it ends when it is stopped, or after the process `owner`."""
    ready_file, log = folder / "ready.json", folder / "log.txt"
    given = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "penstock.testing.process", str(ready_file), str(owner), *given]
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and arguments that no shell reads
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
    until = time.monotonic() + START_SECONDS
    while not ready_file.exists():
        try:
            process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() < until:
                continue
            stop(process)
        raise UnavailableError(f"The server did not start: {_reason(log)}")
    return process, json.loads(ready_file.read_bytes())


def _reason(log: Path) -> str:
    """The last line that it wrote: a sentence, or what a traceback ends with."""
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
