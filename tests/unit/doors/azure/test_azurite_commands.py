"""Azurite's flags as settings."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.azurite_commands import settings_of
from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT
from penstock.settings import load_settings

DEFAULTS: dict[str, Any] = {
    "queue_host": "127.0.0.1",
    "queue_port": 10001,
    "queue_keep_alive": 60.0,
    "location": ".",
    "in_memory": False,
    "cert": None,
    "key": None,
    "pwd": None,
    "oauth": None,
    "silent": False,
    "debug": None,
    "ready_file": None,
}


def test_the_defaults_open_the_queue_alone() -> None:
    settings = load_settings(flags=settings_of(DEFAULTS, {}), environment={})
    assert (settings.azure_port, settings.http_port, settings.pubsub_port) == (10001, None, None)
    assert (settings.data, settings.memory, settings.azure_oauth) == ("penstock-data", False, "off")
    assert (settings.azure_accounts or "").startswith(f"{DEVELOPMENT_ACCOUNT}:")


def test_flags_and_accounts_are_taken_over() -> None:
    given = DEFAULTS | {"in_memory": True, "cert": "c", "key": "k", "oauth": "basic", "silent": True, "queue_port": 0}
    settings = load_settings(flags=settings_of(given, {"AZURITE_ACCOUNTS": "a:YQ=="}), environment={})
    assert (settings.memory, settings.azure_tls_cert, settings.azure_tls_key) == (True, "c", "k")
    assert (settings.azure_oauth, settings.log_level, settings.azure_port) == ("basic", "warning", 0)
    assert settings.azure_accounts == "a:YQ=="


@pytest.mark.parametrize("changes", [{"pwd": "x"}, {"cert": "c"}, {"key": "k"}, {"oauth": "full"}])
def test_what_cannot_be_done_is_said(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="--"):
        settings_of(DEFAULTS | changes, {})
