"""`penstock backup` and `penstock restore` on a real server, also when one of them is killed or interrupted."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from penstock import text
from penstock.admin.client import Client
from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=["http", "text"]) as server:
        yield server


@pytest.fixture
def command(server: ServerProcess, tmp_path: Path) -> CommandLine:
    return CommandLine(server, tmp_path)


def publish(server: ServerProcess, *bodies: str) -> None:
    with text.Client(server.addresses["text"]) as client:
        client.send_many("orders", [body.encode() for body in bodies])


def read(server: ServerProcess) -> list[str]:
    with text.Client(server.addresses["text"]) as client:
        return [message.content.decode() for message in client.consume("orders", wait_seconds=1)]


def test_a_backup_is_made_brought_up_to_date_and_restored(
    server: ServerProcess, command: CommandLine, tmp_path: Path
) -> None:
    publish(server, *"abc")
    made = command("backup", str(tmp_path / "backup")).out
    assert made.startswith("Backup 1 of 20")
    assert made.endswith(" B.\n")
    assert ": 1 topic, 3 messages, up to commit " in made
    publish(server, "d")
    again = command("backup", str(tmp_path / "backup"), "--json").records[0]
    assert (again["number"], again["messages"]) == (2, 4)
    assert 0 < again["copied_bytes"] < again["taken_over_bytes"]
    publish(server, "later")
    restored = command("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "new")).out
    assert restored.startswith("Restored backup 2 of 20")
    assert restored.endswith(f" into {tmp_path / 'new'}: 1 topic, 4 messages, up to commit {again['commit']}.\n")
    folder = tmp_path / "another"
    folder.mkdir()
    with ServerProcess(folder, "--data", str(tmp_path / "new"), doors=["http", "text"]) as other:
        assert read(other) == [*"abcd"]


def test_a_folder_is_meant_from_where_the_caller_is(
    command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command("backup", "here")
    assert (tmp_path / "here" / "manifest").exists()


def test_or_below_the_place_that_the_server_has_for_backups(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with ServerProcess(
        tmp_path, "--data", str(tmp_path / "data"), "--backup-folder", str(place), doors=["http", "text"]
    ) as server:
        command = CommandLine(server, tmp_path)
        command("backup", "nightly")
        assert (place / "nightly" / "manifest").exists()
        sentence = (
            "This server writes backups only below the folder of its setting backup_folder; name a folder below it."
        )
        assert command.refused("backup", "../out") == sentence
        assert command.refused("backup", str(tmp_path / "out")) == sentence
    assert not (tmp_path / "out").exists()


def test_a_store_without_a_server_is_copied_in_place(
    server: ServerProcess, command: CommandLine, tmp_path: Path
) -> None:
    publish(server, *"abc")
    data, backup = str(tmp_path / "data"), str(tmp_path / "backup")
    in_use = command.refused("backup", backup, "--data", data)
    assert in_use.startswith(f"The data folder {data} is in use by process {server.process.pid};")
    assert server.stop() == 0
    assert command("backup", backup, "--data", data, "-J").records[0]["messages"] == 3
    assert "Cannot reach the server" in command.refused("backup", backup, code=4)


def test_an_error_is_one_sentence(command: CommandLine, tmp_path: Path) -> None:
    backup, data = str(tmp_path / "backup"), str(tmp_path / "data")
    command("backup", backup)
    assert command.refused("restore", backup, "--data", data) == (
        f"{data} is not empty: restore into a folder that is new or empty."
    )
    assert command.refused("restore", str(tmp_path / "no"), "--data", str(tmp_path / "x"), code=3) == (
        "There is no backup in this folder: it has no manifest."
    )
    assert command.refused("backup", str(tmp_path / "data" / "inside")) == (
        "The backup of a store cannot be inside its own folder."
    )
    assert command.refused("backup", str(tmp_path / "b"), "--data", str(tmp_path / "no"), code=3) == (
        f"There is no store in {tmp_path / 'no'}."
    )
    (tmp_path / "file").write_text("")
    assert command.refused("backup", str(tmp_path / "file" / "b")) == "The backup cannot be written: Not a directory."
    state = next((tmp_path / "backup").glob("state-*"))
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    assert command.refused("restore", backup, "--data", str(tmp_path / "x")) == (
        f"The backup is damaged: {state.name} does not match its checksum."
    )
    assert not (tmp_path / "x").exists()


def test_a_backup_that_takes_long_has_a_bar_on_a_terminal(
    server: ServerProcess, command: CommandLine, tmp_path: Path
) -> None:
    """The copying process is stopped until the progress bar appears."""
    publish(server, *(["x" * 100_000] * 200))
    with command.terminal("backup", str(tmp_path / "backup")) as terminal:
        while not (copying := psutil.Process(server.ready["pid"]).children()):
            assert terminal.process.poll() is None
        copying[0].suspend()
        with pytest.raises(subprocess.TimeoutExpired):
            terminal.process.wait(1.5)
        copying[0].resume()
        terminal.until(r"(Copying|Checking), MiB .*\d+/\d+")
        code, text = terminal.end()
    assert code == 0
    assert "Backup 1 of 20" in text
    assert "\r\x1b[KBackup 1 of 20" in terminal.raw, "the bar is removed"
    assert "\x1b[?25l" not in terminal.raw, "the cursor stays visible"


def test_a_backup_that_takes_long_has_lines_in_a_pipe(
    server: ServerProcess, command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets a line on standard error every few seconds. Here every report of the server prints one."""
    monkeypatch.setattr("penstock.commands.progress.LINE_SECONDS", 0)
    publish(server, *(["x" * 100_000] * 20))
    done = command("backup", str(tmp_path / "backup"))
    assert re.search(r"^(Copying|Checking), MiB: \d+ of \d+$", done.err, re.M), done
    assert done.out.startswith("Backup 1 of 20")
    monkeypatch.setattr("penstock.commands.progress.LINE_SECONDS", 600)
    assert command("backup", str(tmp_path / "quick")).err == "", "no line is due yet"


