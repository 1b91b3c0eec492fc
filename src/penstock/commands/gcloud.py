"""`penstock gcloud ...`: the command line of the vendor's emulator, so that scripts which start it can start Penstock.

Every flag of `gcloud beta emulators pubsub` is accepted. One that makes no difference here is ignored.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from penstock.commands.contexts import contexts_file
from penstock.commands.emulators import only_door
from penstock.commands.exits import WrongUsageError
from penstock.commands.help import print_version_instead
from penstock.commands.serve import run_server
from penstock.errors import NotFoundError

IGNORED = "Accepted; makes no difference here."
START, ENVIRONMENT = "start", "env-init"
DEFAULT_HOST, DEFAULT_PORT = "localhost", 8085
READY_FILE = "penstock-ready.json"
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "critical": "error",
    "none": "error",
}

_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]/\s]*))(?::(\d{1,5}))?")
_ANY = dict.fromkeys(("0.0.0.0", "[::]"), "127.0.0.1")  # noqa: S104 - connected to, not bound


def _version(wanted: bool) -> None:
    print_version_instead(wanted, "gcloud's Pub/Sub emulator")


def gcloud(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="[beta] emulators pubsub start, or env-init.")
    ] = None,
    *,
    host_port: Annotated[
        str | None,
        typer.Option("--host-port", metavar="HOST:PORT", help="Address to listen on: 0.0.0.0:8085, [::]:8085."),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="The store is made inside, as penstock-data. Without: memory only."
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="NAME", help="The default project.", envvar="CLOUDSDK_CORE_PROJECT"),
    ] = None,
    verbosity: Annotated[
        str | None, typer.Option("--verbosity", metavar="LEVEL", help="Of the log: debug, info, warning, error.")
    ] = None,
    log_http: Annotated[bool, typer.Option("--log-http/--no-log-http", help="Log every request.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help=IGNORED)] = False,
    user_output: Annotated[bool, typer.Option("--user-output-enabled/--no-user-output-enabled", help=IGNORED)] = True,
    access_token_file: Annotated[str | None, typer.Option("--access-token-file", help=IGNORED)] = None,
    account: Annotated[str | None, typer.Option("--account", help=IGNORED)] = None,
    billing_project: Annotated[str | None, typer.Option("--billing-project", help=IGNORED)] = None,
    configuration: Annotated[str | None, typer.Option("--configuration", help=IGNORED)] = None,
    flags_file: Annotated[str | None, typer.Option("--flags-file", help="Not supported.")] = None,
    flatten: Annotated[str | None, typer.Option("--flatten", help=IGNORED)] = None,
    format: Annotated[str | None, typer.Option("--format", help=IGNORED)] = None,  # noqa: A002 - named by the flag
    impersonate: Annotated[str | None, typer.Option("--impersonate-service-account", help=IGNORED)] = None,
    trace_token: Annotated[str | None, typer.Option("--trace-token", help=IGNORED)] = None,
    version: Annotated[
        bool, typer.Option("-v", "--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Serve Pub/Sub alone, with the command line of gcloud's emulator.

    start serves until it is stopped; env-init prints what to put into a shell.

      penstock gcloud beta emulators pubsub start --project=test --host-port=0.0.0.0:8085
    """
    verb = verb_of(words or [])
    if flags_file is not None:
        raise WrongUsageError("--flags-file is not supported; give the flags themselves")
    if verb == ENVIRONMENT:
        print("\n".join(exports(data_dir, project, os.environ)))
        return
    flags = partial(settings_of, host_port, data_dir, project, verbosity, log_http, os.environ)
    named = dict.fromkeys(("host", "pubsub_port"), "--host-port") | {"ready_file": ""}
    raise typer.Exit(run_server(flags, os.environ, named=named, announce=announce))


# What is not known to typer is told apart here, so that another command of gcloud's is not called a wrong flag.
cast(Any, gcloud).command_options = {"context_settings": {"ignore_unknown_options": True}}


