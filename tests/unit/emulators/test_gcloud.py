"""The command line of the vendor's Pub/Sub emulator as settings, and the answers to other gcloud commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import app
from penstock.emulators.gcloud import exports, settings_of, split_address, verb_of
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.server import EXIT_USAGE
from penstock.settings import Settings, load_settings


def load(environment: dict[str, str], **given: Any) -> Settings:
    usual = {"host_port": None, "data_dir": None, "project": None, "verbosity": None, "log_http": False}
    config = Path(environment["HOME"]) / ".config"
    flags = settings_of(**usual | given, environment=environment, config=config)
    return load_settings(flags=flags, environment=environment)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0.0.0.0:8085", ("0.0.0.0", 8085)),
        ("localhost:8432", ("localhost", 8432)),
        ("[::]:8085", ("::", 8085)),
        ("[::1]", ("::1", 8085)),
        (":0", ("localhost", 0)),
        ("9000", ("localhost", 9000)),
        ("emulator", ("emulator", 8085)),
        ("", ("localhost", 8085)),
    ],
)
def test_an_address_has_every_form_of_the_vendors(text: str, place: tuple[str, int]) -> None:
    assert split_address(text) == place


@pytest.mark.parametrize("text", ["::1:8085", "a:b", "0.0.0.0:65536", "http://0.0.0.0:8085", "[::1", "a b:1", "a:1:2"])
def test_another_address_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"--host-port: expected HOST:PORT, such as 0\.0\.0\.0:8085"):
        split_address(text)


def test_the_defaults_open_pubsub_alone_and_in_memory(home: dict[str, str]) -> None:
    settings = load(home | {"PENSTOCK_DATA": "/srv/elsewhere"})
    doors = ("pubsub", "azure", "text", "flight", "http")
    assert [settings.port_of(door) for door in doors] == [8085, None, None, None, None]
    assert (settings.host, settings.memory, settings.default_project) == ("localhost", True, "penstock")
    assert settings.grace_seconds < 1


def test_flags_are_taken_over(home: dict[str, str]) -> None:
    settings = load(home, host_port="[::]:0", data_dir="/srv/x", project="demo", verbosity="critical", log_http=True)
    assert (settings.host, settings.pubsub.port, settings.default_project) == ("::", 0, "demo")
    assert (settings.data, settings.memory) == ("/srv/x/penstock-data", False)
    assert (settings.log_level, settings.log_requests) == ("error", True)


def test_another_door_opens_where_a_variable_gives_its_port(home: dict[str, str]) -> None:
    settings = load(home | {"PENSTOCK_HTTP_PORT": "0", "PENSTOCK_GRACE_SECONDS": "7"})
    assert (settings.http.port, settings.text.port, settings.grace_seconds) == (0, None, 7)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"verbosity": "loud"}, "--verbosity: expected one of debug, info, warning, error, critical, none, not 'loud'"),
        ({"project": "a/b"}, "--project: expected a project name without slashes and spaces, not 'a/b'"),
    ],
)
def test_a_wrong_value_is_one_sentence(home: dict[str, str], given: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        load(home, **given)
    assert refusal.value.message == sentence


@pytest.mark.parametrize("before", [[], ["beta"], ["alpha"]])
@pytest.mark.parametrize("verb", ["start", "env-init"])
def test_both_commands_are_known_with_and_without_beta(before: list[str], verb: str) -> None:
    assert verb_of([*before, "emulators", "pubsub", verb]) == verb


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("auth login --brief", "This gcloud is part of Penstock and has only .*, not gcloud auth login$"),
        ("beta emulators firestore start", "not gcloud beta emulators firestore start$"),
        ("emulators pubsub", "not gcloud emulators pubsub$"),
        ("", r"^This gcloud is part of Penstock and has only gcloud \[beta\] emulators pubsub start and env-init$"),
        ("beta emulators pubsub start --seed=7", "^gcloud emulators pubsub start has no flag --seed$"),
        ("beta emulators pubsub start now", "^gcloud emulators pubsub start takes only flags, not 'now'$"),
    ],
)
def test_an_unknown_command_is_one_sentence(words: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        verb_of(words.split())


def test_gcloud_alone_is_a_sentence_of_how_to_use_it() -> None:
    result = CliRunner().invoke(app, ["gcloud"])
    assert result.exit_code == EXIT_USAGE
    assert result.output.startswith(
        "penstock: This gcloud is part of Penstock and has only gcloud [beta] emulators pubsub"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "127.0.0.1"])
def test_exported_variables_can_be_pasted_into_a_shell(tmp_path: Path, home: dict[str, str], host: str) -> None:
    ready = {"pid": 1, "pubsub": f"{host}:8085"}
    (tmp_path / "penstock-ready.json").write_text(json.dumps(ready))
    assert exports(str(tmp_path), None, home, tmp_path) == ["export PUBSUB_EMULATOR_HOST=127.0.0.1:8085"]
    (tmp_path / "named").write_text(json.dumps(ready | {"pubsub": "$(rm x):1"}))
    lines = exports(None, "it's", home | {"PENSTOCK_READY_FILE": str(tmp_path / "named")}, tmp_path)
    assert lines == ["export PUBSUB_EMULATOR_HOST='$(rm x):1'", "export PUBSUB_PROJECT_ID='it'\"'\"'s'"]


def test_without_an_emulator_there_is_nothing_to_export(tmp_path: Path, home: dict[str, str]) -> None:
    with pytest.raises(NotFoundError, match="No running emulator"):
        exports(None, None, home, tmp_path / "config")
    with pytest.raises(NotFoundError, match="No running emulator that was started with --data-dir"):
        exports(str(tmp_path), None, home, tmp_path)


def test_a_home_that_cannot_be_written_is_no_reason_not_to_start() -> None:
    assert load({"HOME": "/proc/nowhere"}).ready_file is None
