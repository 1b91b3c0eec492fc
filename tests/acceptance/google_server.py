"""A real server process with only the Google door open, for the vendor's own clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.admin.client import Client
from penstock.testing import ProjectClock
from tests.server_process import ServerProcess


class GoogleServer(ServerProcess):
    ends_clean = True

    def __init__(self, folder: Path, *arguments: str, doors: Sequence[str] = ("pubsub",)) -> None:
        super().__init__(folder, *arguments, doors=doors)
        self.address = self.addresses["pubsub"]


class TimedServer(GoogleServer):
    """A server whose clock can be moved, with any kind of storage."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, "--testing", *arguments, doors=("pubsub", "http"))

    @contextmanager
    def clock(self, project: str) -> Iterator[ProjectClock]:
        with Client(self.addresses["http"]) as admin:
            yield ProjectClock(admin, project)
