"""A server in a process of its own. Tests start and stop real servers with it.

The server uses free ports unless a test gives some. The helpers wait for conditions instead of sleeping, and they stop
a process by its id. The log of a running server is added to the report of a failing test (`tests/conftest.py`).

While a server is down, the system may give its port to another connection. Even a client that keeps reconnecting may
get the port as its own source port and connect to itself. So the ports are below the range that the system uses.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, TextIO

import psutil

SECONDS = 60.0  # seconds; only a failing test waits this long
DOORS = ("pubsub", "azure", "text", "flight", "http")
ROOT = Path(__file__).resolve().parents[1]
PORTS = range(20_000, 32_000)
BLOCK = 1000  # number of ports that one test process claims
_claims: list[TextIO] = []  # the lock files that this process holds


class ServerProcess:
    """A server that is ready. After a restart it has the same ports.

    The end of a `with` block kills the server. With `ends_clean` it is stopped instead, and must exit with 0.
    """

    ends_clean: ClassVar[bool] = False
    started: ClassVar[list[ServerProcess]] = []

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        doors: Iterable[str] | None = DOORS,  # doors to open; None if the command line says it in another way
        ports: Mapping[str, str] | None = None,
        command: Sequence[str] = ("penstock", "serve"),
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        **settings: str,  # settings that are passed as environment variables
    ) -> None:
        self.folder = folder
        self._command = [python, "-m", *command]
        self._arguments = arguments
        self._environment = clean_environment(**settings) | dict(environment or {})
        self._ports = {} if doors is None else dict.fromkeys(DOORS, "off") | {door: free_port() for door in doors}
        self._ports |= ports or {}
        self.start()

    def start(self, arguments: Sequence[str] | None = None, **ports: str) -> None:
        """Start the server, or restart it on its old ports. `ports` and `arguments` replace the first ones."""
        self._ports |= ports
        self._arguments = self._arguments if arguments is None else tuple(arguments)
        self.ready_file = self.folder / f"ready-{os.urandom(4).hex()}.json"
        flags = [f"--{door}-port={port}" for door, port in self._ports.items()]
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command, *flags, f"--ready-file={self.ready_file}", *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                cwd=ROOT,
            )
        self.banner = self._read_banner()
        self.ready: dict[str, Any] = json.loads(self.ready_file.read_text())
        self.addresses: dict[str, str] = {door: self.ready[door] for door in DOORS if door in self.ready}
        self._ports |= {door: str(self.place(door)[1]) for door in self.addresses if door in self._ports}
        self.started.append(self)

    def _read_banner(self) -> str:
        """Read the output up to the line that says that the server is ready."""
        assert self.process.stdout is not None
        watch = threading.Timer(SECONDS, self.process.kill)
        watch.start()
        lines = []
        try:
            for line in self.process.stdout:
                lines.append(line)
                if line.startswith("Ready."):
                    return "".join(lines)
        finally:
            watch.cancel()
        self.kill()
        raise AssertionError(f"the server did not start: {''.join(lines)}{self.log()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # the report of the test no longer shows the log of this server
            print(f"Log of server {self.process.pid}:\n{self.log()}")
        if not self.has_ended and self.ends_clean:
            assert self.stop() == 0, self.log()
        elif not self.has_ended:
            self.kill()

    @property
    def has_ended(self) -> bool:
        """Return whether the server was stopped or killed here, and did not end by itself."""
        assert self.process.stdout is not None
        return self.process.stdout.closed

    def place(self, door: str) -> tuple[str, int]:
        host, _, port = self.addresses[door].rpartition(":")
        return host, int(port)

    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def kill(self) -> None:
        """Kill the server, as a power cut would."""
        self.process.kill()
        self.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self in self.started:
            self.started.remove(self)
        return code


def free_port() -> str:
    ports = _claimed_ports()
    for port in itertools.islice(ports, BLOCK):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return str(port)
    raise AssertionError("no port is free")


@cache
def _claimed_ports() -> Iterator[int]:
    """Claim a block of ports until the end of this process, and return them in turn.

    Other test runs may use the same machine at the same time, and would find the same ports free.
    """
    folder = Path(tempfile.gettempdir(), "penstock-test-ports")
    folder.mkdir(exist_ok=True)
    for first in PORTS[::BLOCK]:
        claim = (folder / str(first)).open("w")
        with suppress(BlockingIOError):
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _claims.append(claim)
            return itertools.cycle(range(first, first + BLOCK))
        claim.close()
    raise AssertionError("too many runs of the tests at once: every block of ports is claimed")


@atexit.register
def _kill_what_is_left() -> None:
    for each in list(ServerProcess.started):
        each.kill()


def refused(*arguments: str, environment: Mapping[str, str] | None = None, **settings: str) -> tuple[int, str]:
    """Return the exit code and the standard error of a command that must fail."""
    command = [sys.executable, "-m", "penstock", *arguments]
    environment = clean_environment(**settings) | dict(environment or {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def clean_environment(**settings: str) -> dict[str, str]:
    """Return the environment of this process with only these settings of Penstock."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return known | {f"PENSTOCK_{name.upper()}": value for name, value in settings.items()}
