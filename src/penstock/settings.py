"""All settings of the server in one frozen record, and the sources of their values.

    flags  >  environment (PENSTOCK_HTTP_PORT=...)  >  TOML file (http_port = ..., or port = ... in [http])  >  defaults

A secret may also be in a file, named by a variable: PENSTOCK_HTTP_TOKENS_FILE=/run/secrets/tokens.

A setting is one field. Its names, default, help and line in docs/settings.md are made from the field. An invalid value
is refused with one sentence that names the setting as the user wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from penstock.doors.azure.options import AzureOptions
from penstock.doors.flight.options import FlightOptions
from penstock.doors.google.options import GoogleOptions
from penstock.doors.http.options import HttpOptions
from penstock.doors.text.options import TextOptions
from penstock.errors import InvalidArgumentError
from penstock.fields import (
    Bytes,
    Count,
    File,
    Folder,
    Host,
    Kind,
    OptionalFolder,
    Port,
    Project,
    Seconds,
    Switch,
    one_of,
    setting,
)

PREFIX = "PENSTOCK_"
FILE = "_FILE"  # the suffix of a variable that names a file with a secret
# Variables that are not settings of the server: the path of its settings file, and variables of its clients.
OTHER_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CONFIG", "NIGHTLY", "ADDRESS", "CONTEXT", "PROJECT", "TOKEN", "TOKEN_FILE"),
        *("TEXT_ADDRESS", "FLIGHT_ADDRESS"),
    )
)
# Kubernetes sets variables with the addresses of services in every container. Variables of a service named penstock, or
# penstock-http, begin with the prefix of our variables.
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)")
_LINK_VALUES = ("tcp://", "udp://", "sctp://")
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    host: Host = setting("127.0.0.1", "Address to listen on. 0.0.0.0 means all IPv4 addresses.")
    data: Folder = setting("./penstock-data", "Folder of the store. It is created if it does not exist.")
    memory: Switch = setting(False, "Keep messages in memory only. A restart loses them.")
    accept_loss: Switch = setting(False, "Start even if the store has lost its last commits. Their messages are gone.")
    backup_folder: OptionalFolder = setting(
        None,
        "Folder for backups. Default: clients on this machine may name any folder.",
    )
    ready_file: File = setting(None, "Write the pid and all addresses to this file, as JSON, when the server is ready.")
    ready_port: Port = setting(
        None, "Port that opens when the server is ready, for scripts that wait for an open port. It serves nothing."
    )
    seed: File = setting(
        None,
        "Create the topics, subscriptions, queues and messages of this file at the start. env reads variables such as "
        "PUBSUB_PROJECT1 instead. auto reads /etc/penstock/seed.toml or such variables, if they exist.",
    )
    default_project: Project = setting("penstock", "Project of clients that do not name a project.")
    retention_seconds: Seconds = setting(
        86400, "Time for which topics keep acked messages, for seeks and Spark. 0 means not at all."
    )
    retention_bytes: Bytes = setting(0, "Maximum size of the acked messages that a topic keeps. 0 means no limit.")
    queue_messages_max: Count = setting(
        0, "Refuse publishes while a subscription has this many unacked messages. 0 means no limit."
    )
    queue_bytes_max: Bytes = setting(
        0, "Refuse publishes while a subscription has this many bytes of unacked messages. 0 means no limit."
    )
    buffer_bytes_max: Bytes = setting(
        256 << 20,
        "Memory for requests that are being read and answers that are being sent, of all clients. 0 means no limit.",
    )
    log_level: Annotated[str, one_of("debug", "info", "warning", "error")] = setting(
        "info", "Lowest level of log messages."
    )
    log_format: Annotated[str, one_of("text", "json")] = setting(
        "text", "Format of log lines. json means one JSON object per line."
    )
    log_requests: Switch = setting(False, "Log every request: protocol, verb, resource, result, microseconds.")
    testing: Switch = setting(
        False, "Let the admin API move time and inject faults. For tests only, never with messages that matter."
    )
    grace_seconds: Seconds = setting(10, "Time for running requests to finish when the server stops.")
    # The doors, by the names of their sections.
    pubsub: GoogleOptions = field(default_factory=GoogleOptions)
    azure: AzureOptions = field(default_factory=AzureOptions)
    text: TextOptions = field(default_factory=TextOptions)
    flight: FlightOptions = field(default_factory=FlightOptions)
    http: HttpOptions = field(default_factory=HttpOptions)
    # Names of the settings that were set by a flag, a variable or the file.
    given: frozenset[str] = field(default=frozenset(), compare=False)

    def port_of(self, door: str) -> int | None:
        entry = SETTINGS.get(f"{door}_port")
        if entry is None:
            return None
        port: int | None = getattr(getattr(self, entry.section) if entry.section else self, entry.key)
        return port

    def ports(self) -> list[int]:
        return [port for door in PORTS if (port := self.port_of(door))]


class Setting(NamedTuple):
    """One setting in all its forms."""

    section: str  # "" for the server's own
    key: str
    name: str
    kind: Kind
    default: Any
    help: str
    secret: bool

    @property
    def many(self) -> bool:
        return isinstance(self.default, tuple)

    @property
    def flag(self) -> str:
        """The flag. Lists have a flag in the singular, switches that are on have a flag --no-NAME."""
        name = self.name.removesuffix("s") if self.many else self.name
        return ("--no-" if self.default is True else "--") + name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def shown(self) -> str:
        """The default as a user would write it, or "" if there is none."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if self.kind.metavar == "BYTES" and self.default >= MIB:
            return f"{self.default} ({self.default // MIB} MiB)"
        return str(self.default) if self.default not in (None, ()) else ""

    @property
    def sentences(self) -> str:
        return f"{self.help}{' Can be repeated.' if self.many else ''}"


