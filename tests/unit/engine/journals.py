"""A journal that tests control: it keeps, waits, counts and refuses.

It keeps its promises: it recovers what it committed, and forgets what it refused.
"""

from __future__ import annotations

import asyncio
import threading

from penstock.engine.commits import Commits
from penstock.errors import PenstockError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Commit, Recovered


class ToldJournal(MemoryJournal):
    """A journal in memory that counts as durable as long as the test runs."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []
        self.refusals: list[PenstockError] = []  # the errors of the next commits
        self.full = False
        self.gate = threading.Event()  # closed: commits wait
        self.gate.set()
        self.entered = threading.Semaphore(0)  # released once for each commit that began

    def recover(self) -> Recovered:
        return Recovered(None, [fact for commit in self.commits for fact in commit.facts])

    def commit(self, commit: Commit) -> None:
        self.entered.release()
        assert self.gate.wait(10), "the test forgot to open the gate"
        if self.refusals:
            raise self.refusals.pop(0)
        super().commit(commit)
        self.commits.append(commit)

    def close(self) -> None:
        """Stay readable, so that a test can open another queue on the same commits."""


class StepJournal(ToldJournal):
    """A journal that lets commits through one at a time while `stepping` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.stepping = False
        self.waiting = False  # whether a commit waits for its step
        self._steps = threading.Semaphore(0)

    def commit(self, commit: Commit) -> None:
        if self.stepping:
            self.waiting = True
            assert self._steps.acquire(timeout=10), "the test let no commit through"
        super().commit(commit)

    def step(self) -> None:
        """Let the waiting commit through."""
        self.waiting = False
        self._steps.release()

    def step_freely(self) -> None:
        """Let all commits through from now on."""
        self.stepping = False
        self._steps.release()

    async def rest(self, commits: Commits) -> None:
        """Wait until a commit waits for its step, or nothing is left to commit."""
        async with asyncio.timeout(10):
            while commits.durable < commits.submitted and not self.waiting:
                await asyncio.sleep(0.0002)
