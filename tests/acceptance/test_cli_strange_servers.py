"""Commands that call a server which is not Penstock, or one whose data is not safe to show."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest import mock

import click
import pytest

from penstock.admin.client import Client
from penstock.cli import LISTED, app
from penstock.terminal import safe_json, safe_text
from penstock.text import Client as TextClient
from tests.acceptance.command_line import CommandLine
from tests.acceptance.strange_servers import (
    COMMANDS,
    HOSTILE,
    HOSTILE_LINE,
    OTHER_COMMANDS,
    serving,
    soiling,
    strange,
)
from tests.server_process import ServerProcess

# Every escape sequence that Penstock sends to a terminal.
OURS = re.compile(r"\r?\x1b\[[0-9;?]*[A-Za-z]|\r?\n")
LISTS = b'{"topics": [%s], "queues": [%s], "next_page_token": ""}'
ANSWERS = {
    "a redirect": (302, "text/html", b"<a href=x>moved</a>"),
    "a redirect with JSON": (302, "application/json", b'{"topics": []}'),
    "a JSON list": (200, "application/json", b"[1, 2, 3]"),
    "a JSON number": (200, "application/json", b"17"),
    "JSON null": (200, "application/json", b"null"),
    "an empty object": (200, "application/json", b"{}"),
    "another object": (200, "application/json", b'{"cluster_name": "search", "topics": 5, "queues": {}, "error": 1}'),
    "deep JSON": (200, "application/json", b"[" * 100_000),
    "a page": (200, "text/html", b"<!doctype html><title>Welcome</title>"),
    "bytes": (200, "application/octet-stream", bytes(range(256))),
    "an empty answer": (200, "text/plain", b""),
    "no content": (204, "application/json", b""),
    "lists of numbers": (200, "application/json", LISTS % (b"1, 2", b"3")),
    "lists of nothing": (200, "application/json", LISTS % (b"null", b"null")),
    "half a character": (200, "application/json", LISTS % (rb'{"name": "\ud800"}', rb'{"name": "\ud800"}')),
    "half of gzip": (200, "application/json", gzip.compress(b"{}" * 100)[:20]),
    "an error page": (502, "text/html", b"<h1>Bad Gateway</h1>"),
    "an error with a list": (404, "application/json", b"[]"),
    "no answer": (0, "", b""),
}


# These commands only request a deletion. They accept any JSON object or no content, with a successful status.
DELETIONS = {"snapshots delete", "faults rm"}
DONE = {"an empty object", "another object", "no content", "lists of numbers", "lists of nothing"}


class Setup:
    """A server with one resource of every kind, and the arguments that name them."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.command = CommandLine(server, folder)
        self.address = server.addresses["http"]
        self.words = {"FILE": str(folder / "drafts.jsonl"), "BACKUP": str(folder / "backup")}
        (folder / "drafts.jsonl").write_text('{"data": "one espresso"}\n')
        with Client(self.address) as client:
            self._fill(client)
        with TextClient(server.addresses["text"]) as sender:
            sender.send("jobs", b"one espresso")  # matches the fault, and so makes a hit

    def _fill(self, client: Client) -> None:
        labels = {"labels": {"team": "a"}}
        for topic in ("orders", "archive", "deleted-topic"):
            client.post("/topics", {"name": topic, **labels})
        for name in ("billing", "leased", "purged", "sought", "deleted-subscription"):
            client.post("/subscriptions", {"name": name, "topic": "orders", "options": labels})
        for queue in ("jobs", "deleted-queue"):
            client.post("/queues", {"name": queue})
        draft = {"data": "one espresso", "attributes": {"kind": "small"}, "ordering_key": "table 4"}
        client.post("/topics/orders/messages", {"messages": [draft] * 3})
        client.post("/subscriptions/leased/pull", {"max_messages": 1, "lease_seconds": 600})
        for name in ("yesterday", "deleted-snapshot"):
            client.post("/snapshots", {"name": name, "subscription": "billing"})
        for name in ("whole", "forgotten"):
            client.post("/projects/penstock/snapshots", {"name": name})
        self.words["MOVE"] = client.post("/moves", {"from": "purged", "to": "archive"})["id"]
        for word in ("FAULT", "DELETED-FAULT"):
            self.words[word] = client.post("/faults", {"effect": "latency", "seconds": 0.001, "door": "text"})["id"]

    def arguments(self, name: str) -> list[str]:
        return [*name.split(), *(self.words.get(each, each) for each in COMMANDS[name])]


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("strange")
    with ServerProcess(folder, "--testing", "--data", str(folder / "data"), doors=["http", "text"]) as server:
        yield Setup(server, folder)


@pytest.fixture(scope="module")
def soiled_address(setup: Setup) -> Iterator[str]:
    with serving(soiling(setup.address)) as address:
        yield address


