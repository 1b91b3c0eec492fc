"""Power cuts and kill -9 during a backup and a restore: the previous backup and store stay intact."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import FailedPreconditionError, NotFoundError
from penstock.journal.backup.checking import check_backup
from penstock.journal.backup.disk import Disk
from penstock.journal.backup.manifest import read_manifest
from penstock.journal.backup.writing import write_backup
from penstock.journal.sqlite import backup
from penstock.journal.sqlite.rows import SqliteRows
from tests.simulation.backup_disk import KillingDisk, RecordingDisk
from tests.simulation.backups import NOW, back_up, consume, contents, fill, open_store, restore, unheard


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Create a store with two topics."""
    with open_store(tmp_path / "data") as queue:
        fill(queue, "a", [b"a%d" % number for number in range(40)])
        fill(queue, "b", [b"b" * 5000, b"c" * 5000])
    return tmp_path / "data"


def go_on(data: Path) -> None:
    """Change the store. One topic loses all its messages, so that files of the earlier backup are deleted."""
    with open_store(data) as queue:
        consume(queue, "b", 2)
        fill(queue, "a", [b"x%d" % number for number in range(40)])
        fill(queue, "b", [b"d" * 5000])


def copy(data: Path, folder: Path, disk: Disk) -> int:
    rows = SqliteRows(data)
    try:
        return write_backup(rows, folder, now=NOW, progress=unheard, disk=disk).commit
    finally:
        rows.close()


def killed_after(run: Callable[[Disk], object]) -> Callable[[int], bool]:
    """Run a function in a process that is killed after this number of disk operations. Return whether it was killed."""

    def killed(steps: int) -> bool:
        if not (pid := os.fork()):
            code = 1
            try:
                run(KillingDisk(steps))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert status in (0, signal.SIGKILL)
        return status == signal.SIGKILL

    return killed


@pytest.mark.parametrize("earlier", [True, False])
def test_a_power_cut_leaves_the_backup_before_or_the_new_one(
    tmp_path: Path, data: Path, earlier: bool, rounds: Callable[[int, int], int]
) -> None:
    folder = tmp_path / "backup"
    before = back_up(data, folder).commit if earlier else 0
    go_on(data)
    folder.mkdir(exist_ok=True)
    disk = RecordingDisk(folder)
    after = copy(data, folder, disk)
    assert after > before
    seen = set()
    for place in range(len(disk.steps) + 1):
        for seed in range(rounds(5, 200)):
            cut = tmp_path / "cut"
            cut.mkdir()
            disk.cut(place, seed, cut)
            seen.add(_commit_in(cut))
            assert copy(data, cut, Disk()) == after, "the next run completes the backup"
            assert _commit_in(cut) == after
            known = {file.name for file in read_manifest(cut).files}
            assert {path.name for path in cut.iterdir()} == known | {"manifest", "lock"}, "no other files are left"
            shutil.rmtree(cut)
    assert seen == {before, after}
    assert disk.steps[-1].what in ("sync_folder", "remove")


def _commit_in(folder: Path) -> int:
    """Return the last commit of the backup in a folder, which must be complete. 0 if there is none."""
    try:
        manifest = read_manifest(folder)
    except NotFoundError:
        return 0
    return check_backup(manifest, folder).recovery.commit


def test_a_backup_killed_at_any_point_leaves_the_one_before_or_the_new_one(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "backup"
    before = back_up(data, folder).commit
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    go_on(data)
    killed, seen, steps = killed_after(lambda disk: copy(data, folder, disk)), [], 0
    while killed(steps):
        seen.append(_commit_in(folder))
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
        steps += 1
    assert steps > 10
    assert sorted(set(seen)) == sorted({before, _commit_in(folder)})
    assert seen == sorted(seen), "the new backup replaces the old one at one step"
    restore(folder, tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(data)


def test_a_restore_killed_at_any_point_leaves_a_complete_store_or_none(tmp_path: Path, data: Path) -> None:
    folder, target = tmp_path / "backup", tmp_path / "restored"
    back_up(data, folder)
    expected = contents(data)

    def run(disk: Disk) -> None:
        backup.restore(folder, target, keep_identity=True, progress=unheard, disk=disk)

    killed, steps, whole = killed_after(run), 0, 0
    while killed(steps):
        if (target / "penstock.db").exists():
            whole += 1
        else:
            with pytest.raises(FailedPreconditionError, match="was not finished: run it again"):
                open_store(target)
            run(Disk())  # no file has to be removed first
        assert contents(target) == expected
        assert not (target / "restoring").exists()
        shutil.rmtree(target)
        steps += 1
    assert whole, "some were killed at the very end"
    assert contents(target) == expected
