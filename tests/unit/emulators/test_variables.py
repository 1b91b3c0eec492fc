"""Variables of other emulators, besides those with a seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.emulators.variables import read_seed_of, with_variables
from penstock.seeding import files
from penstock.settings import Settings, load_settings

PROJECT = {"PUBSUB_PROJECT1": "demo,orders:billing"}
ACCOUNTS = {"AZURITE_ACCOUNTS": "demo:YQ=="}


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(files, "OWN_DEFAULT", str(tmp_path / "seed.toml"))
    monkeypatch.setattr(files, "CONFIG_DEFAULT", str(tmp_path / "config.json"))
    return tmp_path


def ports(settings: Settings) -> list[int | None]:
    return [settings.port_of(name) for name in ("pubsub", "pubsub_second", "ready", "azure_blob", "azure_table")]


def load(environment: dict[str, str], **flags: str) -> Settings:
    return with_variables(load_settings(flags={"seed": "auto"} | flags, environment=environment), environment)


def test_without_variables_nothing_is_opened_and_nothing_seeded() -> None:
    settings = load({"PUBSUB_PROJECT": "demo"})
    assert ports(settings) == [8085, None, None, None, None]
    assert read_seed_of(settings, {"PUBSUB_PROJECT": "demo"}) is None


def test_a_seed_in_variables_opens_the_ports_of_the_images_that_read_them() -> None:
    assert ports(load(PROJECT)) == [8085, 8681, 8682, None, None]
    seed = read_seed_of(load(PROJECT), PROJECT)
    assert seed is not None
    assert [each["name"] for each in seed.document["topics"]] == ["orders"]


def test_accounts_open_the_ports_that_clients_of_azurite_wait_for() -> None:
    settings = load(ACCOUNTS)
    assert ports(settings) == [8085, None, None, 10000, 10002]
    assert settings.azure.accounts == "demo:YQ=="


def test_ports_may_have_the_names_of_those_images() -> None:
    named = {"PUBSUB_PORT": "9681", "READY_PORT": "9682"}
    assert ports(load(PROJECT | named))[1:3] == [9681, 9682]
    service = {"PUBSUB_PORT": "tcp://10.0.0.7:8085", "READY_PORT": "0"}
    assert ports(load(PROJECT | service))[1:3] == [8681, 8682]


def test_penstocks_own_variables_have_precedence() -> None:
    environment = PROJECT | ACCOUNTS
    given = {"ready_port": "off", "pubsub_second_port": "7", "azure_blob_port": "off", "azure_accounts": "own:YQ=="}
    settings = load(environment, **given)
    assert ports(settings) == [8085, 7, None, None, 10002]
    assert settings.azure.accounts == "own:YQ=="


def test_a_port_that_another_door_has_is_left_to_it() -> None:
    assert ports(load(PROJECT, pubsub_port="8681"))[:3] == [8681, None, 8682]
    assert ports(load(PROJECT | ACCOUNTS, pubsub_port="off", azure_port="off")) == [None] * 5


def test_variables_alone_open_no_ports() -> None:
    """`env` is for users who start a server by hand, so the ports are those of the settings."""
    environment = PROJECT | ACCOUNTS
    settings = load(environment, seed="env")
    assert ports(settings) == [8085, None, None, None, None]
    assert settings.azure.accounts == "demo:YQ=="
    unasked = with_variables(load_settings(flags={}, environment=environment), environment)
    assert unasked == Settings()


def test_our_own_file_is_taken_before_the_others(places: Path) -> None:
    (places / "config.json").write_text('[{"project": "demo", "topic": "theirs"}]')
    seed = read_seed_of(load(PROJECT), PROJECT)
    assert seed is not None
    assert [each["name"] for each in seed.document["topics"]] == ["theirs"]
    (places / "seed.toml").write_text('[[topics]]\nname = "ours"\n')
    seed = read_seed_of(load(PROJECT), PROJECT)
    assert seed is not None
    assert [each["name"] for each in seed.document["topics"]] == ["ours"]
