"""`penstock seed` on a real server: reading files, writing files, and errors with line numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.command_line import CommandLine
from tests.server_process import ServerProcess

SEED = """\
project = "shop"

[[topics]]
name = "orders"
messages = ["one espresso"]

[[subscriptions]]
name = "billing"
topic = "orders"
ack_deadline_seconds = 30
[subscriptions.pubsub.push_config]
push_endpoint = "https://example.com/push"

[[queues]]
name = "jobs"
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[CommandLine]:
    with ServerProcess(tmp_path, "--memory", doors=["http", "pubsub"]) as server:
        yield CommandLine(server, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "seed.toml"
    path.write_text(SEED)
    return path


def test_a_file_is_planned_applied_and_exported(command: CommandLine, file: Path, tmp_path: Path) -> None:
    planned = command("seed", str(file), "--dry-run")
    assert planned.lines == [
        "created\ttopic\tprojects/shop/topics/orders\t",
        "created\tqueue\tprojects/shop/topics/jobs\t",
        "created\tsubscription\tprojects/shop/subscriptions/billing\t",
        "published\tmessages\t1\t",
    ]
    assert command("topics", "ls").lines == []
    assert command("seed", str(file)).lines == planned.lines
    assert command("seed", str(file)).lines == []
    (outcome,) = command("seed", str(file), "--json").records
    assert (len(outcome["unchanged"]), outcome["messages"]) == (3, 0)

    written = command("seed", "--from-server", "--project", "shop").out
    expected = tomllib.loads(SEED)
    del expected["topics"][0]["messages"]
    push = expected["subscriptions"][0]["pubsub"]["push_config"]
    push["attributes"] = {"x-goog-version": "v1"}
    assert tomllib.loads(written) == expected
    copy = tmp_path / "copy.toml"
    assert command("seed", "--from-server", str(copy)).err == f"Wrote {copy}\n"
    assert command("seed", str(copy)).lines == []
    assert "Use --yes" in command.refused("seed", "--from-server", str(copy), code=2)
    command("seed", "--from-server", str(copy), "--yes", "--json")
    assert command("seed", "-", stdin=copy.read_text()).lines == []


def test_differences_stay_unless_an_update_is_requested(command: CommandLine, file: Path) -> None:
    command("seed", str(file))
    file.write_text(SEED.replace("= 30", "= 45"))
    left = command("seed", str(file), code=5)
    assert left.lines == ["left unchanged\tsubscription\tprojects/shop/subscriptions/billing\tack_deadline_seconds"]
    with command.terminal("seed", str(file), "--update") as terminal:
        code, text = terminal.end()
    assert code == 0
    assert "0 created, 1 changed, 0 left unchanged, 2 unchanged, 0 messages published." in text


def test_a_server_that_takes_long_is_waited_for_with_a_bar(file: Path, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http", "pubsub"]) as server:
        command, process = CommandLine(server, tmp_path), psutil.Process(server.ready["pid"])
        process.suspend()
        try:
            with command.terminal("seed", str(file)) as terminal:
                terminal.until("Seeding")
                process.resume()
                code, text = terminal.end()
        finally:
            process.resume()
    assert code == 0
    assert "3 created" in text


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("= 30", "= 3000", "line 10: Ack deadline must be between 1 and 600 seconds"),
        ("= 30", "= = 30", "line 10: not valid TOML: Invalid value"),
        ('topic = "orders"', 'topic = "ordres"', "line 9: There is no topic projects/shop/topics/ordres"),
        ("https://", "ftp://", "line 11: Unsupported push_endpoint: it is not an http or https URL."),
        ("[[queues]]", "[[queue]]", "line 14: Unknown key"),
        ("= 30", '= "soon"', "line 10: ack_deadline_seconds must be a number of seconds"),
        (
            '"https://',
            '5 # "',
            "line 11: Invalid Pub/Sub settings: Invalid value at 'push_config.push_endpoint' (TYPE_STRING), 5",
        ),
    ],
)
def test_a_wrong_file_names_the_line_and_changes_nothing(
    command: CommandLine, file: Path, old: str, new: str, sentence: str
) -> None:
    file.write_text(SEED.replace(old, new))
    assert sentence in command.refused("seed", str(file), code=2)
    assert command("topics", "ls").lines == []


def test_variables_are_read_where_they_are_asked_for(command: CommandLine) -> None:
    variables = {"PUBSUB_PROJECT1": "company-dev,invoices:invoice-calculator"}
    assert len(command("seed", "env", **variables).lines) == 2
    nothing = command("seed", "env")
    assert (nothing.out, nothing.err.count("\n")) == ("", 1)
    assert "There is nothing to seed in the environment" in nothing.err
    assert "PUBSUB_PROJECT2 is not read" in command("seed", "-", stdin="PUBSUB_PROJECT2=p,t\n").err
    given = '[{"project": "p", "topic": "list"}]'
    assert command("seed", "-", stdin=given).lines == ["created\ttopic\tprojects/p/topics/list\t"]
    assert command.refused("seed", "env", code=2, PUBSUB_PROJECT1="x").startswith("PUBSUB_PROJECT1: expected PROJECT")


def test_contradictory_arguments_are_refused(command: CommandLine, file: Path) -> None:
    assert "Give the FILE" in command.refused("seed", code=2)
    assert "cannot be combined with --update" in command.refused("seed", "--from-server", "--update", code=2)
    assert "cannot read the seed" in command.refused("seed", str(file.with_name("absent.toml")), code=2)
    assert "Cannot write" in command.refused("seed", "--from-server", str(file.parent / "no" / "folder.toml"), code=2)
