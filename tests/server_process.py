"""A real server as a process of its own: how tests of a door start it, and how they end it.

The rule kept here: free ports, stopped by its process id, its log shown when a test fails to reach it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

SECONDS = 30  # only a failing test waits so long


class ServerProcess:
    """Started again, it takes the port it had of the door it is about."""

    def __init__(
        self, folder: Path, door: str, others: Sequence[str], *arguments: str, port: int = 0, **environment: str
    ) -> None:
        self.folder = folder
        self.port = port
        self._door = door
        self._others = others  # flags of the other doors
        self._arguments = arguments
        self._environment = environment
        self.start()

    def start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        command = [sys.executable, "-m", "penstock", "serve", *self._others, f"--{self._door}-port={self.port}"]
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--ready-file", str(ready), *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**known, **self._environment},
            )
        self._await_ready()
        assert ready.exists(), self.log()
        self.addresses: dict[str, str] = json.loads(ready.read_text())
        self.address = self.addresses.get(self._door, "")
        self.port = int(self.address.rpartition(":")[2] or 0)

    def _await_ready(self) -> None:
        watch = threading.Timer(SECONDS, self.process.kill)
        watch.start()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Ready."):
                break
        watch.cancel()

    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code
