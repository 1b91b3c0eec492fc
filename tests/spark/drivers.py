"""Spark drivers in separate processes, which tests kill with their children.

A driver leads a session of processes: Java, Python workers, and daemons that leave its process group. All of them are
ended by their ids, and no other process is.
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

SECONDS = 300.0  # only a failing test waits this long
PROGRAMS = Path(__file__).parent / "programs"
# Java lives for seconds in a test, so thorough compilation and parallel garbage collection do not pay off.
LEAN = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


class Driver:
    """A running program. Its output is read as it comes, and its standard error goes to a file."""

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
        """Wait until the program prints this line."""
        assert self.process.stdout is not None
        with self._deadline():
            if any(line.strip() == wanted for line in self.process.stdout):
                return
        raise AssertionError(f"the driver never said {wanted!r}: {self.complained()}")

    def finish(self, seconds: float = SECONDS) -> str:
        """Wait until the program ends successfully, and return its output."""
        with self._deadline(seconds):
            said, _ = self.process.communicate()
        assert self.process.returncode == 0, self.complained()
        return said

    def complained(self) -> str:
        """Return the end of its standard error without Java's frames, or all of it with the stacks of a driver that
        hung.
        """
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
        """Kill all processes at once, as a power failure would."""
        while members := self.members():
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(SECONDS)

    def members(self) -> list[int]:
        """Return the live processes of its session, and its children that have left the session."""
        found = set(_session(self.process.pid))
        if self.process.poll() is None:  # after its end, another process may have its id
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
    """Return a Python for Spark's workers that imports the installed pyspark.

    By default each worker reads and compiles pyspark from a zip, which takes a third of a short run.
    """
    python = folder / "worker-python"
    if not python.exists():
        python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
    return str(python)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a driver."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYSPARK_"))},
        "PYSPARK_PYTHON": worker_python(folder),
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --driver-memory 1g pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }


@contextmanager
def started(folder: Path, program: str, *arguments: str) -> Iterator[Driver]:
    """Run a program from the folder `programs` until the end of the block."""
    driver = Driver([sys.executable, str(PROGRAMS / program), *arguments], folder, environment_of(folder))
    try:
        yield driver
    finally:
        driver.close()
