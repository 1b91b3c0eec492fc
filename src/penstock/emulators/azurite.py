"""Azurite: its flags as settings, and the lines that it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.emulators.seeds import ACCOUNTS
from penstock.emulators.variables import BLOB_PORT, TABLE_PORT, accounts_in, only_door
from penstock.terminal import tell

SERVICES = {"azure_blob": "Blob", "azure": "Queue", "azure_table": "Table"}  # by protocol
# Setting: Azurite's flag for it.
NAMED = {
    "host": "--queueHost",
    "azure_port": "--queuePort",
    "azure_blob_port": "--blobPort",
    "azure_table_port": "--tablePort",
    "azure_keep_alive_seconds": "--queueKeepAliveTimeout",
    "azure_tls_cert": "--cert",
    "azure_tls_key": "--key",
    "data": "--location",
}


def announce(scheme: str, addresses: Mapping[str, str]) -> None:
    """Print the lines of Azurite that scripts wait for."""
    for door, service in SERVICES.items():
        if door in addresses:
            tell(f"Azurite {service} service is successfully listening at {scheme}://{addresses[door]}")


def settings_of(given: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, object]:
    """Return the settings for Azurite's flags. Raise InvalidArgumentError for unsupported flags."""
    from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, read_accounts
    from penstock.errors import InvalidArgumentError

    if given["pwd"] is not None:
        raise InvalidArgumentError("--pwd: PFX files are not supported. Give --cert and --key as PEM files")
    if (given["cert"] is None) != (given["key"] is None):
        raise InvalidArgumentError("--cert and --key must be given together")
    if given["oauth"] not in (None, "basic"):
        raise InvalidArgumentError("--oauth must be basic")
    if given["oauth"] and given["cert"] is None:
        raise InvalidArgumentError("--oauth needs --cert and --key, because tokens are accepted over TLS only")
    # As with Azurite, the development account works at every address this command listens on.
    accounts = accounts_in(environment) or f"{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}"
    try:
        read_accounts(accounts)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(error.message.replace("azure_accounts", ACCOUNTS, 1)) from None
    folder = str(Path(given["location"]) / "penstock-data")
    store: dict[str, object] = {"memory": True} if given["in_memory"] else {"data": folder}
    return {
        **only_door("azure", environment),
        **store,
        "host": given["queue_host"],
        "azure_port": given["queue_port"],
        "azure_blob_port": _port(given, "blob", BLOB_PORT),
        "azure_table_port": _port(given, "table", TABLE_PORT),
        "azure_accounts": accounts,
        "azure_tls_cert": given["cert"],
        "azure_tls_key": given["key"],
        "azure_oauth": _oauth(given),
        "azure_wording": "azurite",
        "azure_keep_alive_seconds": given["queue_keep_alive"],
        "log_level": "warning" if given["silent"] else "info",
        "log_requests": given["debug"] is not None,
        "ready_file": given["ready_file"],
    }


def _oauth(given: Mapping[str, Any]) -> object:
    """Return the setting for --oauth. As with Azurite, tokens work at every address this command listens on."""
    from penstock.wire.hosts import is_loopback

    return "open" if given["oauth"] and not is_loopback(given["queue_host"]) else given["oauth"]


def _port(given: Mapping[str, Any], service: str, usual: int) -> object:
    """Return the port of another service if one of its flags was given, else "off"."""
    host, port = given[f"{service}_host"], given[f"{service}_port"]
    return port if port is not None else usual if host is not None else "off"


def check_files(log_file: str | None, cert: str | None, key: str | None) -> None:
    """Check the files of the flags, so that errors name the flag."""
    from penstock.errors import InvalidArgumentError
    from penstock.logs import also_log_to
    from penstock.wire.trust import server_context

    _with_file("--debug: cannot write", log_file, also_log_to)
    for flag, path in (("--cert", cert), ("--key", key)):
        _with_file(f"{flag}: cannot read", path, lambda file: Path(file).open("rb").close())
    try:
        server_context("azure", cert, key)
    except InvalidArgumentError:
        raise InvalidArgumentError("--cert and --key: expected PEM files, and a key that fits") from None


def _with_file(wrong: str, path: str | None, use: Callable[[str], object]) -> None:
    from penstock.errors import InvalidArgumentError

    try:
        if path:
            use(path)
    except OSError as error:
        raise InvalidArgumentError(f"{wrong} {path}: {error.strerror}") from None
