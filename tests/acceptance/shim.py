"""A shim in a process of its own, started and awaited as Testcontainers does it for the vendors' commands."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import psutil

from tests.server_process import SECONDS, clean_environment

_TIMES = re.compile(r"^(\S+Z) INFO penstock\.server: (stopping|stopped)$", re.MULTILINE)


class Shim:
    """A process whose standard output and error are read as one stream, as `docker logs` shows them."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        before: Sequence[str] = (),
        work: Path | None = None,
        **variables: str,
    ) -> None:
        """Start the process. `folder` is the home folder, and the working directory unless `work` is given."""
        self.output = ""
        environment = clean_environment() | {"HOME": str(folder), "PATH": f"{shims().name}:{os.environ['PATH']}"}
        environment.pop("XDG_CONFIG_HOME", None)
        self.environment = environment | variables
        self.process = subprocess.Popen(
            [*before, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            cwd=work or folder,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdout is not None
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # a child ends by itself when its parent is gone
                    child.kill()
            self.process.kill()
            self.process.wait(SECONDS)
        self.process.stdout.close()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait for a log message as the modules of Testcontainers do, and return the match."""
        until = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.output)):
            assert self._read(until), f"the process did not print {pattern!r}: {self.output}"
        return found

    def _read(self, until: float) -> bool:
        """Return whether there was more output."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
        piece = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
        self.output += piece.decode()
        return bool(piece)

    def stop(self, number: int = signal.SIGTERM, pid: int = 0) -> int:
        """Send a signal to the process, or to `pid`, and return the exit code of the process."""
        os.kill(pid or self.process.pid, number)
        code = self.process.wait(SECONDS)
        while self._read(time.monotonic() + SECONDS):
            pass
        return code

    def stop_seconds(self) -> float:
        """Return the seconds from the signal until everything was closed, from the log.

        A slow machine does not add to them.
        """
        times = {what: datetime.fromisoformat(at) for at, what in _TIMES.findall(self.output)}
        return (times["stopped"] - times["stopping"]).total_seconds()


@cache
def shims() -> TemporaryDirectory[str]:
    """Return a folder with the shims, which exists until this process ends."""
    folder = TemporaryDirectory()
    write_shims(folder.name)
    return folder


def write_shims(folder: str | Path) -> None:
    command = [sys.executable, "-m", "penstock", "shims", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, env=clean_environment())
