"""A real server process with only the Google door open, for the vendor's own clients.

The rule kept here: free ports, stopped by its process id, its log shown when a test fails to reach it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server_process import ServerProcess

CLOSED = [part for door in ("azure", "text", "flight", "http") for part in (f"--{door}-port", "off")]


class GoogleServer(ServerProcess):
    def __init__(self, folder: Path, *arguments: str, port: int = 0, **environment: str) -> None:
        super().__init__(folder, "pubsub", CLOSED, *arguments, port=port, **environment)

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def google_server(folder: Path, *arguments: str, **environment: str) -> Iterator[GoogleServer]:
    server = GoogleServer(folder, *arguments, **environment)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.log()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
