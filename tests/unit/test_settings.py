"""Settings: their sources, the precedence of the sources, and the errors of invalid values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.errors import InvalidArgumentError
from penstock.settings import (
    DOORS,
    OTHER_VARIABLES,
    SETTINGS,
    Settings,
    load_settings,
    read_config,
    shown_settings,
    stray_variables,
)


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


SECRETS = sorted(name for name, each in SETTINGS.items() if each.secret)
RIGHT = {"PORT|off": "7", "N": "7", "BYTES": "7", "SECONDS": "7.5", "true|false": "on", "NETWORK": "10.0.0.0/8"}
RIGHT["ACCOUNT=PROJECT"] = "one=demo, two=other"


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_has_every_form(name: str) -> None:
    """A flag, a variable, a flat key, and a key in the door's table set the same field."""
    each = SETTINGS[name]
    value = each.kind.choices[-1] if each.kind.choices else RIGHT.get(each.kind.metavar, "word")
    wanted = load({name: value})
    record = getattr(wanted, each.section) if each.section else wanted
    assert getattr(record, each.key) == each.kind.read(value)
    assert load(environment={each.variable: value}) == wanted
    assert load(config={name: value}) == wanted
    assert not each.section or load(config={each.section: {each.key: value}}) == wanted


def test_the_names_of_a_setting_follow_from_its_field() -> None:
    tokens = SETTINGS["pubsub_tokens"]
    assert (tokens.section, tokens.key, tokens.flag) == ("pubsub", "tokens", "--pubsub-token")
    assert tokens.variable == "PENSTOCK_PUBSUB_TOKENS"
    assert {each.flag for each in SETTINGS.values() if each.many} >= {"--http-allowed-host", "--push-allow"}
    assert len({each.flag for each in SETTINGS.values()}) == len(SETTINGS)
    assert DOORS == ("pubsub", "azure", "text", "flight", "http")


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    config: dict[str, object] = {"http_port": 1, "azure_port": 1001, "text_port": 1002}
    environment = {"PENSTOCK_HTTP_PORT": "2", "PENSTOCK_AZURE_PORT": "off", "PATH": "/bin", "PENSTOCK_NIGHTLY": "1"}
    settings = load({"http_port": "0", "host": None}, environment, config)
    assert (settings.http.port, settings.azure.port, settings.text.port) == (0, None, 1002)


def test_a_file_may_use_its_own_types() -> None:
    settings = load(config={"memory": True, "grace_seconds": 2, "http_allowed_hosts": ["a", "b"], "http_port": "off"})
    assert (settings.memory, settings.grace_seconds, settings.http.allowed_hosts) == (True, 2.0, ("a", "b"))
    assert settings.http.port is None


def test_names_in_the_environment_are_separated_by_commas() -> None:
    assert load(environment={"PENSTOCK_HTTP_ALLOWED_HOSTS": "a, b"}).http.allowed_hosts == ("a", "b")


