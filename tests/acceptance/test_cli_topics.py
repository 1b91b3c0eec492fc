"""`penstock topics`, and the output, questions and errors that all commands on a server share."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("topics")
    with ServerProcess(folder, "--memory", doors=["http", "text"]) as server:
        yield CommandLine(server, folder)


def test_a_topic_is_created_listed_shown_changed_and_deleted(command: CommandLine) -> None:
    made = command("topics", "create", "orders", "--label", "team=a", "--retention", "1h30m", "--retention-bytes", "1k")
    assert made.out == "projects/penstock/topics/orders\n"
    (shown,) = command("topics", "show", "orders", "--json").records
    assert (shown["labels"], shown["retention_seconds"], shown["retention_bytes"]) == ({"team": "a"}, 5400, 1000)
    (line,) = command("topics", "ls", "--search", "ord").lines
    assert line.split("\t") == ["projects/penstock/topics/orders", "0", "0", "0", "0.0", ""]
    changed = command("topics", "change", "projects/penstock/topics/orders", "--retention", "60").out
    assert "retention_seconds\t60.0\n" in changed
    assert 'labels\t{"team":"a"}\n' in changed
    assert command("topics", "delete", "orders", "--yes").out == "Deleted projects/penstock/topics/orders\n"
    assert command("topics", "ls", "--search", "ord").out == ""


def test_names_live_in_a_project(command: CommandLine) -> None:
    command("topics", "create", "here", "-P", "other")
    (listed,) = command("topics", "ls", "--project", "other", "-J").records
    assert listed["name"] == "projects/other/topics/here"
    assert command("topics", "show", "here", PENSTOCK_PROJECT="other").out.startswith(
        "name\tprojects/other/topics/here\n"
    )
    assert command.refused("topics", "show", "here", code=3) == "Topic not found: projects/penstock/topics/here"
    full = "projects/elsewhere/topics/full"
    assert command("topics", "create", full, "--project", "p").out == f"{full}\n"
    (made,) = command("subs", "create", "projects/elsewhere/subscriptions/full", "full", "-P", "p", "-J").records
    assert made["topic"] == full


def test_a_terminal_gets_a_table_in_colour_and_a_question(command: CommandLine) -> None:
    command("topics", "create", "asked")
    with command.terminal("topics", "ls", "--search", "asked") as terminal:
        code, text = terminal.end()
        assert code == 0
        header, row = text.splitlines()
        assert header.split()[:2] == ["TOPIC", "MESSAGES"]
        assert row.split()[:3] == ["asked", "0", "0"], "a short name, as the topic is in the default project"
        assert "\x1b[1m" in terminal.raw
    with command.terminal("topics", "ls", "--search", "asked", NO_COLOR="1") as terminal:
        assert terminal.end()[0] == 0
        assert "\x1b[3" not in terminal.raw
    for answer, code, said in (("n", 1, "penstock: Nothing was changed"), ("y", 0, "Deleted projects")):
        with command.terminal("topics", "delete", "asked") as terminal:
            terminal.until(r"Delete projects/penstock/topics/asked with 0 messages and .*\? \[y/N\] ")
            terminal.type(answer + "\n")
            ended, text = terminal.end()
            assert ended == code
            assert said in text


def test_a_narrow_terminal_cuts_no_name(command: CommandLine) -> None:
    name = "a-name-that-is-rather-long-for-a-narrow-terminal"
    command("topics", "create", name)
    with command.terminal("topics", "ls", "--search", name, columns=40) as terminal:
        _, text = terminal.end()
    assert max(map(len, text.splitlines())) <= 40
    starts = [line.split(" ")[0] for line in text.splitlines()[1:]]
    assert name in "".join(starts)
    command("topics", "create", "here", "-P", "narrow")
    with command.terminal("topics", "ls", "--project", "narrow") as terminal:
        assert "\nhere " in terminal.end()[1], "a short name, as the project was given"


def test_without_a_terminal_harm_needs_yes(command: CommandLine) -> None:
    command("topics", "create", "kept")
    said = command.refused("topics", "delete", "kept", code=2)
    assert said.endswith("Use --yes to confirm without a terminal")
    assert command("topics", "show", "kept").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["show", "absent"], 3, "Topic not found: projects/penstock/topics/absent"),
        (["delete", "absent", "--yes"], 3, "Topic not found: projects/penstock/topics/absent"),
        (["create", "x", "--retention", "soon"], 2, "--retention must be a number with ms, s, m, h, d or w"),
        (["create", "x", "--retention-bytes", "much"], 2, "--retention-bytes must be a number of bytes"),
        (["create", "x", "--label", "x"], 2, "A label must be KEY=VALUE, not 'x'"),
        (["show", ""], 2, "A name cannot be empty"),
        (["ls", "--sort", "colour"], 2, "--sort must be bytes"),
        (["ls", "--address", "127.0.0.1:99999"], 2, "Invalid address: 127.0.0.1:99999. Give HOST:PORT"),
        (["ls", "--address", "nowhere"], 4, "Cannot reach the server at http://nowhere"),
        (["ls", "--address", "http://h:port/"], 2, "Invalid address: http://h:port/"),
        (["ls", "--context", "absent"], 3, "Context not found: absent (existing contexts: none)"),
    ],
)
def test_bad_input_is_one_sentence(command: CommandLine, arguments: list[str], code: int, sentence: str) -> None:
    assert sentence in command.refused("topics", *arguments, code=code)


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    said = CommandLine(None, tmp_path).refused("topics", "ls", "--address", address, code=4)
    assert said == f"Cannot reach the server at http://{address}: connection refused"


def test_tokens_limit_the_commands_that_are_allowed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"], http_tokens="root", http_read_tokens="look") as server:
        command = CommandLine(server, tmp_path)
        assert "token" in command.refused("topics", "ls")
        assert "token" in command.refused("topics", "ls", "--token", "wrong")
        assert command("topics", "ls", "--token", "look").out == ""
        assert command.refused("topics", "create", "x", PENSTOCK_TOKEN="look") == "This token may only read."
        (tmp_path / "token").write_text("root\n")
        command("topics", "create", "x", PENSTOCK_TOKEN_FILE=str(tmp_path / "token"))
        command("context", "add", "there", server.addresses["http"], "--token", "root")
        del command.environment["PENSTOCK_ADDRESS"]
        assert command("topics", "ls").lines[0].startswith("projects/penstock/topics/x\t")


def test_the_ready_file_names_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(None, tmp_path, ready_file=str(server.ready_file))
        assert command("topics", "ls").out == ""
