"""A time limit for every test. A test that reaches it fails by name, with the stacks of every process involved.

A blocked call into a C library cannot be interrupted from Python, so the limit has two steps. A watchdog thread first
writes the stacks of this process and of all its child processes, then kills the children: a test that waits for one
of them fails with an ordinary error. If the test still runs after a grace period, its whole process is ended.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import psutil

TEST_SECONDS = 600.0
NIGHTLY_SECONDS = 5400.0
GRACE_SECONDS = 60.0  # from killing the child processes to ending this one
DUMP_SECONDS = 20.0  # for the stacks of one process
STACKS = "Stacks of process"


@contextmanager
def time_limit(test: str, seconds: float, grace_seconds: float = GRACE_SECONDS) -> Iterator[None]:
    """Run a block for at most `seconds`, and raise AssertionError if it took longer and could be ended."""
    done, reached = threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        reached.set()
        with os.fdopen(os.dup(_terminal()), "w") as report:
            print(f"\n{test} has run for {seconds:.0f} seconds, its limit.", file=report, flush=True)
            dump_stacks(report)
            _kill_children()
            if not done.wait(grace_seconds):
                print(f"{test} could not be ended; its process ends now.", file=report, flush=True)
                os._exit(1)

    watchdog = threading.Thread(target=watch, name="time-limit", daemon=True)
    watchdog.start()
    try:
        yield
    finally:
        done.set()
        watchdog.join()
    assert not reached.is_set(), f"{test} reached its limit of {seconds:.0f} seconds"


_saved_terminal: list[int] = []


def save_terminal() -> None:
    """Keep the standard error of this process, which pytest captures while a test runs."""
    _saved_terminal.append(os.dup(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2))


def _terminal() -> int:
    return _saved_terminal[0] if _saved_terminal else 2


def dump_stacks(report: TextIO, pid: int | None = None) -> None:
    """Write the stacks of all threads of a process, by default this one, and of its child processes."""
    if pid is None:
        faulthandler.dump_traceback(report, all_threads=True)
    for process in [*([psutil.Process(pid)] if pid else []), *_children(pid)]:
        with suppress(psutil.Error, OSError, subprocess.TimeoutExpired):
            print(f"\n{STACKS} {process.pid}: {' '.join(process.cmdline())[:300]}", file=report, flush=True)
            if (command := _dump_command(process)) is not None:
                subprocess.run(command, stdout=report, stderr=report, timeout=DUMP_SECONDS, check=False)
            report.flush()


def _dump_command(process: psutil.Process) -> list[str] | None:
    name = process.name()
    if "python" in name:
        return [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid", str(process.pid)]
    return ["jstack", str(process.pid)] if name == "java" else None


def _kill_children() -> None:
    for child in reversed(_children()):
        with suppress(psutil.Error):
            child.kill()


def _children(pid: int | None = None) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)
