"""A real server as a process of its own: how every test starts one, and how it ends it.

Ports are free ones unless they are given, waiting is for what is waited for, and a process is stopped by its id. The
log of a running server is shown with a test that fails (`tests/conftest.py`).

A port that the system chooses may be that of somebody's connection while its server is down, even of a client that
tries it again and again and so meets itself. So they are taken from below those that the system gives away.
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

SECONDS = 60.0  # only a failing test waits so long
DOORS = ("pubsub", "azure", "text", "flight", "http")
ROOT = Path(__file__).resolve().parents[1]
PORTS = range(20_000, 32_000)
BLOCK = 1000  # ports that one process of the tests claims
_claims: list[TextIO] = []  # locked files


class ServerProcess:
    """A server that is ready. Started again, it takes the ports it had.

    At the end of a `with` block it is killed; where `ends_clean`, it is stopped and has to end with 0.
    """

    ends_clean: ClassVar[bool] = False
    started: ClassVar[list[ServerProcess]] = []

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        doors: Iterable[str] | None = DOORS,  # open; None: the command says it in another way
        ports: Mapping[str, str] | None = None,
        command: Sequence[str] = ("penstock", "serve"),
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        **settings: str,  # go through the environment
    ) -> None:
        self.folder = folder
        self._command = [python, "-m", *command]
        self._arguments = arguments
        self._environment = clean_environment(**settings) | dict(environment or {})
        self._ports = {} if doors is None else dict.fromkeys(DOORS, "off") | {door: free_port() for door in doors}
        self._ports |= ports or {}
        self.start()

    def start(self, arguments: Sequence[str] | None = None, **ports: str) -> None:
        """Also anew, on the ports it had; `ports`: others, by door; `arguments`: others than it began with."""
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
        """What it prints up to the line that says it is ready."""
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
        if kind is not None:  # the report of the test no longer finds this server
            print(f"Log of server {self.process.pid}:\n{self.log()}")
        if not self.has_ended and self.ends_clean:
            assert self.stop() == 0, self.log()
        elif not self.has_ended:
            self.kill()

    @property
    def has_ended(self) -> bool:
        """Whether it was stopped or killed here; one that died by itself was not."""
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
        """As a power cut would."""
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

    Other runs of the tests may go on beside this one. A port that is free now would be free for them, too.
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
    """Exit code and standard error of a command of ours that is expected to give up."""
    command = [sys.executable, "-m", "penstock", *arguments]
    environment = clean_environment(**settings) | dict(environment or {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def clean_environment(**settings: str) -> dict[str, str]:
    """Of this process, with no settings but these."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return known | {f"PENSTOCK_{name.upper()}": value for name, value in settings.items()}