def _settings_of(record: type, section: str = "") -> Iterator[Setting]:
    hints = get_type_hints(record, include_extras=True)
    for entry in fields(record):
        noted = entry.metadata
        if noted:
            name = noted["name"] or (f"{section}_{entry.name}" if section else entry.name)
            kind = hints[entry.name].__metadata__[0]
            yield Setting(section, entry.name, name, kind, entry.default, noted["help"], noted["secret"])
        elif not section and is_dataclass(hints[entry.name]):
            yield from _settings_of(hints[entry.name], entry.name)


SETTINGS = {entry.name: entry for entry in _settings_of(Settings)}
DOORS = tuple(dict.fromkeys(entry.section for entry in SETTINGS.values() if entry.section))
PORTS = tuple(name.removesuffix("_port") for name in SETTINGS if name.endswith("_port"))  # of doors and others


def load_settings(
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    config: Mapping[str, object] | None = None,
    named: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings from all sources. A flag that is None was not given.

    `named` maps settings to flags that the user knows by another name, for error messages.
    """
    values: dict[str, Any] = {}
    for source in (_in_file(config or {}), _in_environment(environment), _in_flags(flags, named or {})):
        _merge(values, source)
    sections: dict[str, dict[str, Any]] = {section: {} for section in ("", *DOORS)}
    for name, value in values.items():
        sections[SETTINGS[name].section][SETTINGS[name].key] = value
    records = get_type_hints(Settings)
    doors = {door: records[door](**given) for door, given in sections.items() if door}
    settings = Settings(**sections[""], **doors, given=frozenset(values))
    taken: dict[int, str] = {}
    for door in PORTS:
        port = settings.port_of(door)
        if port and port in taken:
            raise InvalidArgumentError(
                f"{taken[port]} and {door}_port are both {port}, but every port can be used only once"
            )
        taken[port or 0] = f"{door}_port"
    return settings


def stray_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable with our prefix that is not a setting.

    Such a variable does not prevent the start, because other programs may set it.
    """
    variables = {entry.variable for entry in SETTINGS.values()}
    variables |= {entry.variable + FILE for entry in SETTINGS.values() if entry.secret}
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES or _SERVICE_LINK.search(name):
            continue
        if value.startswith(_LINK_VALUES):
            if name in variables:
                yield f"{name} holds the address of a service, not a setting, and is ignored"
        elif name not in variables:
            meant = _nearest(name.removeprefix(PREFIX).lower())
            yield f"{name} is not a setting and is ignored" + (f"; did you mean {meant.variable}?" if meant else "")


def _nearest(name: str) -> Setting | None:
    from difflib import get_close_matches

    close = get_close_matches(name, SETTINGS, 1, cutoff=0.65)
    return SETTINGS[close[0]] if close else None


def read_config(path: str) -> dict[str, object]:
    """Return the content of a settings file."""
    import tomllib

    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the settings file {path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not even text
        raise InvalidArgumentError(f"the settings file {path} is not valid TOML: {error}") from error
    except RecursionError:
        raise InvalidArgumentError(f"the settings file {path} is not valid TOML: it is nested too deeply") from None


def shown_settings(settings: Settings) -> Iterator[tuple[str, Any, Any, bool, str, bool]]:
    """Yield the name, value, default, whether they differ, help, and whether the value is a path.

    Values of secrets are replaced by ***.
    """
    for entry in SETTINGS.values():
        record = getattr(settings, entry.section) if entry.section else settings
        value = getattr(record, entry.key)
        shown = "***" if entry.secret and value else "off" if entry.key == "port" and value is None else value
        is_path = entry.kind.metavar in ("DIR", "FILE")
        yield entry.name, shown, entry.default, value != entry.default, entry.sentences, is_path


class Given(NamedTuple):
    """A value from the user, and the setting as the user wrote it."""

    name: str
    value: object
    spelled: str


def _in_flags(flags: Mapping[str, object], named: Mapping[str, str]) -> Iterator[Given]:
    own = {name: entry.flag for name, entry in SETTINGS.items()}
    for name, value in flags.items():
        if value is not None:
            yield Given(name, value, named.get(name) or own.get(name, name))


def _in_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    for entry in SETTINGS.values():
        if entry.variable in environment and not environment[entry.variable].startswith(_LINK_VALUES):
            yield Given(entry.name, environment[entry.variable], entry.variable)
        if entry.secret and (secret := secret_in_file(environment, entry.variable, "," if entry.many else ";")):
            yield Given(entry.name, secret, entry.variable + FILE)


def secret_in_file(environment: Mapping[str, str], variable: str, separator: str = ";") -> str:
    """Return the lines of the file named by VARIABLE_FILE as one text, or "" if the variable is not set."""
    path = environment.get(variable + FILE)
    if not path:
        return ""
    try:
        lines = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidArgumentError(f"{variable}{FILE}: cannot read {path}: {reason}") from None
    if not lines:
        raise InvalidArgumentError(f"{variable}{FILE}: {path} is empty")
    return separator.join(lines)


def _in_file(config: Mapping[str, object]) -> Iterator[Given]:
    nested = {(entry.section, entry.key): entry.name for entry in SETTINGS.values() if entry.section}
    for name, value in config.items():
        if name not in DOORS:
            yield Given(name, value, f"{name} in the settings file")
        elif not isinstance(value, dict):
            raise InvalidArgumentError(f"{name} in the settings file: expected a table, [{name}]")
        else:
            for key, inner in value.items():
                yield Given(nested.get((name, key), f"{name}_{key}"), inner, f"{key} in [{name}] of the settings file")


def _merge(values: dict[str, Any], source: Iterator[Given]) -> None:
    """Add the values of a source, which override earlier ones. A data folder overrides an earlier `memory`."""
    new: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for given in source:
        if given.name in new:
            raise InvalidArgumentError(f"{spelled[given.name]} and {given.spelled} are the same setting")
        new[given.name], spelled[given.name] = _read(given), given.spelled
    if "data" in new and new.get("memory"):
        raise InvalidArgumentError(f"{spelled['data']} and {spelled['memory']} exclude each other")
    if "data" in new:
        values["memory"] = False
    values.update(new)


def _read(given: Given) -> Any:
    entry = SETTINGS.get(given.name)
    if entry is None:
        meant = _nearest(given.name)
        raise InvalidArgumentError(
            f"{given.spelled}: unknown setting" + (f"; did you mean {meant.name}?" if meant else "")
        )
    try:
        return entry.kind.read(given.value)
    except ValueError as error:
        shown = "" if entry.secret else f", not {repr(given.value)[:60]}"
        raise InvalidArgumentError(f"{given.spelled}: expected {error}{shown}") from error
