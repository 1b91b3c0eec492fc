"""`kill -9` of the real server under load, many times on one store: recovery loses nothing and undoes nothing.

This proves recovery, and not fsync, because the page cache survives a process. The power-cut simulation proves the
rest.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.assembly import SERVER_LIMITS, open_queue
from penstock.broker.model import SECOND
from penstock.engine.clock import ManualClock, SystemClock

PATIENCE = 600  # seconds; on a busy machine a server has waited three minutes for a processor


class Nursery:
    """A process that starts servers, and their notes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.kill.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            start_new_session=True,  # so that it ends together with its servers
        )
        self.notes: dict[str, set[str]] = {"published": set(), "acking": set(), "acked": set()}
        self._news = threading.Condition()
        self._pid = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *words = line.split()
            with self._news:
                if what == "pid":
                    self._pid = int(words[0])
                else:
                    self.notes[what].update(words)
                self._news.notify_all()

    def run_and_kill(self, data: Path, label: str, after: int, patience: float = PATIENCE) -> None:
        """Start a server, wait until it has answered `after` more messages, and kill it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{data} {label}\n")
        self._process.stdin.flush()
        with self._news:
            goal = self._answered() + after
            works = self._news.wait_for(lambda: self._pid and self._answered() >= goal, timeout=patience)
            pid, self._pid = self._pid, 0
        assert works, f"the server does not answer: {_abort(pid)}"
        os.kill(pid, signal.SIGKILL)
        _wait_until_gone(pid)

    def _answered(self) -> int:
        return len(self.notes["published"]) + len(self.notes["acked"])

    def close(self) -> None:
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.reader.join()  # the pipe ends when no process can write to it
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


def _abort(pid: int) -> str:
    """Abort a server that does not answer. Its stacks go to the errors that pytest shows. Return its state."""
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        os.kill(pid, signal.SIGABRT)
    except OSError:
        return "it is gone"
    _wait_until_gone(pid)
    return f"it ran for {int(ran) / SECOND:.1f} s and waited {int(waited) / SECOND:.1f} s for a processor"


def _wait_until_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def test_killed_servers_lose_no_message_and_undo_no_ack(
    tmp_path: Path, nursery: Nursery, rounds: Callable[[int, int], int]
) -> None:
    """Law 1: answered publishes are there after a kill, complete and once."""
    chance = random.Random(20261115)
    data = tmp_path / "data"
    for number in range(rounds(50, 2_000)):
        nursery.run_and_kill(data, f"r{number}", chance.randrange(1, 400))
    nursery.close()
    drained = drain(data)
    notes = nursery.notes
    assert len(notes["published"]) > 1_000, "there was load"
    assert notes["acked"], "some messages were acked"
    assert not notes["published"] - drained.keys() - notes["acking"], "lost: answered and missing"
    assert not notes["acked"] & drained.keys(), "an answered ack was undone"
    assert max(drained.values(), default=1) == 1, "stored twice"


def test_a_round_that_fails_leaves_no_server_and_no_reader(tmp_path: Path) -> None:
    """A server that outlives its test keeps the pipe of its notes open, and its reader once failed another test."""
    nursery = Nursery()
    nursery.run_and_kill(tmp_path / "data", "r0", 1)
    with pytest.raises(AssertionError, match="the server does not answer: it"):
        nursery.run_and_kill(tmp_path / "data", "r1", 10**9, patience=1)
    nursery.close()
    assert not nursery.reader.is_alive()
    with open_queue(tmp_path / "data"):
        pass  # the store is not locked


def drain(data: Path) -> dict[str, int]:
    """Return every unacked message, after all leases have ended, and the number of its copies."""
    later = ManualClock(SystemClock().now() + 3600 * SECOND)
    counts: dict[str, int] = {}
    with open_queue(data, limits=SERVER_LIMITS, clock=later) as queue:
        while messages := queue.lease("s", 1000):
            for delivery in messages:
                body = delivery.message.data.decode()
                counts[body] = counts.get(body, 0) + 1
            queue.ack_many([delivery.receipt for delivery in messages])
    return counts
