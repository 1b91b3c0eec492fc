"""Small parts of the journals, each with the rule of its module."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.model import NO_ATTRIBUTES, Batch, Message
from penstock.errors import DamagedStoreError
from penstock.journal import floors, named_sql
from penstock.journal.codec import open_batch, open_facts, open_snapshot, seal_batch, seal_facts, seal_snapshot
from penstock.journal.floors import GONE, Floors
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Commit
from penstock.journal.sqlite.mark import Mark, Reading


def _messages(first: int, until: int) -> list[Message]:
    return [Message(b"x", NO_ATTRIBUTES, "", 100 + offset, offset, 0, 1, 0, 0) for offset in range(first, until)]


def test_the_memory_journal_keeps_the_very_messages_it_was_given() -> None:
    journal = MemoryJournal()
    messages = _messages(0, 3)
    journal.commit(Commit([], [Batch(1, 0, messages)]))
    assert all(kept is given for kept, given in zip(journal.read(1, 0, 3), messages, strict=True))


def test_the_memory_journal_releases_forgotten_messages() -> None:
    journal = MemoryJournal()
    for first in range(0, 1000, 10):
        journal.commit(Commit([], [Batch(1, first, _messages(first, first + 10))]))
        journal.forget(1, first)
    log = journal._logs[1]
    assert sum(map(len, log.batches)) <= 20
    assert len(log.batches) <= 4, "and of the values in its lists"
    journal.forget(1, GONE)
    assert not journal._logs


def test_a_floor_only_rises() -> None:
    kept = Floors()
    assert kept[7] == 0
    assert kept.lift(7, 5)
    assert not kept.lift(7, 5)
    assert not kept.lift(7, 4)
    assert kept[7] == 5


def test_deleted_topics_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "GONE_KEPT", 3)
    kept = Floors()
    kept.lift(99, 5)
    for topic in range(10):
        kept.lift(topic, GONE)
    assert [topic for topic in range(10) if kept[topic]] == [7, 8, 9]
    assert kept[99] == 5, "existing topics are"


def test_named_statements_are_read_without_their_comments() -> None:
    text = "-- about the file\n\n-- one --\n-- why\nSELECT 1\n\n-- two --\nSELECT 2\nFROM t -- here\n"
    assert named_sql.parse(text) == {"one": "SELECT 1", "two": "SELECT 2\nFROM t -- here"}


def test_a_mark_has_the_last_written_number(tmp_path: Path) -> None:
    mark = Mark(tmp_path / "mark")
    assert mark.read() is None
    mark.settle(0, clean=False)
    assert mark.read() == Reading(0, clean=False, whole=True)
    for seq in range(1, 6):
        mark.write(seq)
        assert mark.read() == Reading(seq, clean=False, whole=True)
    mark.settle(5, clean=True)
    assert mark.read() == Reading(5, clean=True, whole=True)
    mark.close()


def test_a_torn_mark_falls_back_to_the_commit_before(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    mark = Mark(path)
    mark.settle(0, clean=False)
    for seq in range(1, 8):
        mark.write(seq)
    whole = path.read_bytes()
    for place in range(21):  # any byte of the slot that was written last
        changed = bytearray(whole)
        slot = 0 if whole[:21] > whole[512:533] else 512
        changed[slot + place] ^= 0x10
        path.write_bytes(changed)
        assert mark.read() == Reading(6, clean=False, whole=False)
    mark.close()


def test_a_row_fits_only_the_place_it_was_sealed_for() -> None:
    """The checksum covers the table, the key columns and the body."""
    assert open_facts(seal_facts(5, b"\x90")) == []
    batch = Batch(3, 10, _messages(10, 12))
    assert open_batch(seal_batch(batch)) == batch.messages
    key, until, last_at, crc, body = seal_batch(batch)
    for row in ((key + 1, until, last_at, crc, body), (key, until + 1, last_at, crc, body), (key, until, 0, crc, body)):
        with pytest.raises(DamagedStoreError, match="topic 3 do not match their checksum"):
            open_batch(row)
    with pytest.raises(DamagedStoreError, match="facts of commit 6"):
        open_facts((6, *seal_facts(5, b"\x90")[1:]))
    with pytest.raises(DamagedStoreError, match="facts of commit 5"):
        open_facts(seal_snapshot(5, b"\x90"))
    with pytest.raises(DamagedStoreError, match="snapshot of commit 5"):
        open_snapshot(seal_facts(5, b"\x90"))


@pytest.mark.parametrize("row", [(5, 1, None), (5, None, b""), (5, 1, "text"), ("x", 1, b""), (2.5, 1, b"")])
def test_a_row_of_the_wrong_types_is_damage(row: tuple[object, ...]) -> None:
    with pytest.raises(DamagedStoreError, match="do not match their checksum"):
        open_facts(row)
