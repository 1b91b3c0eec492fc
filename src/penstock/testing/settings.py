"""The settings of a server for tests: those it has by itself, and those that a test gives it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import InvalidArgumentError

# What tests want: every account and project by name, and nothing that takes long to start or is written down.
SETTINGS: Mapping[str, object] = {
    "memory": True,
    "testing": True,
    "http_port": "0",
    "pubsub_port": "0",
    "azure_port": "0",
    "text_port": "0",
    "flight_port": "off",
    "azure_any_account": True,
    "text_projects": True,
    "push_allow": ["127.0.0.0/8", "::1/128"],
    "grace_seconds": "0.1",
}


def flags_of(given: Mapping[str, object]) -> dict[str, object]:
    """The settings of a server for tests, with those that were given; a folder that was given is used."""
    own = {name: value for name, value in SETTINGS.items() if name != "memory" or "data" not in given}
    return {**own, **given}


def checked(settings: Mapping[str, object]) -> dict[str, str]:
    """As texts. What is wrong is said here, not by a process that does not start."""
    from penstock.settings import load_settings

    given = {name: _text(value) for name, value in settings.items() if value is not None}
    if "ready_file" in given:
        raise InvalidArgumentError("ready_file: the test kit has one of its own; addresses are at server['http']")
    chosen = load_settings(flags=flags_of(given), environment={}, named={name: name for name in given})
    if chosen.http.port is None:
        raise InvalidArgumentError("http_port: the test kit needs the admin API; give a port, 0 for any free one")
    return given


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
