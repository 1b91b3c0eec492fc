"""The log as a second process reads it: complete, checked, and with correct byte positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.broker.model import Batch, Message
from penstock.errors import DamagedStoreError
from penstock.journal import codec
from penstock.journal.port import Commit
from penstock.journal.sqlite import SqliteJournal, scanning
from penstock.journal.sqlite.scanning import LogScanner
from tests.conformance.journal.samples import messages, publish, settle

TOPIC = 7


@pytest.fixture
def journal(folder: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    yield journal
    journal.close()


@pytest.fixture
def scanner(folder: Path, journal: SqliteJournal) -> Iterator[LogScanner]:
    scanner = LogScanner(folder)
    yield scanner
    scanner.close()


def read(scanner: LogScanner, first: int, until: int) -> list[Message]:
    found = [message for batch in scanner.batches(TOPIC, first, until) for message in codec.decode_messages(batch.body)]
    return [message for message in found if first <= message.offset < until]


def test_every_range_comes_whole_and_in_order(journal: SqliteJournal, scanner: LogScanner) -> None:
    publish(journal, TOPIC, 0, 3, 4, 10)
    publish(journal, TOPIC + 1, 0, 5)
    for first in range(10):
        for until in range(first, 11):
            assert read(scanner, first, until) == messages(first, until)


def test_a_long_scan_is_fetched_in_pieces(
    journal: SqliteJournal, scanner: LogScanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "FETCH_BYTES", 100)
    publish(journal, TOPIC, *range(0, 101, 2))
    assert read(scanner, 5, 97) == messages(5, 97)


def test_a_scan_does_not_block_the_writer(
    journal: SqliteJournal, scanner: LogScanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "FETCH_BYTES", 1)
    publish(journal, TOPIC, 0, 2, 4)
    scan = scanner.batches(TOPIC, 0, 4)
    assert next(scan).until == 2
    publish(journal, TOPIC, 4, 6)
    journal._wal.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)  # waits for every reader, so it would wait for a scan
    assert journal._wal.waiting == 0
    assert [batch.until for batch in scan] == [4]


def test_forgotten_messages_are_missing_at_the_front_only(journal: SqliteJournal, scanner: LogScanner) -> None:
    publish(journal, TOPIC, 0, 2, 4, 6)
    journal.forget(TOPIC, 4)
    settle(journal)
    assert read(scanner, 0, 6) == messages(4, 6)


def test_a_gap_is_damage(journal: SqliteJournal, scanner: LogScanner) -> None:
    publish(journal, TOPIC, 0, 2)
    publish(journal, TOPIC, 3, 5)
    with pytest.raises(DamagedStoreError, match="lacks messages from offset 2 to 3"):
        read(scanner, 0, 5)
    with pytest.raises(DamagedStoreError, match="lacks messages"):
        read(scanner, 3, 9)
    with pytest.raises(DamagedStoreError, match="lacks messages"):
        scanner.position_of(TOPIC, 9)


def test_a_changed_row_is_damage(journal: SqliteJournal, scanner: LogScanner) -> None:
    publish(journal, TOPIC, 0, 2)
    journal._writer.execute("UPDATE batches SET until = 3")
    with pytest.raises(DamagedStoreError, match="checksum"):
        read(scanner, 0, 2)


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=60), cuts=st.sets(st.integers(1, 59)), data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_offsets_and_positions_fit_together(
    folder: Path, sizes: list[int], cuts: set[int], data: st.DataObject
) -> None:
    positions = list(accumulate(sizes, initial=0))
    log = [Message(b"", {}, "", 1, offset, positions[offset], size, 0, 0) for offset, size in enumerate(sizes)]
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    topic = data.draw(st.integers(1, 2**20))
    journal = SqliteJournal(folder, reserve_bytes=0)
    scanner = LogScanner(folder)
    try:
        journal.commit(Commit([], [Batch(topic, low, log[low:high]) for low, high in pairwise(bounds)]))
        low = data.draw(st.integers(0, len(log)))
        high = data.draw(st.integers(low, len(log)))
        wanted = data.draw(st.integers(0, positions[-1] + 5))
        expected = next((at for at in range(low, high) if positions[at] >= wanted), high)
        assert scanner.offset_of(topic, wanted, low, high) == expected
        assert [scanner.position_of(topic, offset) for offset in range(len(log) + 1)] == positions
    finally:
        scanner.close()
        journal.close()
        for file in folder.iterdir():  # every example has a store of its own
            file.unlink()
