"""One flipped bit anywhere in the store is detected or harmless, and never silent (reliability bar 6).

The store is damaged in the state of a crash (with a long write-ahead log, or with one that was partly moved into the
database) and in the closed state. After the flip the store is opened, recovered and read from end to end. The contents
are those that were written, or opening or reading is refused. A flip in the high-water mark only causes a line in the
log.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.errors import DamagedStoreError, FailedPreconditionError
from penstock.journal.sqlite import SqliteJournal
from tests.simulation.journal.powercut import FAST_DISK
from tests.simulation.journal.workload import (
    TOPICS,
    Event,
    Life,
    check_messages,
    count_recovered,
    floors_of,
    live,
    low_limits,
)

KEPT = ("penstock.db", "penstock.db-wal", "mark")


class Specimen:
    """A store in one of its states as bytes, with its contents.

    crashed: the last commits are only in the log. moved: a crash after checkpoints, so that the log holds pages that
    are also in the database, some of them newer there. closed: there is no log.
    """

    def __init__(self, folder: Path, state: str) -> None:
        self._life, self._events, random = Life(Random(1)), list[Event](), Random(1)
        with low_limits():
            journal = SqliteJournal(folder, reserve_bytes=0)
            journal.recover()
            live(self._life, journal, random, 60, self._events.append)
            if state == "moved":
                self.files = _contents(folder)
            journal.close()
        if state != "moved":
            journal = SqliteJournal(folder, reserve_bytes=0)  # with the usual limits the log grows from here on
            journal.recover()
            live(self._life, journal, random, 12, self._events.append)
            self.files = _contents(folder)
            journal.close()
        if state == "closed":
            self.files = _contents(folder)

    def verdict(self, folder: Path) -> str:
        """Return `same` or the error that a reader of the whole store gets. Any other result is a failing assertion."""
        lines: list[str] = []
        try:
            journal = SqliteJournal(folder, reserve_bytes=0, log=lines.append)
        except (DamagedStoreError, FailedPreconditionError) as error:
            return type(error).__name__
        try:
            self._compare(journal)
        except DamagedStoreError as error:
            return type(error).__name__
        finally:
            journal.close()
        return "mark rewritten" if lines else "same"

    def _compare(self, journal: SqliteJournal) -> None:
        total = len(self._life.commits)
        assert count_recovered(self._life, journal.recover()) == total, "commits are missing without an error"
        floors = floors_of(self._events)
        check_messages(self._life, journal, total, floors)
        for topic in TOPICS:
            journal.forget(topic, floors.get(topic, 0))
            self._compare_times(journal, topic, floors.get(topic, 0))

    def _compare_times(self, journal: SqliteJournal, topic: int, floor: int) -> None:
        batches = (batch for commit in self._life.commits for batch in commit.batches if batch.topic == topic)
        messages = [message for batch in batches for message in batch.messages if message.offset >= floor]
        for wanted in messages[::5]:
            expected = next(m.offset for m in messages if m.publish_time >= wanted.publish_time)
            assert journal.find(topic, wanted.publish_time) == expected


def _contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in KEPT if (folder / name).exists()}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=FAST_DISK if FAST_DISK.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("state", ["crashed", "moved", "closed"])
def test_a_flipped_bit_is_noticed_or_harmless(state: str, folder: Path, rounds: Callable[[int, int], int]) -> None:
    specimen = Specimen(folder / "specimen", state)
    files = specimen.files
    verdicts: Counter[tuple[str, str]] = Counter()
    for seed in range(rounds(80, 2_000)):
        random = Random(seed)
        name = random.choice([name for name in sorted(files) for _ in range(1 if name == "mark" else 4)])
        bit = random.randrange(len(files[name]) * 8)
        target = folder / "flipped"
        _restore(target, files | {name: _flipped(files[name], bit)})
        try:
            verdicts[name, specimen.verdict(target)] += 1
        except BaseException as error:
            error.add_note(f"flip: {state} {name} bit {bit}")
            raise
        shutil.rmtree(target)
    print(state, dict(verdicts))
    damage = {name for name, verdict in verdicts if verdict == "DamagedStoreError"}
    assert damage >= {name for name in files if name != "mark"}, "flips without any effect prove nothing"


def _restore(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