class TerminalStream(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def written(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


def on_terminal(setup: Setup, arguments: list[str], address: str) -> str:
    """Return the output of a command on a terminal, without Penstock's own escape sequences."""
    out, err = TerminalStream(), TerminalStream()
    environment = mock.patch.dict(os.environ, setup.command.environment | {"PENSTOCK_ADDRESS": address}, clear=True)
    with environment, mock.patch.multiple(sys, stdout=out, stderr=err), pytest.raises(SystemExit):
        app(arguments, prog_name="penstock")
    return OURS.sub("", out.written + err.written)


def test_every_command_is_tried() -> None:
    names = set()
    for name, listed in LISTED.items():
        module, _, attribute = listed.place.partition(":")
        found = getattr(import_module(f"penstock.commands.{module}"), attribute)
        inner = found.commands if isinstance(found, click.Group) else None
        names |= {name} if inner is None else {f"{name} {each}" for each in inner}
    assert names == COMMANDS.keys() | OTHER_COMMANDS


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_server_that_is_not_penstock_is_one_sentence(setup: Setup, answer: str) -> None:
    """The exit code is 4, as for a server that cannot be reached. No command prints a traceback."""
    with serving(strange(*ANSWERS[answer])) as address:
        for name in COMMANDS.keys() - (DELETIONS if answer in DONE else set()):
            done = setup.command.run(*setup.arguments(name), PENSTOCK_ADDRESS=address)
            said = done.out if name == "health" else done.err
            assert done.code == 4, (name, done)
            assert said.count("\n") == 1, (name, done)
            assert address in said, (name, done)
            assert "is not the HTTP port of a Penstock server" in said or "is this its HTTP port?" in said, (name, done)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_sends_unsafe_characters_to_a_terminal(
    setup: Setup, soiled_address: str, name: str, form: str
) -> None:
    written = on_terminal(setup, [*setup.arguments(name), *(["--json"] if form == "json" else [])], soiled_address)
    assert set(written) & set(HOSTILE) == set()
    assert "\\u" in written or name in SAY_NOTHING, "the command prints data of the server, and escapes it"


# Commands that print only a number, arguments of the user, or nothing.
SAY_NOTHING = {"stats", "purge", "topics delete", "subs delete", "queues delete", "snapshots delete", "projects forget"}
SAY_NOTHING |= {
    "seek",
    "subs consumers",
    "subs cursors",
    "subs ack",
    "subs nack",
    "subs extend",
    "backup",
    "faults rm",
    "import",
    "export",
}


@pytest.mark.parametrize("arguments", [("peek", "orders", "-F", "%t %k %h %i %s\\n"), ("tail", "orders", "-F", "%s")])
def test_a_template_on_a_terminal_escapes_values(setup: Setup, soiled_address: str, arguments: list[str]) -> None:
    written = on_terminal(setup, [*arguments], soiled_address)
    assert set(written) - {"\t"} & set(HOSTILE) == set()
    assert "\\u202e" in written


def test_top_escapes_names(setup: Setup, soiled_address: str) -> None:
    with setup.command.terminal("top", "--rounds", "1", PENSTOCK_ADDRESS=soiled_address) as terminal:
        code, _ = terminal.end()
    assert code == 0
    assert set(OURS.sub("", terminal.raw)) & set(HOSTILE) == set()
    assert "\\u202e" in terminal.raw.replace("\r\n", "")


def test_json_on_a_terminal_has_the_same_value_as_in_a_pipe(setup: Setup, soiled_address: str) -> None:
    arguments = ["topics", "show", "orders", "--json"]
    piped = setup.command(*arguments, PENSTOCK_ADDRESS=soiled_address).out
    assert "\u202e" in piped, "a pipe gets raw UTF-8"
    shown = on_terminal(setup, arguments, soiled_address)
    assert json.loads(shown) | {"now": ""} == json.loads(piped) | {"now": ""}


def test_unsafe_characters_are_escaped_and_the_value_is_kept() -> None:
    assert {unicodedata.category(each) for each in HOSTILE} == {"Cc", "Cf", "Zl", "Zp"}
    text = f"before{HOSTILE}after é 漢 👍\u00a0"
    assert set(safe_text(text)) & set(HOSTILE) == set()
    assert safe_text("é 漢 👍\u00a0") == "é 漢 👍\u00a0"
    encoded = json.dumps(text, ensure_ascii=False)
    assert set(safe_json(encoded)) & set(HOSTILE) == set()
    assert json.loads(safe_json(encoded)) == text


def test_an_error_text_of_the_server_is_escaped(setup: Setup) -> None:
    body = json.dumps({"error": {"code": 404, "message": f"No such topic{HOSTILE}"}}).encode()
    with serving(strange(404, "application/json", body)) as address:
        done = setup.command("topics", "show", "x", code=3, PENSTOCK_ADDRESS=address)
        assert set(done.err.rstrip("\n")) & set(HOSTILE) == set()
        assert set(on_terminal(setup, ["ls"], address)) & set(HOSTILE) == set()


def test_arguments_of_the_user_are_escaped(setup: Setup) -> None:
    done = setup.command.run("topics", "show", f"x{HOSTILE_LINE}")
    assert done.err.count("\n") == 1
    assert set(done.err.rstrip("\n")) & set(HOSTILE) == set()
