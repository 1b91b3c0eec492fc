"""The flags of Azurite as settings."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.assembly import SERVER_LIMITS
from penstock.cli import app
from penstock.distribution import installed_version
from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, read_accounts
from penstock.doors.azure.server import AzureDoor
from penstock.doors.google import dead_letters
from penstock.emulators.azurite import settings_of
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import InvalidArgumentError
from penstock.journal.memory import MemoryJournal
from penstock.server import EXIT_USAGE
from penstock.services.moves.registry import Moves
from penstock.settings import load_settings

SECRET = base64.b64encode(b"a key of our own").decode()

DEFAULTS: dict[str, Any] = {
    "queue_host": "127.0.0.1",
    "queue_port": 10001,
    "queue_keep_alive": 5.0,
    "location": ".",
    "in_memory": False,
    "cert": None,
    "key": None,
    "pwd": None,
    "oauth": None,
    "silent": False,
    "debug": None,
    "ready_file": None,
    "blob_host": None,
    "blob_port": None,
    "table_host": None,
    "table_port": None,
}


def test_the_defaults_open_the_queue_alone() -> None:
    settings = load_settings(flags=settings_of(DEFAULTS, {}), environment={})
    assert (settings.azure.port, settings.http.port, settings.pubsub.port) == (10001, None, None)
    assert (settings.data, settings.memory, settings.azure.oauth) == ("penstock-data", False, "off")
    assert (settings.azure.accounts or "").startswith(f"{DEVELOPMENT_ACCOUNT}:")


def test_keep_alive_and_messages_are_those_of_azurite() -> None:
    settings = load_settings(flags=settings_of(DEFAULTS, {}), environment={})
    assert (settings.azure.keep_alive_seconds, settings.azure.wording) == (5, "azurite")
    assert "--queueKeepAliveTimeout" in CliRunner().invoke(app, ["azurite", "--help"]).output


def test_flags_and_accounts_are_taken_over() -> None:
    given = DEFAULTS | {"in_memory": True, "cert": "c", "key": "k", "oauth": "basic", "silent": True, "queue_port": 0}
    settings = load_settings(flags=settings_of(given, {"AZURITE_ACCOUNTS": "abc:YQ=="}), environment={})
    assert (settings.memory, settings.azure.tls_cert, settings.azure.tls_key) == (True, "c", "k")
    assert (settings.azure.oauth, settings.log_level, settings.azure.port) == ("basic", "warning", 0)
    assert settings.azure.accounts == "abc:YQ=="


def test_the_ports_of_other_services_are_opened_where_they_are_asked_for() -> None:
    asked = DEFAULTS | {"blob_host": "0.0.0.0", "table_port": 7}
    settings = load_settings(flags=settings_of(asked, {}), environment={})
    assert (settings.azure.blob_port, settings.azure.table_port) == (10000, 7)
    settings = load_settings(flags=settings_of(DEFAULTS, {}), environment={})
    assert (settings.azure.blob_port, settings.azure.table_port) == (None, None)


def test_another_door_opens_where_a_variable_gives_its_port() -> None:
    environment = {"PENSTOCK_HTTP_PORT": "8090", "PENSTOCK_TEXT_PORT": "tcp://10.0.0.7:9123"}
    settings = load_settings(flags=settings_of(DEFAULTS, environment), environment=environment)
    assert (settings.http.port, settings.text.port, settings.pubsub.port) == (8090, None, None)


def test_accounts_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "accounts").write_text("one:YQ==\ntwo:Yg==\n")
    environment = {"AZURITE_ACCOUNTS_FILE": str(tmp_path / "accounts")}
    settings = load_settings(flags=settings_of(DEFAULTS, environment), environment=environment)
    assert [account.name for account in read_accounts(settings.azure.accounts)] == ["one", "two"]


@pytest.mark.parametrize("changes", [{"pwd": "x"}, {"cert": "c"}, {"key": "k"}, {"oauth": "full"}, {"oauth": "basic"}])
def test_unsupported_flags_are_reported(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="--"):
        settings_of(DEFAULTS | changes, {})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["azurite", "--version"], "Penstock {}, in place of Azurite's queue service"),
        (["azurite", "-v"], "Penstock {}, in place of Azurite's queue service"),
        (["gcloud", "--version"], "Penstock {}, in place of gcloud's Pub/Sub emulator"),
        (["gcloud", "-v"], "Penstock {}, in place of gcloud's Pub/Sub emulator"),
        (["--version"], "{}"),
    ],
)
def test_the_version_says_whose_it_is(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.output) == (0, f"{told.format(installed_version())}\n")


@pytest.mark.parametrize(
    ("arguments", "accounts", "sentence"),
    [
        (["--queuePort", "99999"], "", "--queuePort: expected a port from 0 to 65535"),
        (["--blobPort", "99999"], "", "--blobPort: expected a port from 0 to 65535"),
        (["--queueKeepAliveTimeout", "-1"], "", "--queueKeepAliveTimeout: expected a number of seconds, 0 or more"),
        (["--cert", "/nope", "--key", "/nope"], "", "--cert: cannot read /nope: No such file or directory"),
        (["--cert", __file__, "--key", "/nope"], "", "--key: cannot read /nope: No such file or directory"),
        (["--cert", __file__, "--key", __file__], "", "--cert and --key: expected PEM files, and a key that fits"),
        ([], "x", "AZURITE_ACCOUNTS: account 1 needs another name"),
    ],
)
def test_errors_have_the_name_that_the_user_gave(
    arguments: list[str], accounts: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURITE_ACCOUNTS", accounts)
    result = CliRunner().invoke(app, ["azurite", "--inMemoryPersistence", "--queuePort", "0", *arguments])
    assert result.exit_code == EXIT_USAGE
    assert result.output.startswith(f"penstock: {sentence}")


def test_a_debug_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    given = ["azurite", "--inMemoryPersistence", "--queuePort", "0", "--debug", str(tmp_path / "absent" / "file")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == EXIT_USAGE
    assert "--debug: cannot write" in result.output
    assert "No such file or directory" in result.output


@pytest.mark.parametrize(
    ("accounts", "address", "shown"),
    [
        (None, "127.0.0.1:10001", "export AZURE_STORAGE_CONNECTION_STRING='UseDevelopmentStorage=true'"),
        (None, "127.0.0.1:10002", f"AccountKey={DEVELOPMENT_KEY};QueueEndpoint=http://127.0.0.1:10002/"),
        (
            f"{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}",
            "0.0.0.0:7",
            f"{DEVELOPMENT_KEY};QueueEndpoint=http://127.0.0.1:7/",
        ),
        (f"{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}", "[::]:7", f"{DEVELOPMENT_KEY};QueueEndpoint=http://[::1]:7/"),
        (f"mine:{SECRET};{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}", "127.0.0.1:7", "AccountName=mine;AccountKey=<key>;"),
        (f"{DEVELOPMENT_ACCOUNT}:{SECRET}", "127.0.0.1:7", "AccountKey=<key>;"),
    ],
)
def test_the_public_key_is_shown_and_no_other(accounts: str | None, address: str, shown: str) -> None:
    """The connection string has an address that clients can use. A key of the user stays secret."""
    queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS)
    log = logging.getLogger("test.azurite")
    moves = Moves(queue, dead_letters)
    door = AzureDoor(host="127.0.0.1", port=0, queue=queue, accounts=read_accounts(accounts), moves=moves, log=log)
    door.address = address
    (hint,) = door.hints
    assert shown in hint
    assert SECRET not in hint