@pytest.mark.parametrize(
    ("flags", "environment", "config", "sentence"),
    [
        ({"http_port": "abc"}, {}, {}, "--http-port: expected a port from 0 to 65535 or \"off\", not 'abc'"),
        ({"http_port": "65536"}, {}, {}, "--http-port: expected a port from 0 to 65535 or \"off\", not '65536'"),
        ({}, {"PENSTOCK_TEXT_PORT": "-1"}, {}, "PENSTOCK_TEXT_PORT: expected a port"),
        ({}, {}, {"http_port": True}, "http_port in the settings file: expected a port"),
        ({}, {}, {"http_prot": 1}, "http_prot in the settings file: unknown setting; did you mean http_port?"),
        ({}, {}, {"http": {"port": True}}, "port in [http] of the settings file: expected a port"),
        (
            {},
            {},
            {"http": {"prot": 1}},
            "prot in [http] of the settings file: unknown setting; did you mean http_port?",
        ),
        ({}, {}, {"http": 1}, "http in the settings file: expected a table, [http]"),
        (
            {},
            {},
            {"http_port": 1, "http": {"port": 1}},
            "http_port in the settings file and port in [http] of the settings file are the same setting",
        ),
        ({"retention_seconds": "1d"}, {}, {}, "--retention-seconds: expected a number of seconds, 0 or more, not '1d'"),
        ({"retention_seconds": "nan"}, {}, {}, "--retention-seconds: expected a number of seconds"),
        ({}, {"PENSTOCK_MEMORY": "maybe"}, {}, "PENSTOCK_MEMORY: expected true or false, not 'maybe'"),
        ({"log_level": "loud"}, {}, {}, "--log-level: expected one of debug, info, warning, error, not 'loud'"),
        ({"host": " "}, {}, {}, "--host: expected some text, not ' '"),
        ({"http_allowed_hosts": [""]}, {}, {}, "--http-allowed-host: expected some text"),
        ({"memory": True, "data": "x"}, {}, {}, "--data and --memory exclude each other"),
        ({"http_port": "9123"}, {}, {}, "text_port and http_port are both 9123, but every port can be used only once"),
    ],
)
def test_an_invalid_value_is_reported_in_one_sentence_that_names_it(
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
    settings = load({"http_port": "0", "text_port": "0", "azure_port": "off", "flight_port": "off"})
    ports = [settings.port_of(door) for door in ("http", "text", "azure", "flight")]
    assert ports == [0, 0, None, None]


def test_a_settings_file_is_toml(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('http_port = 0\nlog_format = "json"\n')
    assert load(config=read_config(str(path))).log_format == "json"


@pytest.mark.parametrize("content", [b"http_port = ", b"\xff\xfe", b"x = " + b"[" * 100_000])
def test_a_broken_settings_file_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "penstock.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="not valid TOML"):
        read_config(str(path))


def test_a_missing_settings_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot read the settings file"):
        read_config(str(tmp_path / "absent.toml"))


ANYTHING = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text()))


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), ANYTHING, max_size=3))
def test_any_value_is_taken_or_refused_by_name(config: dict[str, object]) -> None:
    complaint = ""
    try:
        load(config=config)
    except InvalidArgumentError as refusal:
        complaint = refusal.message
    assert not complaint or any(name in complaint for name in config)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", ["hunter2\n", ["hunter2", ""], ["hunter2", 7], {"hunter2": 1}])
def test_a_secret_that_is_wrong_is_not_repeated(name: str, value: object) -> None:
    """The sentence may go to a log, or to a screen that others see."""
    section, key = SETTINGS[name].section, SETTINGS[name].key
    for config in ({name: value}, {section: {key: value}}):
        with pytest.raises(InvalidArgumentError) as refusal:
            load(config=config)
        assert "hunter2" not in str(refusal.value)
        assert key in str(refusal.value)


@pytest.mark.parametrize("value", ["one", "=demo", "one=", "one=a/b", "one=a,one=b", ["one=a", 7]])
def test_the_project_of_an_account_is_a_pair(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="azure_projects in the settings file: expected"):
        load(config={"azure_projects": value})


def test_every_setting_that_holds_credentials_is_kept_secret() -> None:
    """The test finds a new one by its name."""
    words = ("token", "secret", "password", "accounts")
    assert {name for name in SETTINGS if any(word in name for word in words)} == set(SECRETS)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_may_be_in_a_file_that_a_variable_names(name: str, tmp_path: Path) -> None:
    """Values of a list are on separate lines."""
    each = SETTINGS[name]
    (tmp_path / "secret").write_text("first:YQ==\r\nsecond:Yg==\n")
    environment = {f"{each.variable}_FILE": str(tmp_path / "secret")}
    assert list(stray_variables(environment)) == []
    wanted = "first:YQ==,second:Yg==" if each.many else "first:YQ==;second:Yg=="
    assert load(environment=environment) == load(environment={each.variable: wanted})
    assert load({name: "other:Yw=="}, environment) == load({name: "other:Yw=="}), "a flag has precedence"
    with pytest.raises(InvalidArgumentError, match=f"^{each.variable} and {each.variable}_FILE are the same setting$"):
        load(environment=environment | {each.variable: "hunter2"})


