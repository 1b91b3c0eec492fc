"""penstock faults: ls, add, rm, hits."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.admin.client import Client
from penstock.testing.faults import Faults
from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("faults")
    with ServerProcess(folder, "--memory", "--testing", doors=["http", "text"]) as server:
        yield CommandLine(server, folder)
        assert server.stop() == 0


def test_a_fault_from_its_beginning_to_its_end(command: CommandLine) -> None:
    assert command("faults", "ls").out == ""
    command("topics", "create", "orders")
    rule = ["error", "--error", "failed_precondition", "--door", "http", "--verb", "publish", "--resource", "orders"]
    number = command("faults", "add", *rule, "--every", "2", "--message", "Not now.").out.strip()
    command("publish", "orders", "a", "-q")
    assert "Not now." in command.refused("publish", "orders", "b", "-q", code=1)
    (line,) = command("faults", "ls").lines
    told = "door=http verb=publish resource=orders every=2 error=failed_precondition message=Not now."
    assert line.split("\t")[:6] == [number, "error", told, "2", "1", "0"]
    (hit,) = command("faults", "hits", number).lines
    assert hit.split("\t")[:2] == ["1", "2"]
    assert hit.split("\t")[3:] == ["http", "publish", "projects/penstock/topics/orders", "1"]
    assert command("faults", "hits", number, "--at-least", "1", "--wait", "1", "-J").records[0]["call"] == 2
    assert command("faults", "rm", number).out == "Removed 1 fault\n"
    assert f"Fault not found: {number}" in command.refused("faults", "rm", number, code=3)


def test_all_faults_of_a_project_are_removed_at_once(command: CommandLine) -> None:
    for project in ("a", "b", "b"):
        command("faults", "add", "hold", "--seconds", "0.5", "-P", project)
    assert command("faults", "ls", "-P", "b", "-J").records[0]["rule"]["project"] == "b"
    assert command("faults", "rm", "--all", "-P", "b").out == "Removed 2 faults\n"
    assert command("faults", "rm", "--all").out == "Removed 1 fault\n"
    assert "Give the ids of faults, or --all" in command.refused("faults", "rm", code=2)


def test_a_bad_rule_is_refused_in_a_sentence(command: CommandLine) -> None:
    said = command.refused("faults", "add", "drop", "--verb", "push", code=1)
    assert "The effect drop is not possible here: a push has no caller that waits for an answer" in said


def test_on_a_terminal(command: CommandLine) -> None:
    command("faults", "add", "latency", "--seconds", "0.25", "--protocol", "text")
    with command.terminal("faults", "ls") as terminal:
        code, text = terminal.end()
    assert code == 0
    assert "EFFECT" in text
    assert "door=text seconds=0.25" in text
    command("faults", "rm", "--all")


def test_a_server_that_is_not_for_tests(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        said = command.refused("faults", "add", "close", code=1)
        assert "This works only on a server started with --testing" in said


def test_a_stopping_server_releases_held_calls(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, "--memory", "--testing", doors=["http"]) as server,
        ThreadPoolExecutor(1) as threads,
        Client(server.addresses["http"]) as client,
        Client(server.addresses["http"]) as other,
    ):
        client.post("/topics", {"name": "t"})
        fault = Faults(client).add(door="http", verb="publish", effect="hold")
        held = threads.submit(other.post, "/topics/t/messages", {"messages": [{"data": "a"}]})
        assert fault.wait().held == 1
        assert server.stop() == 0
        assert held.result(SECONDS)["first_offset"] == 0
