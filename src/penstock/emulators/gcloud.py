"""The Pub/Sub emulator of gcloud: its command line, the lines that it prints, and its environment variables."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.emulators.variables import only_door
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.terminal import tell

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


def verb_of(words: Sequence[str]) -> str:
    flags = [word for word in words if word.startswith("-")]
    plain = [word for word in words if word not in flags]
    path = plain[1:] if plain[:1] in (["alpha"], ["beta"]) else plain
    if path[:2] != ["emulators", "pubsub"] or path[2:3] not in ([START], [ENVIRONMENT]):
        other = f", not {' '.join(['gcloud', *plain])}" if plain else ""
        raise InvalidArgumentError(
            f"This gcloud is part of Penstock and has only gcloud [beta] emulators pubsub start and env-init{other}"
        )
    if flags:
        raise InvalidArgumentError(f"gcloud emulators pubsub {path[2]} has no flag {flags[0].partition('=')[0]}")
    if path[3:]:
        raise InvalidArgumentError(f"gcloud emulators pubsub {path[2]} takes only flags, not {path[3]!r}")
    return path[2]


def settings_of(
    host_port: str | None,
    data_dir: str | None,
    project: str | None,
    verbosity: str | None,
    log_http: bool,
    environment: Mapping[str, str],
    config: Path,
) -> dict[str, object]:
    """Return the settings for the flags. The ready file is in `config` unless there is a data folder."""
    host, port = split_address(host_port or "")
    if verbosity is not None and verbosity not in LEVELS:
        raise InvalidArgumentError(f"--verbosity: expected one of {', '.join(LEVELS)}, not {verbosity!r}")
    if project is not None and not re.fullmatch(r"[^\s/]+", project):
        raise InvalidArgumentError(f"--project: expected a project name without slashes and spaces, not {project!r}")
    store: dict[str, object] = {"data": str(Path(data_dir) / "penstock-data")} if data_dir else {"memory": True}
    return {
        **only_door("pubsub", environment),
        **store,
        "host": host,
        "pubsub_port": port,
        "default_project": project,
        "log_level": LEVELS[verbosity] if verbosity else None,
        "log_requests": log_http or None,
        "ready_file": _ready_file(data_dir, environment, config, make=True),
    }


def split_address(text: str) -> tuple[str, int]:
    """Read `HOST:PORT`, `[ADDRESS]:PORT`, a host or a port."""
    match = _ADDRESS.fullmatch(f":{text}" if text.isdigit() else text)
    port = int(match[3] or DEFAULT_PORT) if match else -1
    if match is None or not 0 <= port < 65536:
        raise InvalidArgumentError(f"--host-port: expected HOST:PORT, such as 0.0.0.0:8085 or [::1]:8085, not {text!r}")
    return match[1] or match[2] or DEFAULT_HOST, port


def announce(addresses: Mapping[str, str]) -> None:
    """Print the lines of the emulator that scripts wait for, on standard error like the emulator."""
    port = addresses["pubsub"].rpartition(":")[2]
    lines = "This is Penstock, in place of the Pub/Sub emulator.", f"INFO: Server started, listening on {port}"
    tell("\n".join(f"[pubsub] {line}" for line in lines), file=sys.stderr, keep="\n")


def exports(data_dir: str | None, project: str | None, environment: Mapping[str, str], config: Path) -> list[str]:
    """Return the shell commands that point clients to the running emulator."""
    file = _ready_file(data_dir, environment, config, make=False) or ""
    try:
        address = str(json.loads(Path(file).read_text(encoding="utf-8"))["pubsub"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        started = f" that was started with --data-dir {data_dir}" if data_dir else ""
        raise NotFoundError(f"No running emulator{started}. Start it first") from None
    host, _, port = address.rpartition(":")
    variables = {"PUBSUB_EMULATOR_HOST": f"{_ANY.get(host, host)}:{port}"} | (
        {"PUBSUB_PROJECT_ID": project} if project else {}
    )
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def _ready_file(data_dir: str | None, environment: Mapping[str, str], config: Path, *, make: bool) -> str | None:
    """Return the file in which start writes its addresses for env-init, or None if it cannot be written."""
    if named := environment.get("PENSTOCK_READY_FILE"):
        return named
    if data_dir:
        return str(Path(data_dir) / READY_FILE)
    with suppress(OSError):
        if make:
            config.mkdir(parents=True, exist_ok=True)
    return str(config / READY_FILE) if os.access(config, os.W_OK if make else os.R_OK) else None