def test_an_unusable_file_of_a_secret_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, reason in (("absent", "No such file or directory"), ("bytes", "it is not text"), ("empty", "is empty")):
        with pytest.raises(InvalidArgumentError, match=rf"^PENSTOCK_HTTP_TOKENS_FILE: .*{name}.*{reason}$"):
            load(environment={"PENSTOCK_HTTP_TOKENS_FILE": str(tmp_path / name)})
    assert load(environment={"PENSTOCK_HTTP_TOKENS_FILE": ""}) == Settings()


def test_only_a_secret_may_be_in_a_file() -> None:
    stray = list(stray_variables({"PENSTOCK_HTTP_PORT_FILE": "x"}))
    assert stray == ["PENSTOCK_HTTP_PORT_FILE is not a setting and is ignored; did you mean PENSTOCK_HTTP_PORT?"]


def test_a_secret_is_not_in_the_text_of_the_settings() -> None:
    settings = load(dict.fromkeys(SECRETS, "hunter2:aHVudGVyMg=="))
    assert "hunter2" not in repr(settings)


def test_settings_are_shown_without_their_secrets() -> None:
    settings = load_settings(flags={"http_tokens": ["s3cret"], "data": "/srv/data"}, environment={})
    shown = {name: (value, changed, is_path) for name, value, _, changed, _, is_path in shown_settings(settings)}
    assert shown["http_tokens"] == ("***", True, False)
    assert shown["http_read_tokens"] == ((), False, False)
    assert shown["data"] == ("/srv/data", True, True)
    assert shown.keys() == SETTINGS.keys()
    assert "s3cret" not in repr(shown)


def test_every_variable_that_the_code_reads_is_a_known_variable() -> None:
    """Otherwise a server would call it mistyped."""
    known = {each.variable for each in SETTINGS.values()} | OTHER_VARIABLES
    known |= {f"{SETTINGS[name].variable}_FILE" for name in SECRETS}
    texts = [path.read_text() for path in Path(penstock.__file__).parent.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"""["']?(PENSTOCK_[A-Z_]*[A-Z])\b""", text)}
    assert {"PENSTOCK_CONFIG", "PENSTOCK_TOKEN"} <= named
    assert named <= known


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "PENSTOCK_HTPP_PORT",
            "1",
            "PENSTOCK_HTPP_PORT is not a setting and is ignored; did you mean PENSTOCK_HTTP_PORT?",
        ),
        ("PENSTOCK_BANANA", "1", "PENSTOCK_BANANA is not a setting and is ignored"),
        (
            "PENSTOCK_TEXT_PORT",
            "tcp://10.0.0.7:9123",
            "PENSTOCK_TEXT_PORT holds the address of a service, not a setting, and is ignored",
        ),
        ("PENSTOCK_PORT", "tcp://10.0.0.7:8085", ""),
        ("PENSTOCK_SERVICE_HOST", "10.0.0.7", ""),
        ("PENSTOCK_SERVICE_PORT_PUBSUB", "8085", ""),
        ("PENSTOCK_PORT_8085_TCP_PROTO", "tcp", ""),
        ("PENSTOCK_HTTP_SERVICE_PORT", "8090", ""),
        ("PENSTOCK_TOKEN", "secret", ""),
        ("PENSTOCK_HTTP_PORT", "1", ""),
        ("penstock_http_prot", "1", ""),
    ],
)
def test_an_unknown_variable_is_named_unless_another_program_uses_it(name: str, value: str, sentence: str) -> None:
    assert list(stray_variables({name: value, "PATH": "/bin"})) == ([sentence] if sentence else [])
    load(environment={name: value})
