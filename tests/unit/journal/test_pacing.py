"""The pauses of a backup: they depend on its own work, are bounded, and only happen beside a server that writes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.journal.backup import pacing
from penstock.journal.backup.pacing import REST, REST_SECONDS_MAX, Pace, work_seconds


class Harness:
    """A store, a clock of processor time and a sleep that takes no time."""

    def __init__(self) -> None:
        self.commit, self.worked, self.slept = 1, 0.0, list[float]()
        self.pace = Pace(lambda: self.commit, lambda: self.worked, self.slept.append)

    def slice(self, seconds: float, commits: int = 1) -> None:
        self.worked += seconds
        self.commit += commits
        self.pace.rest()


def test_a_rest_follows_from_the_work_of_the_slice() -> None:
    harness = Harness()
    harness.slice(0.01)
    harness.slice(0.02)
    assert harness.slept == pytest.approx([0.01 * REST, 0.02 * REST])


def test_a_rest_is_bounded() -> None:
    harness = Harness()
    harness.slice(60)
    assert harness.slept == [REST_SECONDS_MAX]


def test_without_commits_beside_it_a_backup_does_not_rest() -> None:
    harness = Harness()
    for _ in range(10):
        harness.slice(0.1, commits=0)
    assert harness.slept == []


def test_time_of_other_processes_is_not_counted_as_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of 10 ms that waited 5 s for a processor is 10 ms of work. On a busy machine 15 MiB once took minutes."""
    waits = tmp_path / "schedstat"
    monkeypatch.setattr(pacing, "_WAITS", waits)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    now = 100.0
    waits.write_text("7000000 1000000000 12\n")
    before = work_seconds()
    now = 105.01
    waits.write_text("17000000 6000000000 90\n")
    assert work_seconds() - before == pytest.approx(0.01)


def test_without_that_clock_it_is_the_time_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "_WAITS", tmp_path / "missing")
    monkeypatch.setattr(time, "process_time", lambda: 1.25)
    assert work_seconds() == 1.25
