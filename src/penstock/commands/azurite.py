"""`penstock azurite ...`: Azurite's command line, so that scripts which start Azurite's queue can start Penstock.

Every flag of Azurite's is accepted. One that makes no difference here is ignored, one of its other services opens a
port that answers 501, and one that asks for the impossible is refused with a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.commands.emulators import BLOB_PORT, TABLE_PORT, accounts_in, only_door
from penstock.commands.help import print_version_instead
from penstock.commands.serve import run_server
from penstock.seeding.conventions import ACCOUNTS

IGNORED = "Accepted; makes no difference here."
ELSEWHERE = "Accepted; this service is not here, its port answers 501 at the address of --queueHost."
SERVICES = {"azure_blob": "Blob", "azure": "Queue", "azure_table": "Table"}  # by the name of the door
# What settings are called on Azurite's command line.
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


def _version(wanted: bool) -> None:
    print_version_instead(wanted, "Azurite's queue service")


def azurite(
    *,
    queue_host: Annotated[str, typer.Option("--queueHost", metavar="ADDRESS", help="Address to listen on.")] = (
        "127.0.0.1"
    ),
    queue_port: Annotated[int, typer.Option("--queuePort", metavar="PORT", help="0: any free one.")] = 10001,
    queue_keep_alive: Annotated[
        float, typer.Option("--queueKeepAliveTimeout", metavar="SECONDS", help="Of an idle connection.")
    ] = 60,
    location: Annotated[
        str, typer.Option("-l", "--location", metavar="DIR", help="The store is made inside, as penstock-data.")
    ] = ".",
    in_memory: Annotated[bool, typer.Option("--inMemoryPersistence", help="Keep nothing on disk.")] = False,
    cert: Annotated[str | None, typer.Option("--cert", metavar="FILE", help="Certificate, PEM.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Its key, PEM.")] = None,
    pwd: Annotated[str | None, typer.Option("--pwd", help="Password of a PFX file: not supported.")] = None,
    oauth: Annotated[str | None, typer.Option("--oauth", metavar="LEVEL", help="basic.")] = None,
    silent: Annotated[bool, typer.Option("-s", "--silent", help="Log warnings and errors only.")] = False,
    debug: Annotated[
        str | None,
        typer.Option("-d", "--debug", metavar="FILE", help="Log every request and every detail to this file."),
    ] = None,
    loose: Annotated[bool, typer.Option("-L", "--loose", help=IGNORED)] = False,
    skip_version: Annotated[bool, typer.Option("--skipApiVersionCheck", help=IGNORED)] = False,
    no_product_style: Annotated[bool, typer.Option("--disableProductStyleUrl", help=IGNORED)] = False,
    no_telemetry: Annotated[bool, typer.Option("--disableTelemetry", help=IGNORED)] = False,
    memory_limit: Annotated[str | None, typer.Option("--extentMemoryLimit", help=IGNORED)] = None,
    blob_host: Annotated[str | None, typer.Option("--blobHost", help=ELSEWHERE)] = None,
    blob_port: Annotated[int | None, typer.Option("--blobPort", metavar="PORT", help=ELSEWHERE)] = None,
    blob_keep_alive: Annotated[str | None, typer.Option("--blobKeepAliveTimeout", help=IGNORED)] = None,
    table_host: Annotated[str | None, typer.Option("--tableHost", help=ELSEWHERE)] = None,
    table_port: Annotated[int | None, typer.Option("--tablePort", metavar="PORT", help=ELSEWHERE)] = None,
    table_keep_alive: Annotated[str | None, typer.Option("--tableKeepAliveTimeout", help=IGNORED)] = None,
    version: Annotated[
        bool, typer.Option("-v", "--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
    ready_file: Annotated[
        str | None, typer.Option("--ready-file", metavar="FILE", help="As in penstock serve.")
    ] = None,
) -> None:
    """Serve Azure queues alone, with Azurite's flags.

    Accounts come from AZURITE_ACCOUNTS (name:key1[:key2];...), or are the well-known development account.
    """
    flags = partial(settings_of, dict(locals()), os.environ)
    say = partial(announce, "https" if cert else "http")
    raise typer.Exit(
        run_server(flags, os.environ, before=partial(_prepare, debug, cert, key), named=NAMED, announce=say)
    )


def announce(scheme: str, addresses: Mapping[str, str]) -> None:
    """What Azurite says, and what programs that start it wait for."""
    for door, service in SERVICES.items():
        if door in addresses:
            print(f"Azurite {service} service is successfully listening at {scheme}://{addresses[door]}", flush=True)


def settings_of(given: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, object]:
    """The settings that Azurite's flags stand for. InvalidArgumentError says what cannot be done."""
    from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, read_accounts
    from penstock.errors import InvalidArgumentError

    if given["pwd"] is not None:
        raise InvalidArgumentError("--pwd: PFX files are not supported; give --cert and --key as PEM files")
    if (given["cert"] is None) != (given["key"] is None):
        raise InvalidArgumentError("--cert and --key are needed together")
    if given["oauth"] not in (None, "basic"):
        raise InvalidArgumentError("--oauth: only basic is known")
    if given["oauth"] and given["cert"] is None:
        raise InvalidArgumentError("--oauth needs --cert and --key: tokens are taken over TLS only")
    # As with Azurite, the development account works at whatever address this command listens on.
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
    """The port of a service that is not here, if anybody asks for it."""
    host, port = given[f"{service}_host"], given[f"{service}_port"]
    return port if port is not None else usual if host is not None else "off"


def _prepare(log_file: str | None, cert: str | None, key: str | None) -> None:
    """What is wrong with a file is said by the name of its flag."""
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
