"""The journals that every conformance test runs on.

All journals pass the same tests. Only tests of durability are limited to durable journals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from penstock.journal.sqlite import SqliteJournal

Open = Callable[[], Journal]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a data folder, in memory where the system has a file system for it.

    These tests do not depend on the disk.
    """
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None) as folder:
        yield Path(folder) / "data"


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, folder: Path) -> Iterator[Journal]:
    journal: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(folder, reserve_bytes=0)
    journal.recover()
    yield journal
    journal.close()


@pytest.fixture(params=["sqlite"])
def reopen(request: pytest.FixtureRequest, folder: Path) -> Iterator[Open]:
    """Return a function that opens the durable journal. Each call closes the journal and opens its store again."""
    opened: list[Journal] = []

    def reopen() -> Journal:
        if opened:
            opened.pop().close()
        opened.append(SqliteJournal(folder, reserve_bytes=0))
        return opened[0]

    yield reopen
    for journal in opened:
        journal.close()
