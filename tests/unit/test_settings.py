"""Where settings come from, which source wins, and what a wrong value is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgumentError
from penstock.settings import PARSERS, SECRETS, Settings, Source, _parsed, load_settings, read_config


def load(
    flags: dict[str, object] | None = None,
    environment: dict[str, str] | None = None,
    config: dict[str, object] | None = None,
) -> Settings:
    return load_settings(flags=flags or {}, environment=environment or {}, config=config)


def test_the_defaults_are_the_documented_ones() -> None:
    settings = load()
    assert settings == Settings()
    assert [settings.port_of(door) for door in ("pubsub", "azure", "text", "flight", "http")] == [
        8085,
        10001,
        9123,
        8815,
        8090,
    ]
    assert (settings.host, settings.data, settings.memory, settings.retention_seconds) == (
        "127.0.0.1",
        "./penstock-data",
        False,
        86400,
    )


def test_every_setting_can_be_set() -> None:
    assert set(PARSERS) == set(Settings.__struct_fields__)


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    config: dict[str, object] = {"http_port": 1, "azure_port": 1001, "text_port": 1002}
    environment = {"PENSTOCK_HTTP_PORT": "2", "PENSTOCK_AZURE_PORT": "off", "PATH": "/bin", "PENSTOCK_NIGHTLY": "1"}
    settings = load({"http_port": "0", "host": None}, environment, config)
    assert (settings.http_port, settings.azure_port, settings.text_port) == (0, None, 1002)


def test_a_file_may_use_its_own_types() -> None:
    settings = load(config={"memory": True, "grace_seconds": 2, "http_allowed_hosts": ["a", "b"], "http_port": "off"})
    assert (settings.memory, settings.grace_seconds, settings.http_allowed_hosts) == (True, 2.0, ("a", "b"))
    assert settings.http_port is None


def test_names_in_the_environment_are_separated_by_commas() -> None:
    assert load(environment={"PENSTOCK_HTTP_ALLOWED_HOSTS": "a, b"}).http_allowed_hosts == ("a", "b")


@pytest.mark.parametrize(
    ("flags", "environment", "config", "sentence"),
    [
        ({"http_port": "abc"}, {}, {}, "--http-port: expected a port from 0 to 65535 or \"off\", not 'abc'"),
        ({"http_port": "65536"}, {}, {}, "--http-port: expected a port from 0 to 65535 or \"off\", not '65536'"),
        ({}, {"PENSTOCK_TEXT_PORT": "-1"}, {}, "PENSTOCK_TEXT_PORT: expected a port"),
        ({}, {}, {"http_port": True}, "http_port in the settings file: expected a port"),
        ({}, {}, {"http_prot": 1}, "http_prot in the settings file: there is no such setting"),
        ({"retention_seconds": "1d"}, {}, {}, "--retention-seconds: expected a number of seconds, 0 or more, not '1d'"),
        ({"retention_seconds": "nan"}, {}, {}, "--retention-seconds: expected a number of seconds"),
        ({}, {"PENSTOCK_MEMORY": "maybe"}, {}, "PENSTOCK_MEMORY: expected true or false, not 'maybe'"),
        ({"log_level": "loud"}, {}, {}, "--log-level: expected one of debug, info, warning, error, not 'loud'"),
        ({"host": " "}, {}, {}, "--host: expected some text, not ' '"),
        ({"http_allowed_hosts": [""]}, {}, {}, "--http-allowed-host: expected some text"),
        ({"memory": True, "data": "x"}, {}, {}, "--data and --memory exclude each other"),
        ({"http_port": "9123"}, {}, {}, "text_port and http_port are both 9123; two doors need two ports"),
    ],
)
def test_a_wrong_value_is_told_in_one_sentence_that_names_it(
    flags: dict[str, object], environment: dict[str, str], config: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        load(flags, environment, config)
    assert refusal.value.message.startswith(sentence)
    assert "\n" not in refusal.value.message


def test_the_last_word_between_memory_and_a_folder_counts() -> None:
    assert load({"data": "x"}, {"PENSTOCK_MEMORY": "1"}).memory is False
    assert load({"memory": True}, {"PENSTOCK_DATA": "x"}).memory is True


def test_closed_doors_and_free_ports_do_not_collide() -> None:
    load({"http_port": "0", "text_port": "0", "azure_port": "off", "flight_port": "off"})


def test_a_settings_file_is_toml(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('http_port = 0\nlog_format = "json"\n')
    assert load(config=read_config(str(path))).log_format == "json"


@pytest.mark.parametrize("content", [b"http_port = ", b"\xff\xfe"])
def test_a_broken_settings_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "penstock.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="not valid TOML"):
        read_config(str(path))


def test_a_missing_settings_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot read the settings file"):
        read_config(str(tmp_path / "absent.toml"))


ANYTHING = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text()))


@given(st.dictionaries(st.sampled_from(sorted(PARSERS)), ANYTHING, max_size=3))
def test_any_value_is_taken_or_refused_by_name(config: dict[str, object]) -> None:
    complaint = ""
    try:
        load(config=config)
    except InvalidArgumentError as refusal:
        complaint = refusal.message
    assert not complaint or any(name in complaint for name in config)


@pytest.mark.parametrize("name", sorted(SECRETS))
@pytest.mark.parametrize("value", ["hunter2\n", ["hunter2", ""], ["hunter2", 7], {"hunter2": 1}])
def test_a_secret_that_is_wrong_is_not_repeated(name: str, value: object) -> None:
    """The sentence ends up in a log, or on a screen that others see."""
    with pytest.raises(InvalidArgumentError) as refusal:
        dict(_parsed(Source({name: value}, str)))
    assert "hunter2" not in str(refusal.value)
    assert name in str(refusal.value)


def test_every_setting_that_holds_credentials_is_kept_secret() -> None:
    """A new one is found by its name."""
    words = ("token", "secret", "password", "accounts")
    assert {name for name in PARSERS if any(word in name for word in words)} == SECRETS
