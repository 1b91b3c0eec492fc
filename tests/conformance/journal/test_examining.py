"""The examination of a store: it reports damage and other problems, and changes nothing."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from penstock.journal.port import Finding
from penstock.journal.sqlite import examining
from tests.simulation.backups import consume, fill, open_store

YEAR = 365 * 86400 * 10**9


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_store(tmp_path / "data") as queue:
        fill(queue, "a", [b"a%d" % number for number in range(50)])
        consume(queue, "a", 20)
    return tmp_path / "data"


def look(data: Path, *, deep: bool = True, now: int = 0) -> dict[str, Finding]:
    unheard = lambda done, total: None  # noqa: E731
    found = list(examining.examine(data, deep=deep, now=now or _now(data), progress=unheard))
    return {finding.check: finding for finding in found}


def _now(data: Path) -> int:
    database = data / "penstock.db"
    return database.stat().st_mtime_ns + 10**9 if database.exists() else 0


def content(data: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in data.iterdir()}


def test_a_whole_store_is_whole_and_stays_as_it_was(data: Path) -> None:
    before = content(data)
    found = look(data)
    assert {finding.check for finding in found.values() if finding.level != "ok"} == {"reserve"}, found
    assert found["store"].found.startswith("1 topic, 1 subscription, 50 messages; 5")
    assert found["rows"].found == "Every message matches its checksum and none is missing: 50 rows."
    assert content(data) == before


def test_a_store_in_use_is_looked_at_beside_its_server(data: Path) -> None:
    assert examining.holder_of(data) is None
    with open_store(data) as queue:
        assert examining.holder_of(data) == os.getpid()
        fill(queue, "a", [b"more"])
        assert look(data)["rows"].level == "ok"
        fill(queue, "a", [b"still"])
    assert look(data)["rows"].level == "ok"


def test_messages_that_are_forgotten_meanwhile_are_not_missing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(data) as queue:
        recovered = examining._recover

        def recover_then_delete(rows: examining.SqliteRows) -> examining.Recovery:
            found = recovered(rows)
            if queue.topic_exists("a"):
                queue.delete_topic("a")
                while queue.engine.commits.maintain():
                    pass
            return found

        monkeypatch.setattr(examining, "_recover", recover_then_delete)
        assert look(data)["rows"].level == "ok"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE batches SET crc = crc + 1 WHERE id = (SELECT max(id) FROM batches)", "do not match their checksum"),
        ("DELETE FROM batches WHERE id = (SELECT max(id) FROM batches)", "topic a lacks messages from offset 49 to 50"),
        ("DELETE FROM batches WHERE id = (SELECT max(id) - 3 FROM batches)", "lacks messages from offset 46 to 47"),
        ("UPDATE facts SET crc = crc + 1 WHERE seq = (SELECT max(seq) FROM facts)", "do not match their checksum"),
        ("UPDATE snapshots SET crc = crc + 1", "do not match their checksum"),
        ("DELETE FROM facts", "is missing"),
    ],
)
def test_damage_is_found_and_named(data: Path, statement: str, sentence: str) -> None:
    connection = apsw.Connection(str(data / "penstock.db"))
    connection.execute(statement)
    connection.close()
    found = look(data)["store"]
    assert (found.level, found.advice) == ("problem", "Restore a backup.")
    assert sentence in found.found


def test_a_file_that_is_no_database_is_a_problem(data: Path) -> None:
    (data / "penstock.db").write_bytes(b"not a database" * 1000)
    assert look(data)["store"].level == "problem"


def test_lost_commits_are_counted(data: Path) -> None:
    older = (data / "penstock.db").read_bytes()
    with open_store(data) as queue:
        fill(queue, "a", [b"x"])
    (data / "penstock.db").write_bytes(older)
    found = look(data)["mark"]
    assert found.level == "problem"
    assert "more were answered: they are lost" in found.found
    assert "--accept-loss" in found.advice
    (data / "mark").unlink()
    assert look(data)["mark"].level == "note"


def test_the_clock_is_compared_with_the_store(data: Path) -> None:
    now = _now(data)
    assert look(data, deep=False, now=now)["clock"].level == "ok"
    assert look(data, deep=False, now=now - 10 * 60 * 10**9)["clock"].level == "note"
    assert look(data, deep=False, now=now - YEAR)["clock"].level == "problem"
    assert "366 days ago" in look(data, deep=False, now=now + YEAR + 2 * 86400 * 10**9)["clock"].found.replace(
        "367", "366"
    )


def test_files_that_other_users_may_read_are_a_problem(data: Path) -> None:
    data.chmod(0o755)
    assert look(data)["privacy"].level == "ok", "the files are private"
    (data / "penstock.db").chmod(0o644)
    assert look(data)["privacy"].level == "problem"


def test_a_folder_without_a_store_and_one_with_half_a_restore(tmp_path: Path) -> None:
    assert look(tmp_path)["store"].level == "note"
    (tmp_path / "restoring").mkdir()
    assert look(tmp_path)["restore"].level == "problem"
