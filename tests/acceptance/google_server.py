"""A real server process with only the Google door open, for the vendor's own clients.

The rule kept here: free ports, stopped by its process id, its log shown when a test fails to reach it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 30  # only a failing test waits so long
CLOSED = [part for door in ("azure", "text", "flight", "http") for part in (f"--{door}-port", "off")]


class GoogleServer:
    def __init__(self, folder: Path, *arguments: str, port: int = 0, **environment: str) -> None:
        self.folder = folder
        self._arguments = arguments
        self._port = port
        self._environment = environment
        self.start()

    def start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        command = [sys.executable, "-m", "penstock", "serve", *CLOSED, "--pubsub-port", str(self._port)]
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--ready-file", str(ready), *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**known, **self._environment},
            )
        watch = threading.Timer(SECONDS, self.process.kill)
        watch.start()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Ready."):
                break
        watch.cancel()
        assert ready.exists(), (self.folder / "log.txt").read_text()
        self.address: str = json.loads(ready.read_text())["pubsub"]
        self._port = int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self._wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def google_server(folder: Path, *arguments: str, **environment: str) -> Iterator[GoogleServer]:
    server = GoogleServer(folder, *arguments, **environment)
    try:
        yield server
    finally:
        assert server.stop() == 0, (folder / "log.txt").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
