"""`penstock doctor` on a store, on servers for this machine only, and on servers that other machines can reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine
from tests.server_process import ServerProcess


@pytest.fixture
def command(tmp_path: Path) -> CommandLine:
    return CommandLine(None, tmp_path)


def levels(records: list[dict[str, str]]) -> dict[str, str]:
    return {record["check"]: record["level"] for record in records}


def test_a_server_is_examined_together_with_its_store(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=["http", "text"]) as server:
        command = CommandLine(server, tmp_path)
        found = command("doctor", "--deep", "--json").records
        shown = command("doctor").lines
    assert {"version", "server", "http port", "text port", "sync", "mark", "rows"} <= levels(found).keys()
    assert "problem" not in levels(found).values()
    assert any(line.startswith("ok       text port    127.0.0.1:") for line in shown), shown


def test_doors_that_are_open_to_other_machines_are_a_problem(tmp_path: Path) -> None:
    with ServerProcess(
        tmp_path, "--data", str(tmp_path / "data"), "--host", "0.0.0.0", doors=["http", "pubsub", "text"]
    ) as server:
        port = server.addresses["http"].rpartition(":")[2]
        found = CommandLine(server, tmp_path)("doctor", "-J", "--address", f"127.0.0.1:{port}", code=1).records
    judged = levels(found)
    assert (judged["http port"], judged["pubsub port"], judged["text port"]) == ("note", "problem", "problem")
    advice = next(record["advice"] for record in found if record["check"] == "pubsub port")
    assert advice == "Set pubsub_tokens, or listen on 127.0.0.1."


def test_a_server_in_memory_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        found = CommandLine(server, tmp_path)("doctor", "--deep", "-J").records
    assert levels(found)["durability"] == "note"
    assert "mark" not in levels(found)


def test_a_folder_is_looked_at_without_a_server(command: CommandLine, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(tmp_path, "--data", str(data), doors=["http"]) as server:
        assert levels(command("doctor", "--data", str(data), "-J").records)["server"] == "ok"
        server.stop()
    assert "server" not in levels(command("doctor", "--data", str(data), "-J").records)
    with (data / "penstock.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)
    assert "problem" in command("doctor", "--data", str(data), code=1).out


def test_a_missing_store_or_server_is_one_sentence(command: CommandLine, tmp_path: Path) -> None:
    assert command.refused("doctor", "--data", str(tmp_path / "no"), code=3) == f"Folder not found: {tmp_path / 'no'}"
    assert "Cannot reach the server" in command.refused("doctor", "--address", "127.0.0.1:1", code=4)


def test_a_terminal_gets_colour(command: CommandLine, tmp_path: Path) -> None:
    with command.terminal("doctor", "--data", str(tmp_path)) as terminal:
        code, text = terminal.end()
    assert code == 0
    assert "\x1b[32mok" in terminal.raw
    assert "note     store        There is no store in this folder." in text
