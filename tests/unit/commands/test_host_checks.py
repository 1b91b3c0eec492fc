"""The checks of `penstock doctor` on the machine below a store."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from penstock.commands import host_checks
from penstock.journal.port import Finding

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /mnt/with\\040space rw - nfs4 server:/x rw
24 22 0:6 / /data rw - xfs /dev/sdb rw
25 24 0:7 / /data/fast rw shared:2 master:1 - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv", "ext4"),
        ("/data/x", "xfs"),
        ("/data/fast/x", "tmpfs"),
        ("/datafast", "ext4"),
        ("/mnt/with space", "nfs4"),
    ],
)
def test_the_nearest_mount_names_the_file_system(folder: str, kind: str) -> None:
    assert host_checks.file_system(Path(folder), MOUNTS) == kind


def finding_of(tmp_path: Path, check: str, **patched: object) -> Finding:
    with ExitStack() as stack:
        for name, value in patched.items():
            stack.enter_context(patch.object(host_checks, name, value))
        return next(each for each in host_checks.check_host(tmp_path, None) if each.check == check)


@pytest.mark.parametrize(
    ("kind", "level"), [("ext4", "ok"), ("nfs4", "problem"), ("tmpfs", "note"), ("overlay", "note"), ("", "ok")]
)
def test_file_systems_are_judged(tmp_path: Path, kind: str, level: str) -> None:
    assert finding_of(tmp_path, "file system", file_system=lambda folder: kind).level == level


def test_syncs_are_measured_and_judged(tmp_path: Path) -> None:
    assert len(host_checks.sync_times(tmp_path)) == host_checks.SYNCS
    assert not list(tmp_path.iterdir()), "and leave nothing"
    for seconds, level, sentence in [
        (0.001, "ok", "1.00 ms"),
        (0.000001, "note", "No disk is"),
        (0.2, "note", "0.2 s"),
    ]:
        found = finding_of(
            tmp_path, "sync", sync_times=lambda folder, each=seconds: [each] * 50, file_system=lambda folder: "ext4"
        )
        assert (found.level, sentence in found.found) == (level, True), found


def test_a_folder_that_cannot_be_written_is_not_measured(tmp_path: Path) -> None:
    with patch.object(host_checks, "sync_times", side_effect=PermissionError(13, "Permission denied")):
        found = finding_of(tmp_path, "sync")
    assert (found.level, found.found) == ("note", "Not measured: Permission denied.")


def test_space_is_judged(tmp_path: Path) -> None:
    for free, level in [(100 << 30, "ok"), (500 << 20, "note"), (10 << 20, "problem")]:
        usage = os.statvfs_result((4096, 4096, 1 << 30, free // 4096, free // 4096, 1000, 100, 100, 0, 255))
        with patch.object(os, "statvfs", return_value=usage):
            assert finding_of(tmp_path, "space").level == level


def test_open_files_are_those_of_the_given_process(tmp_path: Path) -> None:
    assert host_checks.open_files(os.getpid()) == host_checks.open_files(None)
    assert host_checks.open_files(2**30) is None
    assert finding_of(tmp_path, "limits", open_files=lambda pid: 256).level == "note"
    assert finding_of(tmp_path, "limits", open_files=lambda pid: -1).found.startswith("Unlimited open files")
