"""Spark drivers in separate processes, which tests kill with their children.

A driver leads a session, and what belongs to the session is its own: Java, Python workers, the
daemons that leave its process group. It is ended by its ids, and nothing else is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.time_limit import STACKS, dump_stacks

SECONDS = 300.0  # only a failing test waits so long
PROGRAMS = Path(__file__).parent / "programs"
# A Java of a test lives for seconds: compiling much, and collecting on many threads, is not worth its while.
LEAN = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


class Driver:
    """A running program; what it prints is read as it comes, what it complains of is kept in a file."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.complaints = folder / f"complaints-{os.urandom(4).hex()}.txt"
        with self.complaints.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, wanted: str) -> None:
        """Wait until it prints this line."""
        assert self.process.stdout is not None
        with self._deadline():
            if any(line.strip() == wanted for line in self.process.stdout):
                return
        raise AssertionError(f"the driver never said {wanted!r}: {self.complained()}")

    def finish(self, seconds: float = SECONDS) -> str:
        """Wait for its end, which is to be a good one; what it printed."""
        with self._deadline(seconds):
            said, _ = self.process.communicate()
        assert self.process.returncode == 0, self.complained()
        return said

    def complained(self) -> str:
        """The end of what it complained of, without Java's frames; all of it with the stacks of a driver that hung."""
        text = self.complaints.read_text()
        if STACKS in text:
            return text
        return "\n".join([line for line in text.splitlines() if not line.startswith("\tat ")][-60:])

    @contextmanager
    def _deadline(self, seconds: float = SECONDS) -> Iterator[None]:
        watch = threading.Timer(seconds, self._give_up)
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _give_up(self) -> None:
        """Write the stacks of the driver and its children, and kill them."""
        with suppress(psutil.Error), self.complaints.open("a") as report:
            dump_stacks(report, self.process.pid)
        self.kill()

    def kill(self) -> None:
        """End all of it at once, as a machine does that loses its power."""
        while members := self.members():
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(SECONDS)

    def members(self) -> list[int]:
        """Return the live processes of its session, and its children that have left the session."""
        found = set(_session(self.process.pid))
        if self.process.poll() is None:  # or the id may be somebody else's by now
            with suppress(psutil.NoSuchProcess):
                found.update(psutil.Process(self.process.pid).children(recursive=True))
        return [process.pid for process in found if _is_alive(process)]

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def _session(leader: int) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader:
                yield process


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def worker_python(folder: Path) -> str:
    """A Python for Spark's workers that takes pyspark from where it is installed: Spark would have them read it out of
    a zip, and compile it, each of them, which is a third of what a short run costs."""
    python = folder / "worker-python"
    if not python.exists():
        python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
    return str(python)


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of a driver."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYSPARK_"))},
        "PYSPARK_PYTHON": worker_python(folder),
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --driver-memory 1g pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }


@contextmanager
def started(folder: Path, program: str, *arguments: str) -> Iterator[Driver]:
    """One of our programs, until the end of the block."""
    driver = Driver([sys.executable, str(PROGRAMS / program), *arguments], folder, environment_of(folder))
    try:
        yield driver
    finally:
        driver.close()
