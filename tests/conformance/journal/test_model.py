"""Generated histories of commits, forgetting, maintenance and restarts, compared with a dictionary.

Both journals must give the same results as the model (issue 2, "Must show").
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.broker.model import Batch, Message
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Commit, Journal
from penstock.journal.sqlite import SqliteJournal
from tests.conformance.journal.samples import START, dump, fact, message

TOPICS = st.sampled_from([1, 2, 5])
FAST = Path("/dev/shm")


class JournalHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=FAST if FAST.is_dir() else None))
        self.logs: dict[int, list[Message]] = {1: [], 2: [], 5: []}
        self.floors = {1: 0, 2: 0, 5: 0}
        self.commits = 0
        self.snapshot = 0
        self.clock = START

    @initialize()
    def open(self) -> None:
        self.sqlite = SqliteJournal(self.folder / "data", reserve_bytes=0)
        self.sqlite.recover()
        self.memory = MemoryJournal()

    @property
    def journals(self) -> tuple[Journal, Journal]:
        return self.memory, self.sqlite

    @rule(sizes=st.dictionaries(TOPICS, st.integers(1, 6)), pause=st.integers(0, 3), snapshot=st.booleans())
    def commit(self, sizes: dict[int, int], pause: int, snapshot: bool) -> None:
        self.commits += 1
        self.clock += pause
        batches = [self._append(topic, size) for topic, size in sizes.items()]
        commit = Commit([fact(self.commits)], batches, dump(self.commits) if snapshot else None)
        self.snapshot = self.commits if snapshot else self.snapshot
        for journal in self.journals:
            journal.commit(commit)

    def _append(self, topic: int, size: int) -> Batch:
        first = len(self.logs[topic])
        added = [message(first + index)._replace(publish_time=self.clock) for index in range(size)]
        self.logs[topic] += added
        return Batch(topic, first, added)

    @rule(topic=TOPICS, share=st.floats(0, 1))
    def forget(self, topic: int, share: float) -> None:
        until = round(share * len(self.logs[topic]))
        self.floors[topic] = max(self.floors[topic], until)
        for journal in self.journals:
            journal.forget(topic, until)

    @rule()
    def maintain(self) -> None:
        for journal in self.journals:
            journal.maintain()

    @rule()
    def restart(self) -> None:
        self.sqlite.close()
        self.sqlite = SqliteJournal(self.folder / "data", reserve_bytes=0)
        recovered = self.sqlite.recover()
        assert recovered.dump == (dump(self.snapshot) if self.snapshot else None)
        assert recovered.facts == [fact(number) for number in range(self.snapshot + 1, self.commits + 1)]
        for journal in self.journals:
            journal.sweep(self.floors)

    @rule(topic=TOPICS, start=st.floats(0, 1), end=st.floats(0, 1))
    def read(self, topic: int, start: float, end: float) -> None:
        log = self.logs[topic]
        first, until = round(start * len(log)), round(end * len(log))
        for journal in self.journals:
            assert journal.read(topic, first, until) == log[max(first, self.floors[topic]) : until]

    @rule(topic=TOPICS, back=st.integers(-2, 30))
    def find(self, topic: int, back: int) -> None:
        at = self.clock - back
        stored = (entry for entry in self.logs[topic][self.floors[topic] :] if entry.publish_time >= at)
        expected = next((entry.offset for entry in stored), None)
        for journal in self.journals:
            assert journal.find(topic, at) == expected

    @invariant()
    def nothing_waits(self) -> None:
        assert not any(journal.full for journal in self.journals)

    def teardown(self) -> None:
        self.sqlite.close()
        shutil.rmtree(self.folder)


TestJournalHistories = JournalHistories.TestCase
TestJournalHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
