"""`penstock export` and the file that it writes: its permissions, and existing files that it does not replace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("export")
    with ServerProcess(folder, "--memory", doors=["http"]) as server:
        yield CommandLine(server, folder)


def test_an_export_is_readable_by_its_owner_only(command: CommandLine, tmp_path: Path) -> None:
    command("topics", "create", "secret")
    command("publish", "secret", "one espresso")
    file = tmp_path / "out.jsonl"
    old = tmp_path / "out.jsonl.part"
    old.write_text("left by an export that was killed")
    old.chmod(0o644)
    command("export", "secret", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert not old.exists()


def test_an_export_replaces_a_file_only_when_told_to(command: CommandLine, tmp_path: Path) -> None:
    command("topics", "create", "twice")
    command("publish", "twice", "one espresso")
    file = tmp_path / "out.jsonl"
    file.write_text("precious")
    file.chmod(0o644)
    told = command.refused("export", "twice", str(file), code=2)
    assert told == f"Overwrite {file}? Use --yes to confirm without a terminal"
    assert file.read_text() == "precious"
    with command.terminal("export", "twice", str(file)) as terminal:
        terminal.until(r"Overwrite .*\? \[y/N\]")
        terminal.type("n\n")
        assert terminal.end()[0] == 1
    assert file.read_text() == "precious"
    for flag in ("--yes", "--force"):
        command("export", "twice", str(file), flag)
        assert b"one espresso" in file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_an_export_does_not_write_through_a_link_in_its_place(command: CommandLine, tmp_path: Path, kind: str) -> None:
    """In a shared folder, other users may create a link under the name of the temporary file."""
    topic, target, part = kind.replace(" ", "-"), tmp_path / "target", tmp_path / "x.jsonl.part"
    command("topics", "create", topic)
    command("publish", topic, "one espresso")
    target.write_text("precious")
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "symlink":
        part.symlink_to(target)
    else:
        part.hardlink_to(target)
    with command.process("export", topic, str(tmp_path / "x.jsonl")) as export:
        assert export.wait(SECONDS) == 0
    file = tmp_path / "x.jsonl"
    assert (target.read_text(), file.stat().st_mode & 0o777) == ("precious", 0o600)
    assert b"one espresso" in file.read_bytes()
    assert not part.exists()


def test_an_export_writes_to_ordinary_files(command: CommandLine, tmp_path: Path) -> None:
    command("topics", "create", "ordinary")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "it is not a regular file" in command.refused("export", "ordinary", str(pipe), "--yes", code=2)
    assert "it is a folder" in command.refused("export", "ordinary", str(tmp_path), "--yes", code=2)
    (tmp_path / "x.jsonl.part").mkdir()
    assert "Cannot write" in command.refused("export", "ordinary", str(tmp_path / "x.jsonl"), code=2)
    with command.terminal("export", "ordinary", "-", "--parquet") as terminal:
        code, text = terminal.end()
    assert code == 2
    assert "Parquet is a binary format. Give a FILE, or redirect the output" in text
