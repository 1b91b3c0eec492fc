"""Permissions for backups, their allowed folders, and the answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from penstock.doors.http.admin.backup import NOT_BELOW, NOT_FROM_AFAR, BackupBody, allowed_folder
from penstock.doors.http.options import HttpOptions
from penstock.engine.port import BackupProgress, BackupReport
from penstock.errors import FailedPreconditionError, InvalidArgumentError, PermissionDeniedError
from tests.doors.http.harness import Harness


@pytest.fixture
def admin() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


def folder_of(folder: str, below: Path | None = None, *, local: bool = True, working_folder: str = "") -> Path:
    return allowed_folder(BackupBody(folder, working_folder), str(below) if below else None, local=local)


def test_on_the_same_machine_any_folder_may_be_named() -> None:
    assert folder_of("/backups/a") == Path("/backups/a")
    assert folder_of("a/b", working_folder="/users/me") == Path("/users/me/a/b")
    with pytest.raises(InvalidArgumentError, match="an absolute path"):
        folder_of("a/b")


def test_other_machines_may_name_a_folder_only_below_the_backup_folder(tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError) as refused:
        folder_of("/backups/a", local=False)
    assert refused.value.message == NOT_FROM_AFAR
    assert folder_of("a", tmp_path, local=False) == tmp_path.resolve() / "a"


@pytest.mark.parametrize("given", ["../a", "a/../../b", "/etc", "link/a", "a/../link", "/", ".."])
def test_no_way_leads_out_of_the_place_for_backups(tmp_path: Path, given: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "link").symlink_to("/etc")
    for local in (True, False):
        with pytest.raises(PermissionDeniedError) as refused:
            folder_of(given, place, local=local)
        assert refused.value.message == NOT_BELOW
        assert str(tmp_path) not in refused.value.message


def test_ways_inside_the_place_for_backups_are_fine(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    for given, meant in [("a", "a"), ("a/b/../c", "a/c"), (str(place / "x"), "x"), ("./n", "n")]:
        assert folder_of(given, place) == place / meant


@pytest.mark.parametrize("given", ["", "  ", "a\0b", "a\nb"])
def test_an_invalid_folder_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must be the path of a folder"):
        folder_of(given, tmp_path)


def test_a_server_in_memory_has_nothing_to_copy(admin: Harness) -> None:
    answer = admin.ask("POST", "/backup", {"folder": "/backups/a"})
    assert (answer.status, answer.sentence) == (
        412,
        "This server keeps everything in memory: there is nothing on disk to back up.",
    )


def test_a_read_token_may_not_start_a_backup() -> None:
    with Harness(HttpOptions(tokens=("all",), read_tokens=("read",))) as admin:
        answer = admin.ask("POST", "/backup", {"folder": "/backups/a"}, headers={"Authorization": "Bearer read"})
    assert (answer.status, answer.sentence) == (403, "This token may only read.")


def test_a_backup_reports_its_progress_and_a_failure_in_its_last_line(
    admin: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def half(folder: str) -> AsyncGenerator[BackupProgress | BackupReport, None]:
        yield BackupProgress("copying", 5, 10)
        raise FailedPreconditionError("It was not meant to be.")

    async def whole(folder: str) -> AsyncGenerator[BackupProgress | BackupReport, None]:
        yield BackupProgress("copying", 10, 10)
        yield BackupReport(2, "2026-11-16T08:00:00Z", 7, 1, 3, 2, 10, 90)

    lines = []
    for backup in (half, whole):
        monkeypatch.setattr(admin.context.queue, "backup", backup)
        answer = admin.ask("POST", "/backup", {"folder": "/backups/a"})
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
        lines += [json.loads(line) for line in answer.body.splitlines()]
    assert lines == [
        {"progress": {"step": "copying", "bytes": 5, "total_bytes": 10}},
        {"error": {"code": 412, "message": "It was not meant to be."}},
        {"progress": {"step": "copying", "bytes": 10, "total_bytes": 10}},
        {
            "backup": {
                "number": 2,
                "time": "2026-11-16T08:00:00Z",
                "commit": 7,
                "topics": 1,
                "messages": 3,
                "files": 2,
                "copied_bytes": 10,
                "taken_over_bytes": 90,
            }
        },
    ]
