"""One rule for names in all protocols (decision 0015).

Existing names can be seen and deleted, new names follow the rule.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.admin.client import Client, path_of
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.names import NEW_NAME_RULE
from penstock.text import Client as TextClient
from tests.acceptance.command_line import CommandLine
from tests.acceptance.odd_names import INVISIBLE, ODD, SUBSCRIPTION, TOPIC, UNUSUAL, make_store
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("names")
    make_store(folder / "data")
    with ServerProcess(folder, f"--data={folder / 'data'}", doors=["http", "text", "pubsub"]) as server:
        yield server


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[Client]:
    with Client(server.addresses["http"]) as admin:
        yield admin


@pytest.mark.parametrize("name", ODD)
def test_existing_odd_names_are_listed_and_used(server: ServerProcess, admin: Client, name: str) -> None:
    for asked in (name, TOPIC + name):
        assert admin.get(path_of("topics", asked))["id"] == name
        assert admin.get(path_of("queues", asked))["name"] == name
    assert admin.get(path_of("subscriptions", name))["id"] == name
    assert admin.get("/samples", what="topic", name=name)["fields"]
    assert name in [each["name"] for each in admin.get("/queues", page_size=1000)["queues"]]
    command = CommandLine(server, server.folder)
    (shown,) = command("queues", "show", "--json", "--", name).records
    assert shown["subscription"] == SUBSCRIPTION + name
    (told,) = command("topics", "show", "--json", "--", name).records
    assert told["name"] == TOPIC + name


@pytest.mark.parametrize("name", [name for name in ODD if len(name) < 256])
def test_a_text_client_keeps_using_its_queue(server: ServerProcess, name: str) -> None:
    with TextClient(server.addresses["text"]) as client:
        client.send(name, b"new")
        contents = []
        for message in client.consume(name, window=2):
            contents.append(message.content)
            if len(contents) == 2:
                break
        assert contents == [b"old", b"new"]


def test_a_seed_written_from_the_server_is_accepted_by_it(server: ServerProcess, tmp_path: Path) -> None:
    command, file = CommandLine(server, tmp_path), str(tmp_path / "seed.toml")
    command("seed", "--from-server", file)
    (outcome,) = command("seed", "--json", file).records
    assert (outcome["created"], outcome["conflicts"]) == ([], [])
    assert {each["name"] for each in outcome["unchanged"]} >= {TOPIC + name for name in ODD}
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as empty:
        (outcome,) = CommandLine(empty, tmp_path).run("seed", "--json", file).records
        assert {each["name"] for each in outcome["created"]} == {TOPIC + name for name in UNUSUAL}
        assert {each["name"]: each["reason"] for each in outcome["conflicts"]} == {
            TOPIC + name: NEW_NAME_RULE for name in INVISIBLE
        }


NEW_INVISIBLE = [f"{name}\u200b" if name != ".." else "." for name in INVISIBLE]


@pytest.mark.parametrize("name", NEW_INVISIBLE)
def test_no_door_makes_a_name_that_cannot_be_seen(server: ServerProcess, admin: Client, name: str) -> None:
    for path, body in (
        ("/topics", {"name": name}),
        ("/queues", {"name": name}),
        ("/subscriptions", {"name": name, "topic": "no good!"}),
        ("/snapshots", {"name": name, "subscription": "no good!"}),
    ):
        with pytest.raises(InvalidArgumentError, match="A new name has 1 to 256 bytes of printable characters"):
            admin.post(path, body)
    with TextClient(server.addresses["text"]) as client:
        with pytest.raises(InvalidArgumentError, match="invalid-queue"):
            client.send(name, b"new")
        with pytest.raises(InvalidArgumentError, match="invalid-queue"):
            next(iter(client.consume(name)))
        assert client.send("goes-on", b"the connection is still there")
    admin.delete(path_of("queues", "goes-on"))
    with pytest.raises(NotFoundError):
        admin.get(path_of("topics", TOPIC + name))


def test_the_text_door_and_the_admin_api_make_the_same_names(server: ServerProcess, admin: Client) -> None:
    """The text protocol puts no limit on names of queues, so the common rule allows more than that of Pub/Sub."""
    for number, name in enumerate(["with space", "émile", "日本", "goog", "q"]):
        if number % 2:
            admin.post("/queues", {"name": name})
        with TextClient(server.addresses["text"]) as client:
            client.send(name, b"x")
        assert admin.get(path_of("queues", name))["backlog_messages"] == 1
        admin.delete(path_of("queues", name))
    assert ask_google(server, "PUT", f"{TOPIC}goog-y") == 400


def test_the_google_door_uses_names_that_it_could_not_create(server: ServerProcess) -> None:
    assert ask_google(server, "GET", f"{TOPIC}goog-x") == 200


def ask_google(server: ServerProcess, method: str, path: str) -> int:
    with closing(http.client.HTTPConnection(*server.place("pubsub"), timeout=SECONDS)) as connection:
        connection.request(method, f"/v1/{path}", b"{}" if method == "PUT" else None)
        return connection.getresponse().status


def test_existing_odd_names_are_purged_and_deleted(tmp_path: Path) -> None:
    make_store(tmp_path / "data")
    with ServerProcess(tmp_path, f"--data={tmp_path / 'data'}", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        with Client(server.addresses["http"]) as admin:
            for number, name in enumerate(ODD):
                assert admin.post(path_of("topics", name, "purge"), {})["messages"] == 1
                if number % 2:
                    command("queues", "delete", "--yes", "--", name)
                else:
                    admin.delete(path_of("queues", name))
            assert admin.get("/topics")["topics"] == []
