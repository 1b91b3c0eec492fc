"""Environment variables of other emulators: seeds, accounts, and the ports that their clients expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.emulators.seeds import ACCOUNTS
from penstock.settings import DOORS, Settings, load_settings, secret_in_file

if TYPE_CHECKING:
    from penstock.seeding.source import Source

STOP_SECONDS = 0.5
PUBSUB_PORT, READY_PORT, BLOB_PORT, TABLE_PORT = 8681, 8682, 10000, 10002


def accounts_in(environment: Mapping[str, str]) -> str:
    return environment.get(ACCOUNTS) or secret_in_file(environment, ACCOUNTS)


def only_door(door: str, environment: Mapping[str, str]) -> dict[str, object]:
    """Return settings that open one door, and other doors only if a variable sets their port.

    The server stops quickly, as emulators do.
    """
    given = load_settings(flags={}, environment=environment).given
    wanted: dict[str, object] = {f"{other}_port": "off" for other in DOORS if other != door}
    return {name: value for name, value in (wanted | {"grace_seconds": STOP_SECONDS}).items() if name not in given}


def read_seed_of(settings: Settings, environment: Mapping[str, str]) -> Source | None:
    """Return the seed that the settings name, or None. Raise SeedError if it cannot be read."""
    from penstock.seeding.files import AUTO, find_seed, read_seed

    where = find_seed(environment) if settings.seed == AUTO else settings.seed
    return read_seed(where, environment) if where else None


def with_variables(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Return the settings with the accounts in variables, and with the ports that go with a seed found in variables.

    Settings of our own are not changed.
    """
    from penstock.seeding.files import AUTO, ENVIRONMENT, names_seed

    accounts = accounts_in(environment) if settings.seed in (AUTO, ENVIRONMENT) else ""
    if accounts and not settings.azure.accounts:
        settings = replace(settings, azure=replace(settings.azure, accounts=accounts))
    if settings.seed != AUTO:
        return settings
    ports: dict[str, int | None] = {}
    if names_seed(environment) and settings.pubsub.port is not None:
        ports["pubsub_second_port"] = _port(environment, "PUBSUB_PORT", PUBSUB_PORT)
        ports["ready_port"] = _port(environment, "READY_PORT", READY_PORT)
    if accounts and settings.azure.port is not None:
        ports |= {"azure_blob_port": BLOB_PORT, "azure_table_port": TABLE_PORT}
    taken = settings.ports()
    ports = {name: port for name, port in ports.items() if name not in settings.given and port not in taken}
    return replace(
        settings,
        ready_port=ports.get("ready_port", settings.ready_port),
        pubsub=replace(settings.pubsub, second_port=ports.get("pubsub_second_port", settings.pubsub.second_port)),
        azure=replace(
            settings.azure,
            blob_port=ports.get("azure_blob_port", settings.azure.blob_port),
            table_port=ports.get("azure_table_port", settings.azure.table_port),
        ),
    )


def _port(environment: Mapping[str, str], variable: str, usual: int) -> int:
    """Return the port in a variable, or `usual` if it has no number, such as an address that Kubernetes set."""
    text = environment.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else usual
