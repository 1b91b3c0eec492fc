"""`penstock azurite`: Azurite's command line, for scripts that start Azurite's queue service.

All flags of Azurite are accepted. Flags without effect are ignored, flags of other services open a port that answers
501, and flags that cannot be supported are refused.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import click

from penstock.commands.help import command
from penstock.commands.parameters import Number, WholeNumber, version_option
from penstock.commands.serve import run_server
from penstock.emulators.azurite import NAMED, announce, check_files, settings_of

IGNORED = "Ignored."
ELSEWHERE = "This service is not available. Its port answers 501 at the address of --queueHost."


@command()
@click.option("queue_host", "--queueHost", metavar="ADDRESS", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "queue_port",
    "--queuePort",
    metavar="PORT",
    default=10001,
    type=WholeNumber(),
    help="Port to listen on. 0 means any free port.",
)
@click.option(
    "queue_keep_alive",
    "--queueKeepAliveTimeout",
    metavar="SECONDS",
    default=5,
    type=Number(),
    help="Close idle connections after this time.",
)
@click.option("-l", "--location", metavar="DIR", default=".", help="Folder that contains the store, as penstock-data.")
@click.option("in_memory", "--inMemoryPersistence", is_flag=True, help="Keep messages in memory only.")
@click.option("--cert", metavar="FILE", help="TLS certificate, a PEM file.")
@click.option("--key", metavar="FILE", help="Private key of the certificate, a PEM file.")
@click.option("--pwd", help="Not supported, because PFX files are not supported.")
@click.option("--oauth", metavar="LEVEL", help="Accept OAuth tokens. The only level is basic.")
@click.option("-s", "--silent", is_flag=True, help="Log warnings and errors only.")
@click.option("-d", "--debug", metavar="FILE", help="Log all requests to this file.")
@click.option("-L", "--loose", is_flag=True, help=IGNORED)
@click.option("skip_version", "--skipApiVersionCheck", is_flag=True, help=IGNORED)
@click.option("no_product_style", "--disableProductStyleUrl", is_flag=True, help=IGNORED)
@click.option("no_telemetry", "--disableTelemetry", is_flag=True, help=IGNORED)
@click.option("memory_limit", "--extentMemoryLimit", help=IGNORED)
@click.option("blob_host", "--blobHost", help=ELSEWHERE)
@click.option("blob_port", "--blobPort", metavar="PORT", type=WholeNumber(), help=ELSEWHERE)
@click.option("blob_keep_alive", "--blobKeepAliveTimeout", help=IGNORED)
@click.option("table_host", "--tableHost", help=ELSEWHERE)
@click.option("table_port", "--tablePort", metavar="PORT", type=WholeNumber(), help=ELSEWHERE)
@click.option("table_keep_alive", "--tableKeepAliveTimeout", help=IGNORED)
@version_option("-v", "--version", sentence="Penstock {}, in place of Azurite's queue service")
@click.option(
    "--ready-file", metavar="FILE", help="Write the pid and the addresses to this file when the server is ready."
)
def azurite(**values: Any) -> None:
    """Run a server for Azure queues only, with the flags of Azurite.

    AZURITE_ACCOUNTS sets the accounts (name:key1[:key2];...). The default is the well-known development account.
    """
    cert, key = values["cert"], values["key"]
    flags = partial(settings_of, values, os.environ)
    say = partial(announce, "https" if cert else "http")
    raise click.exceptions.Exit(
        run_server(
            flags, os.environ, before=partial(check_files, values["debug"], cert, key), named=NAMED, announce=say
        )
    )
