"""`penstock gcloud`: the command line of the Pub/Sub emulator in gcloud, for scripts that start it.

All flags of `gcloud beta emulators pubsub` are accepted. Flags without effect are ignored.
"""

from __future__ import annotations

import os
from functools import partial

import click

from penstock.commands.contexts import contexts_file
from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import command
from penstock.commands.parameters import argument, version_option
from penstock.commands.serve import run_server
from penstock.emulators.gcloud import ENVIRONMENT, announce, exports, settings_of, verb_of
from penstock.errors import InvalidArgumentError
from penstock.terminal import tell

IGNORED = "Ignored."


# Unknown flags are reported by verb_of, so that other commands of gcloud are not reported as unknown flags.
@command(context_settings={"ignore_unknown_options": True})
@argument("words", metavar="WORD", nargs=-1, help="[beta] emulators pubsub start, or [beta] emulators pubsub env-init.")
@click.option(
    "--host-port",
    metavar="HOST:PORT",
    help="Address to listen on, such as 0.0.0.0:8085 or [::]:8085. Default localhost:8085.",
)
@click.option(
    "--data-dir", metavar="DIR", help="Folder that contains the store, as penstock-data. Default: memory only."
)
@click.option("--project", metavar="PROJECT", envvar="CLOUDSDK_CORE_PROJECT", help="Default project.")
@click.option("--verbosity", metavar="LEVEL", help="Log level: debug, info, warning or error.")
@click.option("--log-http/--no-log-http", help="Log all requests.")
@click.option("-q", "--quiet", is_flag=True, help=IGNORED)
@click.option("user_output", "--user-output-enabled/--no-user-output-enabled", default=True, help=IGNORED)
@click.option("--access-token-file", help=IGNORED)
@click.option("--account", help=IGNORED)
@click.option("--billing-project", help=IGNORED)
@click.option("--configuration", help=IGNORED)
@click.option("--flags-file", help="Not supported.")
@click.option("--flatten", help=IGNORED)
@click.option("--format", help=IGNORED)
@click.option("impersonate", "--impersonate-service-account", help=IGNORED)
@click.option("--trace-token", help=IGNORED)
@version_option("-v", "--version", sentence="Penstock {}, in place of gcloud's Pub/Sub emulator")
def gcloud(
    words: tuple[str, ...],
    *,
    host_port: str | None,
    data_dir: str | None,
    project: str | None,
    verbosity: str | None,
    log_http: bool,
    flags_file: str | None,
    **_: object,
) -> None:
    """Run a server for Pub/Sub only, with the command line of gcloud's emulator.

    start runs the server until it is stopped. env-init prints the environment variables for clients.

      penstock gcloud beta emulators pubsub start --project=test --host-port=0.0.0.0:8085
    """
    try:
        verb = verb_of(words)
    except InvalidArgumentError as error:
        raise WrongUsageError(error.message) from None
    if flags_file is not None:
        raise WrongUsageError("--flags-file is not supported. Give the flags on the command line")
    config = contexts_file(os.environ).parent
    if verb == ENVIRONMENT:
        tell("\n".join(exports(data_dir, project, os.environ, config)), keep="\n")
        return
    flags = partial(settings_of, host_port, data_dir, project, verbosity, log_http, os.environ, config)
    named = dict.fromkeys(("host", "pubsub_port"), "--host-port") | {"ready_file": ""}
    raise click.exceptions.Exit(run_server(flags, os.environ, named=named, announce=announce))
