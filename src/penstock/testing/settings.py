"""The settings of a server for tests: its defaults, and settings of a test."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import InvalidArgumentError

# Defaults for tests: any account and project name, a fast start, and nothing on disk.
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


def flags_of(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the defaults changed by these settings. With `data`, the server is not in memory."""
    defaults = {name: value for name, value in SETTINGS.items() if name != "memory" or "data" not in settings}
    return {**defaults, **settings}


def check_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Return the settings as texts. Raise InvalidArgumentError here, rather than in a process that does not start."""
    from penstock.settings import load_settings

    texts = {name: _text(value) for name, value in settings.items() if value is not None}
    if "ready_file" in texts:
        raise InvalidArgumentError("ready_file: cannot be set in the test kit; read addresses from server['http']")
    loaded = load_settings(flags=flags_of(texts), environment={}, named={name: name for name in texts})
    if loaded.http.port is None:
        raise InvalidArgumentError("http_port: the test kit needs the admin API; set a port, or 0 for any free one")
    return texts


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