def verb_of(words: Sequence[str]) -> str:
    flags = [word for word in words if word.startswith("-")]
    plain = [word for word in words if word not in flags]
    path = plain[1:] if plain[:1] in (["alpha"], ["beta"]) else plain
    if path[:2] != ["emulators", "pubsub"] or path[2:3] not in ([START], [ENVIRONMENT]):
        other = f", and not: {' '.join(['gcloud', *plain])}" if plain else ""
        raise WrongUsageError(
            f"This gcloud is Penstock's: it knows gcloud [beta] emulators pubsub start and env-init{other}"
        )
    if flags:
        raise WrongUsageError(f"gcloud emulators pubsub {path[2]} has no flag {flags[0].partition('=')[0]}")
    if path[3:]:
        raise WrongUsageError(f"gcloud emulators pubsub {path[2]} takes flags, not {path[3]!r}")
    return path[2]


def settings_of(
    host_port: str | None,
    data_dir: str | None,
    project: str | None,
    verbosity: str | None,
    log_http: bool,
    environment: Mapping[str, str],
) -> dict[str, object]:
    """The settings that the flags stand for. WrongUsageError says what is wrong with one."""
    host, port = split_address(host_port or "")
    if verbosity is not None and verbosity not in LEVELS:
        raise WrongUsageError(f"--verbosity: expected one of {', '.join(LEVELS)}, not {verbosity!r}")
    if project is not None and not re.fullmatch(r"[^\s/]+", project):
        raise WrongUsageError(f"--project: expected a project name without slashes and spaces, not {project!r}")
    store: dict[str, object] = {"data": str(Path(data_dir) / "penstock-data")} if data_dir else {"memory": True}
    return {
        **only_door("pubsub", environment),
        **store,
        "host": host,
        "pubsub_port": port,
        "default_project": project,
        "log_level": LEVELS[verbosity] if verbosity else None,
        "log_requests": log_http or None,
        "ready_file": _ready_file(data_dir, environment, make=True),
    }


def split_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[ADDRESS]:PORT`, or one of the two alone."""
    found = _ADDRESS.fullmatch(f":{text}" if text.isdigit() else text)
    port = int(found[3] or DEFAULT_PORT) if found else -1
    if found is None or not 0 <= port < 65536:
        raise WrongUsageError(f"--host-port: expected HOST:PORT, such as 0.0.0.0:8085 or [::1]:8085, not {text!r}")
    return found[1] or found[2] or DEFAULT_HOST, port


def announce(addresses: Mapping[str, str]) -> None:
    """What the emulator says, and what programs that start it wait for. It says it on standard error."""
    port = addresses["pubsub"].rpartition(":")[2]
    lines = "This is Penstock, in place of the Pub/Sub emulator.", f"INFO: Server started, listening on {port}"
    print("\n".join(f"[pubsub] {line}" for line in lines), file=sys.stderr, flush=True)


def exports(data_dir: str | None, project: str | None, environment: Mapping[str, str]) -> list[str]:
    """What to put into a shell for the emulator that runs."""
    file = _ready_file(data_dir, environment, make=False) or ""
    try:
        address = str(json.loads(Path(file).read_text(encoding="utf-8"))["pubsub"])
    except (OSError, ValueError, TypeError, KeyError):
        place = f" with --data-dir {data_dir}" if data_dir else ""
        raise NotFoundError(f"No emulator runs that was started{place}; start it first") from None
    host, _, port = address.rpartition(":")
    found = {"PUBSUB_EMULATOR_HOST": f"{_ANY.get(host, host)}:{port}"} | (
        {"PUBSUB_PROJECT_ID": project} if project else {}
    )
    return [f"export {name}={shlex.quote(value)}" for name, value in found.items()]


def _ready_file(data_dir: str | None, environment: Mapping[str, str], *, make: bool) -> str | None:
    """Where start says its address, for env-init; None if there is no place to write to."""
    if named := environment.get("PENSTOCK_READY_FILE"):
        return named
    if data_dir:
        return str(Path(data_dir) / READY_FILE)
    folder = contexts_file(environment).parent
    with suppress(OSError):
        if make:
            folder.mkdir(parents=True, exist_ok=True)
    return str(folder / READY_FILE) if os.access(folder, os.W_OK if make else os.R_OK) else None