def test_ctrl_c_ends_a_backup_and_keeps_the_previous_one(
    server: ServerProcess, command: CommandLine, tmp_path: Path
) -> None:
    publish(server, *"abc")
    backup = str(tmp_path / "backup")
    command("backup", backup)
    publish(server, *(["x" * 100_000] * 100))
    with command.terminal("backup", backup) as terminal:
        while not (copying := psutil.Process(server.ready["pid"]).children()):
            assert terminal.process.poll() is None
        copying[0].suspend()
        terminal.type("\x03")
        assert terminal.end()[0] == 130
        copying[0].resume()
        copying[0].wait(SECONDS)
    assert command("restore", backup, "--data", str(tmp_path / "new"), "-J").records[0]["messages"] == 3
    assert command("backup", backup, "-J").records[0]["messages"] == 103


def test_a_restore_onto_a_full_disk_is_one_sentence(
    server: ServerProcess, command: CommandLine, tmp_path: Path
) -> None:
    publish(server, *(["x" * 100_000] * 30))
    backup, data = str(tmp_path / "backup"), str(tmp_path / "new")
    command("backup", backup)
    program = [sys.executable, "-m", "penstock", "restore", backup, "--data", data]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    done = subprocess.run(program, stderr=subprocess.PIPE, env=command.environment, preexec_fn=limit, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"penstock: ")
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_server_killed_during_a_backup_keeps_the_previous_one(tmp_path: Path) -> None:
    """The copying process ends with the server."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    with ServerProcess(tmp_path, "--data", str(data), doors=["http", "text"]) as server:
        command = CommandLine(server, tmp_path)
        publish(server, *"abc")
        before = command("backup", str(backup), "-J").records[0]
        publish(server, *(["x" * 100_000] * 100))
        with Client(server.addresses["http"]) as client:
            lines = client.stream("/backup", body={"folder": str(backup)})
            next(lines)
            server.kill()
            lines.close()
        with (backup / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the copying process sees that the server is gone
        restored = command("restore", str(backup), "--data", str(tmp_path / "new"), "-J").records[0]
        assert restored["commit"] >= before["commit"]
        server.start()
        assert command("backup", str(backup), "-J").records[0]["messages"] == 103


def test_a_killed_restore_leaves_no_partial_store(server: ServerProcess, command: CommandLine, tmp_path: Path) -> None:
    publish(server, *(["x" * 100_000] * 100))
    backup, new = str(tmp_path / "backup"), tmp_path / "new"
    command("backup", backup)
    with command.process("restore", backup, "--data", str(new)) as process:
        while not (new / "restoring").exists() and process.poll() is None:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait()
    if not (new / "penstock.db").exists():
        refused = command.refused("backup", str(tmp_path / "other"), "--data", str(new), code=3)
        assert refused == f"There is no store in {new}."
        command("restore", backup, "--data", str(new))
    command("backup", str(tmp_path / "other"), "--data", str(new))
    shutil.rmtree(new)
