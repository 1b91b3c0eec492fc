"""`penstock azurite ...`: Azurite's command line, so that scripts which start Azurite's queue can start Penstock.

The rule kept here: every spelling of Azurite's is accepted. What makes no difference here is accepted in silence, what
belongs to its other services is told, and what cannot be done is refused with a sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

IGNORED = "Accepted; makes no difference here."
ELSEWHERE = "Accepted; only the queue service is here."


def print_version(wanted: bool) -> None:
    if wanted:
        from penstock.settings import installed_version

        typer.echo(installed_version())
        raise typer.Exit


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
        str | None, typer.Option("-d", "--debug", metavar="FILE", help="Log every request to this file.")
    ] = None,
    loose: Annotated[bool, typer.Option("-L", "--loose", help=IGNORED)] = False,
    skip_version: Annotated[bool, typer.Option("--skipApiVersionCheck", help=IGNORED)] = False,
    no_product_style: Annotated[bool, typer.Option("--disableProductStyleUrl", help=IGNORED)] = False,
    no_telemetry: Annotated[bool, typer.Option("--disableTelemetry", help=IGNORED)] = False,
    memory_limit: Annotated[str | None, typer.Option("--extentMemoryLimit", help=IGNORED)] = None,
    blob_host: Annotated[str | None, typer.Option("--blobHost", help=ELSEWHERE)] = None,
    blob_port: Annotated[str | None, typer.Option("--blobPort", help=ELSEWHERE)] = None,
    blob_keep_alive: Annotated[str | None, typer.Option("--blobKeepAliveTimeout", help=ELSEWHERE)] = None,
    table_host: Annotated[str | None, typer.Option("--tableHost", help=ELSEWHERE)] = None,
    table_port: Annotated[str | None, typer.Option("--tablePort", help=ELSEWHERE)] = None,
    table_keep_alive: Annotated[str | None, typer.Option("--tableKeepAliveTimeout", help=ELSEWHERE)] = None,
    version: Annotated[
        bool, typer.Option("-v", "--version", is_eager=True, callback=print_version, help="Print the version.")
    ] = False,
    ready_file: Annotated[
        str | None, typer.Option("--ready-file", metavar="FILE", help="As in penstock serve.")
    ] = None,
) -> None:
    """Serve Azure queues alone, with Azurite's flags.

    Accounts come from AZURITE_ACCOUNTS (name:key1[:key2];...), or are the well-known development account.
    """
    given = dict(locals())
    elsewhere = [name for name in given if name.startswith(("blob_", "table_")) and given[name] is not None]
    raise typer.Exit(_serve(given, os.environ, elsewhere))


def settings_of(given: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, object]:
    """The settings that Azurite's flags stand for. ValueError says what cannot be done."""
    from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY

    if given["pwd"] is not None:
        raise ValueError("--pwd: PFX files are not supported; give --cert and --key as PEM files")
    if (given["cert"] is None) != (given["key"] is None):
        raise ValueError("--cert and --key are needed together")
    if given["oauth"] not in (None, "basic"):
        raise ValueError("--oauth: only basic is known")
    if given["oauth"] and given["cert"] is None:
        raise ValueError("--oauth needs --cert and --key: tokens are taken over TLS only")
    # As with Azurite, the development account works from wherever this command was told to listen.
    accounts = environment.get("AZURITE_ACCOUNTS") or f"{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}"
    store: dict[str, object] = {"memory": True} if given["in_memory"] else {"data": _store(given["location"])}
    return {
        **dict.fromkeys(("pubsub_port", "text_port", "flight_port", "http_port"), "off"),
        **store,
        "host": given["queue_host"],
        "azure_port": given["queue_port"],
        "azure_accounts": accounts,
        "azure_tls_cert": given["cert"],
        "azure_tls_key": given["key"],
        "azure_oauth": given["oauth"],
        "azure_keep_alive_seconds": given["queue_keep_alive"],
        "log_level": "warning" if given["silent"] else "info",
        "ready_file": given["ready_file"],
    }


def _store(location: str) -> str:
    return str(Path(location) / "penstock-data")


def _serve(given: Mapping[str, Any], environment: Mapping[str, str], elsewhere: list[str]) -> int:
    from penstock.assembly import open_parts
    from penstock.errors import InvalidArgumentError
    from penstock.logs import also_log_to, escape_controls, set_up_logging
    from penstock.server import EXIT_USAGE, log, run
    from penstock.settings import load_settings

    try:
        settings = load_settings(flags=settings_of(given, environment), environment=environment)
    except (InvalidArgumentError, ValueError) as error:
        sys.stderr.write(f"penstock: {escape_controls(str(error))}\n")
        return EXIT_USAGE
    set_up_logging(settings)
    if given["debug"]:
        try:
            also_log_to(given["debug"])
        except OSError as error:
            sys.stderr.write(f"penstock: --debug: cannot write {escape_controls(given['debug'])}: {error.strerror}\n")
            return EXIT_USAGE
    if elsewhere:
        log.warning("only the queue service is here; flags of other services make no difference")
    return run(settings, open_parts)
