"""The stores of the simulations' queues: in memory with a record of everything, or in SQLite.

A store outlives the queues that are opened on it. `crash` has the effect of kill -9. `close` is not needed before it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from penstock import MessageQueue
from penstock.broker.model import Message
from penstock.journal import codec
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Commit, Recovered
from penstock.journal.sqlite import SqliteJournal
from tests.simulation.journal.powercut import FAST_DISK

QUESTIONS_MAX = 500  # reads of one command; with the smallest cache each of its messages may be read alone


class RecordingJournal(MemoryJournal):
    """A durable journal that keeps all commits as bytes."""

    durable = True

    def __init__(self, snapshot_every: int = 7) -> None:
        super().__init__()
        self.facts: list[bytes] = []  # one per commit
        self.dumps: dict[int, bytes] = {}  # number of commits before it -> the state after them
        self.messages: dict[int, list[Message]] = {}  # by topic
        self._snapshot_every = snapshot_every

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self.facts.append(codec.encode_facts(commit.facts))
        for batch in commit.batches:
            self.messages.setdefault(batch.topic, []).extend(batch.messages)
        if commit.snapshot is not None:
            self.dumps[len(self.facts)] = codec.encode_dump(commit.snapshot)

    @property
    def snapshot_due(self) -> bool:  # type: ignore[override]
        return len(self.facts) % self._snapshot_every == self._snapshot_every - 1

    def recover(self) -> Recovered:
        return self.recover_from(max(self.dumps, default=0))

    def recover_from(self, place: int) -> Recovered:
        """Recover as if the newest snapshot were the one at `place`. 0 means from the beginning."""
        dump = codec.decode_dump(self.dumps[place]) if place else None
        return Recovered(dump, [fact for body in self.facts[place:] for fact in codec.decode_facts(body)])

    def close(self) -> None:
        pass


class Counted:
    """A counter of the calls of a journal. A command that reads forever must fail, and not hang."""

    questions = 0  # since the last reset to 0

    def count(self, journal: Any) -> Any:
        read, find = journal.read, journal.find
        journal.read = lambda *question: self._count() or read(*question)
        journal.find = lambda *question: self._count() or find(*question)
        return journal

    def _count(self) -> None:
        self.questions += 1
        assert self.questions < QUESTIONS_MAX, "one command reads from the journal without end"


class MemoryStore(Counted):
    def __init__(self, **parts: Any) -> None:
        self.parts = parts
        self.journal = self.count(RecordingJournal())

    def open(self) -> MessageQueue:
        return MessageQueue(self.journal, **self.parts)

    def crash(self, queue: MessageQueue) -> MessageQueue:
        return self.open()

    def remove(self) -> None:
        pass


class SqliteStore(Counted):
    def __init__(self, **parts: Any) -> None:
        self.parts = parts
        self._place = Path(tempfile.mkdtemp(dir=FAST_DISK if FAST_DISK.is_dir() else None))
        self._lives = 0

    @property
    def folder(self) -> Path:
        return self._place / str(self._lives)

    def open(self) -> MessageQueue:
        return MessageQueue(self.count(SqliteJournal(self.folder, reserve_bytes=0)), **self.parts)

    def crash(self, queue: MessageQueue) -> MessageQueue:
        """Copy the current files, as another process would find them after a crash."""
        left = self.folder
        self._lives += 1
        self.folder.mkdir()
        for name in ("penstock.db", "penstock.db-wal", "mark"):
            if (left / name).exists():
                shutil.copyfile(left / name, self.folder / name)
        queue.close()
        shutil.rmtree(left)
        return self.open()

    def remove(self) -> None:
        shutil.rmtree(self._place)
