"""Backups of a store and their restores. Every fault in a backup is found and named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pytest

from penstock import MessageQueue
from penstock.broker.names import first_id
from penstock.errors import (
    DamagedStoreError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PenstockError,
    ResourceExhaustedError,
)
from penstock.journal.backup import disk, rows, writing
from penstock.journal.backup.checking import check_backup, examine_backup
from penstock.journal.backup.manifest import read_manifest
from penstock.journal.memory import MemoryJournal
from penstock.journal.sqlite import SqliteJournal
from penstock.journal.sqlite import rows as sqlite_rows
from tests.simulation.backups import back_up, consume, contents, fill, open_store, restore


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_store(tmp_path / "data") as queue:
        fill(queue, "a", [b"a%d" % number for number in range(100)])
        fill(queue, "b", [b"b" * 3000] * 5)
        consume(queue, "a", 30)
        queue.lease("a-reader", 3)
    return tmp_path / "data"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backup"


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    return tmp_path / "restored"


def go_on(data: Path, topic: str = "a", count: int = 10) -> None:
    with open_store(data) as queue:
        fill(queue, topic, [b"more %d" % number for number in range(count)])


# ---------------------------------------------------------------------- restores


def test_a_restored_store_has_the_same_contents(data: Path, folder: Path, restored: Path) -> None:
    report = back_up(data, folder)
    restore(folder, restored)
    assert contents(restored) == contents(data)
    assert (report.topics, report.messages) == (2, 105)
    assert {path.name for path in restored.iterdir()} == {"penstock.db", "mark", "lock"}
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}, (
        "the restored store is as private as the first"
    )


def test_a_restored_store_can_be_used(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    restore(folder, restored)
    go_on(restored)
    with open_store(restored) as queue:
        assert [message.data for message in queue.read("a", 100, 110)][-1] == b"more 9"


def test_slices_and_files_of_any_size_give_the_same(data: Path, folder: Path, restored: Path) -> None:
    with (
        patch.multiple(writing, FILE_BYTES=400),
        patch.multiple(rows, WRITE_BYTES=100),
        patch.multiple(sqlite_rows, SLICE_BYTES=1),
    ):
        assert back_up(data, folder).files > 10
    restore(folder, restored)
    assert contents(restored) == contents(data)


def test_a_restored_store_is_another_one(data: Path, folder: Path, restored: Path) -> None:
    """The old store may still be in use, so its message ids and receipts must not name messages of the new one."""
    back_up(data, folder)
    restore(folder, restored, keep_identity=False)
    old, new = contents(data), contents(restored)
    assert new.messages == old.messages
    assert new.dump.identity != old.dump.identity
    assert new.dump.secret != old.dump.secret, "receipts of the old store are not valid"
    for before, after in zip(old.dump.topics, new.dump.topics, strict=True):
        assert after.first_id == first_id(new.dump.identity, after.number), "message ids are not used again"
        assert after._replace(first_id=before.first_id) == before


def test_nothing_but_the_identity_changes(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    restore(folder, restored, keep_identity=False)
    old, new = contents(data).dump, contents(restored).dump
    assert new.subscriptions == old.subscriptions
    assert new.snapshots == old.snapshots
    assert new.documents == old.documents


class Busy(sqlite_rows.SqliteRows):
    """A store that gets a new message before every read."""

    def __init__(self, data: Path, queue: MessageQueue) -> None:
        super().__init__(data)
        self._queue, self._looks = queue, 0

    def _slice(self, *question: Any) -> list[Any]:
        self._looks += 1
        assert self._looks < 2000, "the backup does not end"
        fill(self._queue, "a", [b"more"])
        return super()._slice(*question)


def test_a_busy_store_is_backed_up(data: Path, folder: Path, restored: Path) -> None:
    """Without a limit, the backup would copy new messages forever."""
    with open_store(data) as queue:
        busy = Busy(data, queue)
        report = writing.write_backup(busy, folder, now=0, progress=lambda _: None)
        busy.close()
        assert report.messages < queue.topic("a").tail + 5
    restore(folder, restored)
    assert len(contents(restored).messages[1]) <= report.messages


def test_a_backup_pauses_after_each_slice_except_the_last_ones(data: Path, folder: Path) -> None:
    """Other clients get the disk and the processors between the slices. The backup still ends."""
    did = list[str]()
    with open_store(data) as queue, patch.multiple(rows, WRITE_BYTES=100), patch.multiple(sqlite_rows, SLICE_BYTES=1):
        busy = Busy(data, queue)
        writing.write_backup(
            busy, folder, now=0, progress=lambda news: did.append(news.step), rest=lambda: did.append("rest")
        )
        busy.close()
    copying = did[: did.index("checking")]
    assert copying[:100] == ["copying", "rest"] * 50
    assert copying[-2:] == ["copying", "copying"], "the last slices share one view"
    assert did[len(copying) :] == ["checking", "rest"] * did.count("checking")
    assert did.count("checking") > 50


# ---------------------------------------------------------------------- incremental


def test_only_new_messages_are_copied(data: Path, folder: Path, restored: Path) -> None:
    first = back_up(data, folder)
    files = {path.name: path.stat().st_mtime_ns for path in folder.glob("messages-*")}
    go_on(data)
    second = back_up(data, folder)
    assert (first.number, second.number) == (1, 2)
    assert second.messages == first.messages - 30 + 10, "acked messages are deleted by then"
    assert first.taken_over_bytes == 0
    assert second.taken_over_bytes > 15_000 > 3_000 > second.copied_bytes
    assert files.items() <= {path.name: path.stat().st_mtime_ns for path in folder.glob("messages-*")}.items()
    restore(folder, restored)
    assert contents(restored) == contents(data)


def test_nothing_new_copies_nothing(data: Path, folder: Path) -> None:
    first = back_up(data, folder)
    again = back_up(data, folder)
    assert (again.copied_bytes, again.taken_over_bytes, again.commit) == (0, first.copied_bytes, first.commit)


def test_files_without_needed_messages_are_removed(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    with open_store(data) as queue:
        queue.delete_topic("a")
        consume(queue, "b", 5)
    with open_store(data) as queue:
        fill(queue, "b", [b"new"])
    report = back_up(data, folder)
    assert report.messages == 1
    assert sum(path.stat().st_size for path in folder.glob("messages-*")) < 200
    restore(folder, restored)
    assert contents(restored) == contents(data)


def test_messages_forgotten_between_two_backups_are_not_a_gap(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    with open_store(data) as queue:
        fill(queue, "b", [b"never copied"] * 5)
        consume(queue, "b", 10)
    with open_store(data) as queue:
        fill(queue, "b", [b"kept"])
        while queue.engine.commits.maintain():
            pass
    back_up(data, folder)
    restore(folder, restored)
    assert contents(restored) == contents(data)


def test_facts_that_snapshots_made_superfluous_are_not_missed(data: Path, folder: Path, restored: Path) -> None:
    """Each close writes a snapshot, and deletes the facts up to the older one of two snapshots."""
    back_up(data, folder)
    for _ in range(3):
        go_on(data)
        with open_store(data) as queue:
            while queue.engine.commits.maintain():
                pass
    back_up(data, folder)
    restore(folder, restored)
    assert contents(restored) == contents(data)


# ---------------------------------------------------------------------- faults


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def test_a_flipped_bit_anywhere_is_found_and_the_file_named(
    data: Path, folder: Path, restored: Path, rounds: Callable[[int, int], int]
) -> None:
    back_up(data, folder)
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        for place in sorted({size * each // rounds(60, 3000) for each in range(rounds(60, 3000))} if size else set()):
            _flip(path, place)
            with pytest.raises(DamagedStoreError, match=path.name):
                restore(folder, restored)
            assert not restored.exists(), "no store was created"
            _flip(path, place)
    restore(folder, restored)


def test_a_flipped_bit_in_the_state_is_found_by_the_next_backup(data: Path, folder: Path) -> None:
    back_up(data, folder)
    (path,) = folder.glob("state-*")
    for place in range(0, path.stat().st_size, 97):
        _flip(path, place)
        with pytest.raises(DamagedStoreError, match=path.name):
            back_up(data, folder)
        _flip(path, place)
    assert back_up(data, folder).copied_bytes == 0


def test_a_look_at_a_backup_reads_all_of_it(data: Path, folder: Path) -> None:
    back_up(data, folder)
    found = examine_backup(folder, lambda done, total: None)
    assert found.level == "ok"
    assert found.found.endswith(" bytes: whole, and every checksum matches.")
    for path in folder.glob("*.rows"):
        _flip(path, path.stat().st_size // 2)
        found = examine_backup(folder, lambda done, total: None)
        assert (found.level, path.name in found.found) == ("problem", True)
        _flip(path, path.stat().st_size // 2)


def test_a_file_cut_short_or_missing_is_named(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    for file in read_manifest(folder).files:
        path = folder / file.name
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        for use in (lambda: restore(folder, restored), lambda: back_up(data, folder)):
            with pytest.raises(DamagedStoreError, match=f"{path.name} does not match"):
                use()
        path.unlink()
        for use in (lambda: restore(folder, restored), lambda: back_up(data, folder)):
            with pytest.raises(DamagedStoreError, match=f"{path.name} is missing"):
                use()
        path.write_bytes(content)
    restore(folder, restored)


def test_a_manifest_of_another_store_fits_nothing(data: Path, folder: Path, restored: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "other")
    go_on(tmp_path / "other")
    back_up(data, folder)
    back_up(tmp_path / "other", tmp_path / "others")
    shutil.copy(tmp_path / "others" / "manifest", folder / "manifest")
    with pytest.raises(DamagedStoreError, match=r"rows does not match its checksum|rows is missing"):
        restore(folder, restored)


def test_a_manifest_that_was_edited_is_not_believed(data: Path, folder: Path, restored: Path) -> None:
    """A matching checksum in the edited manifest does not help."""
    back_up(data, folder)
    record = json.loads((folder / "manifest").read_text().partition("\n")[0])
    faults = [("commit", record["commit"] - 1), ("store", "0" * 32), ("batches", [])]
    for name, value in faults:
        line = json.dumps(record | {name: value})
        (folder / "manifest").write_text(f"{line}\n{sha256(line.encode()).hexdigest()}\n")
        with pytest.raises(DamagedStoreError, match="The backup is damaged"):
            restore(folder, restored)


def test_a_later_format_is_refused(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    line = json.dumps({"format": 2, "surprise": []})
    (folder / "manifest").write_text(f"{line}\n{sha256(line.encode()).hexdigest()}\n")
    with pytest.raises(FailedPreconditionError, match="has format 2, and this release reads format 1"):
        restore(folder, restored)


def test_a_damaged_store_gives_no_backup(data: Path, folder: Path) -> None:
    before = back_up(data, folder)
    go_on(data)
    connection = apsw.Connection(str(data / "penstock.db"))
    connection.execute("UPDATE batches SET crc = crc + 1 WHERE id = (SELECT max(id) FROM batches WHERE id < 1<<40)")
    connection.close()
    with pytest.raises(DamagedStoreError, match="do not match their checksum"):
        back_up(data, folder)
    manifest = read_manifest(folder)
    assert manifest.commit == before.commit
    check_backup(manifest, folder)
    assert {path.name for path in folder.iterdir()} == {"manifest", "lock", *(file.name for file in manifest.files)}


# ---------------------------------------------------------------------- refusals


def test_the_folder_of_another_store_is_refused(data: Path, folder: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as queue:
        fill(queue, "a", [b"another"])
    back_up(tmp_path / "other", folder)
    with pytest.raises(FailedPreconditionError, match="the backup of another store"):
        back_up(data, folder)


def test_a_restored_store_does_not_continue_the_backup_of_the_old_one(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    restore(folder, restored, keep_identity=False)
    with pytest.raises(FailedPreconditionError, match="the backup of another store"):
        back_up(restored, folder)


@pytest.mark.parametrize("snapshots", [0, 3])
def test_another_history_of_the_same_store_is_refused(data: Path, folder: Path, tmp_path: Path, snapshots: int) -> None:
    """Such a history begins when data loss is accepted: the numbers are the same, and the messages differ.

    With snapshots, the facts that show the difference are deleted.
    """
    shutil.copytree(data, tmp_path / "older")
    go_on(data)
    back_up(data, folder)
    older = tmp_path / "older"
    with pytest.raises(FailedPreconditionError, match="another history"):
        back_up(older, folder)
    with open_store(older) as queue:
        fill(queue, "a", [b"different %d" % number for number in range(20)])
    for _ in range(snapshots):
        with open_store(older) as queue:
            fill(queue, "b", [b"x"])
            while queue.engine.commits.maintain():
                pass
    with pytest.raises(FailedPreconditionError, match="another history"):
        back_up(older, folder)
    assert read_manifest(folder).number == 1


def test_a_folder_with_other_files_is_left_alone(data: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear")
    with pytest.raises(FailedPreconditionError, match="holds other files"):
        back_up(data, folder)
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_the_store_cannot_hold_its_own_backup(data: Path) -> None:
    for folder in (data, data / "backup", data / ".." / "data" / "backup"):
        with pytest.raises(InvalidArgumentError, match="inside its own folder"):
            back_up(data, folder)
    assert not (data / "backup").exists()


def test_a_store_in_use_is_not_touched(data: Path, folder: Path) -> None:
    with open_store(data), pytest.raises(FailedPreconditionError, match=f"in use by process {os.getpid()}"):
        back_up(data, folder)
    assert not folder.exists()


def test_no_store_no_backup(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no store in"):
        back_up(tmp_path / "nowhere", folder)
    assert not (tmp_path / "nowhere").exists()


def test_a_store_that_lost_commits_is_not_backed_up_unnoticed(data: Path, folder: Path) -> None:
    older = (data / "penstock.db").read_bytes()
    go_on(data)
    (data / "penstock.db").write_bytes(older)
    with pytest.raises(FailedPreconditionError, match=r"has lost its last \d+ commits"):
        back_up(data, folder)


def test_no_backup_to_restore(tmp_path: Path, restored: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFoundError, match="There is no backup in this folder"):
            restore(folder, restored)
    assert not restored.exists()


def test_a_folder_that_is_not_empty_is_not_restored_into(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    restored.mkdir()
    (restored / "notes").write_text("mine")
    with pytest.raises(FailedPreconditionError, match="is not empty"):
        restore(folder, restored)
    with pytest.raises(FailedPreconditionError, match="is not empty"):
        restore(folder, data)
    assert contents(data)


def test_a_restore_that_fails_leaves_nothing(data: Path, folder: Path, restored: Path) -> None:
    back_up(data, folder)
    failing = patch.object(disk.Disk, "rename", side_effect=OSError(28, "No space left on device"))
    with failing, pytest.raises(FailedPreconditionError, match="cannot be restored: No space left on device"):
        restore(folder, restored / "below")
    assert not restored.exists()


def test_memory_has_no_backup() -> None:
    with pytest.raises(FailedPreconditionError, match="keeps everything in memory"):
        MemoryJournal().backup_command()


def test_a_full_disk_stops_the_backup_before_it_stops_the_broker(data: Path, folder: Path) -> None:
    back_up(data, folder)
    go_on(data)
    with (
        patch.object(disk.Disk, "has_room", return_value=False),
        pytest.raises(ResourceExhaustedError, match="no room"),
    ):
        back_up(data, folder)
    assert check_backup(read_manifest(folder), folder)


def test_a_folder_that_cannot_be_made_is_one_sentence(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FailedPreconditionError, match="The backup cannot be written: "):
        back_up(data, tmp_path / "file" / "backup")


def test_two_backups_into_one_folder_at_a_time_are_refused(data: Path, folder: Path, tmp_path: Path) -> None:
    back_up(data, folder)
    shutil.copytree(data, tmp_path / "other")
    found: list[PenstockError] = []

    class Meanwhile(disk.Disk):
        def sync(self, file: object) -> None:
            try:
                back_up(tmp_path / "other", folder)
            except PenstockError as error:
                found.append(error)

    go_on(data)
    journal_rows = sqlite_rows.SqliteRows(data)
    writing.write_backup(journal_rows, folder, now=0, progress=lambda _: None, disk=Meanwhile())
    journal_rows.close()
    assert {error.message for error in found} == {"Another backup into this folder is running."}


def test_a_restore_that_was_not_finished_keeps_others_from_starting_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "data" / "restoring").mkdir(parents=True)
    with pytest.raises(FailedPreconditionError, match="was not finished: run it again, or remove"):
        SqliteJournal(tmp_path / "data")
