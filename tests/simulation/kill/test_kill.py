"""`kill -9` of the real server under load, over and over on one store: recovery loses nothing and undoes nothing.

What this proves is recovery, not fsync: the page cache survives a process. The power-cut simulation proves the rest.
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


class Nursery:
    """Starts servers and collects their notes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.kill.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        self.notes: dict[str, set[str]] = {"published": set(), "acking": set(), "acked": set()}
        self._news = threading.Condition()
        self._pid = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

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

    def run_and_kill(self, data: Path, label: str, after: int) -> None:
        """One round: start a server, wait until it answered `after` messages more, kill it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{data} {label}\n")
        self._process.stdin.flush()
        with self._news:
            goal = self._answered() + after
            assert self._news.wait_for(lambda: self._pid and self._answered() >= goal, timeout=60), "the server works"
            pid, self._pid = self._pid, 0
        os.kill(pid, signal.SIGKILL)
        _wait_until_gone(pid)

    def _answered(self) -> int:
        return len(self.notes["published"]) + len(self.notes["acked"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._reader.join(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _wait_until_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [], 30)
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
    """Law 1: what was answered before a kill is there after it, whole and once."""
    chance = random.Random(20261115)
    data = tmp_path / "data"
    for number in range(rounds(100, 2_000)):
        nursery.run_and_kill(data, f"r{number}", chance.randrange(1, 400))
    nursery.close()
    drained = drain(data)
    notes = nursery.notes
    assert len(notes["published"]) > 1_000, "there was load"
    assert notes["acked"], "and some of it was acked"
    assert not notes["published"] - drained.keys() - notes["acking"], "lost: answered and not there"
    assert not notes["acked"] & drained.keys(), "an answered ack came undone"
    assert max(drained.values(), default=1) == 1, "stored twice"


def drain(data: Path) -> dict[str, int]:
    """Everything unacked, after every lease has ended, and how often it is there."""
    later = ManualClock(SystemClock().now() + 3600 * SECOND)
    counts: dict[str, int] = {}
    with open_queue(data, limits=SERVER_LIMITS, clock=later) as queue:
        while messages := queue.lease("s", 1000):
            for delivery in messages:
                body = delivery.message.data.decode()
                counts[body] = counts.get(body, 0) + 1
            queue.ack_many([delivery.receipt for delivery in messages])
    return counts
