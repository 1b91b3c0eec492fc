"""Every setting of the server, in one frozen record, and where its values come from.

    flags  >  environment (PENSTOCK_HTTP_PORT=...)  >  TOML file (http_port = ...)  >  defaults

The rule kept here: a setting has one name, spelled alike in all four places, with its unit in it; a wrong value is
refused with one sentence that names the setting, where it stood and what would be right.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from penstock.errors import InvalidArgumentError

PORTS = ("pubsub_port", "azure_port", "text_port", "flight_port", "http_port")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
ENVIRONMENT_PREFIX = "PENSTOCK_"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    pubsub_port: int | None = 8085  # 0: any free port; None: the door stays closed
    azure_port: int | None = 10001
    text_port: int | None = 9123
    flight_port: int | None = 8815
    http_port: int | None = 8090
    http_allowed_hosts: tuple[str, ...] = ()  # names the HTTP door answers to besides this machine's own
    pubsub_tokens: tuple[str, ...] = ()  # bearer tokens the Pub/Sub door asks for; none: it asks for nothing
    pubsub_tls_cert: str | None = None  # PEM files; with them the Pub/Sub door speaks TLS only
    pubsub_tls_key: str | None = None
    pubsub_cors_origins: tuple[str, ...] = ()  # web pages that may call it besides this machine's own; "*": every page
    pubsub_seek_all: bool = False  # a seek reaches what the server retains, not only what subscription and topic do
    pubsub_reset: bool = False  # POST /reset forgets everything; with `memory` it always may
    push_allow: tuple[str, ...] = ()  # networks (127.0.0.0/8) that push may reach besides public ones over https
    flight_tokens: tuple[str, ...] = ()  # bearer tokens the Flight door asks for; none: it asks for nothing
    flight_tls_cert: str | None = None  # PEM files; with them the Flight door speaks TLS only
    flight_tls_key: str | None = None
    azure_accounts: str | None = None  # name:key1[:key2];other:key. None: the development account, on this machine
    azure_tls_cert: str | None = None  # PEM files; with them the Azure door speaks TLS only
    azure_tls_key: str | None = None
    azure_oauth: str = "off"  # basic: bearer tokens are taken at their word, over TLS
    azure_dialect: bool = True  # the paths of the specification, /queue/{account}/...
    azure_receipt_errors: str = "azurite"  # for an old pop receipt. azurite: 400, azure: 404
    azure_poison_after: int = 0  # deliveries before a message moves to the -poison queue; 0: never
    azure_poll_seconds: float = 0  # how long an empty get waits for a message; 0: not at all
    azure_message_bytes_max: int = 65536
    azure_keep_alive_seconds: float = 60
    default_project: str = "penstock"  # where queues of doors without projects live
    text_unix_socket: str | None = None  # a path where the text door listens as well
    text_tls_cert: str | None = None  # PEM files; with them the text door speaks TLS only
    text_tls_key: str | None = None
    text_tls_client_ca: str | None = None  # only clients whose certificate this one signed
    text_message_bytes_max: int = 10 << 20
    text_window_max: int = 10_000  # messages of a queue outstanding on a connection
    text_connections_max: int = 16_384
    text_connections_per_address_max: int = 12_288
    text_frame_seconds: float = 30  # from the first byte of a message to its last
    text_idle_seconds: float = 600  # without a byte from a client that consumes nothing; 0: for ever
    text_write_seconds: float = 30  # in which a client reads nothing of what waits for it
    data: str = "./penstock-data"
    memory: bool = False  # keep nothing on disk; `data` is then not used
    accept_loss: bool = False  # open a store that lost its last commits, and go on without them
    ready_file: str | None = None  # written once every door answers, removed at exit
    retention_seconds: float = 86400  # of acked messages, per topic; 0: keep none
    retention_bytes: int = 0  # of acked messages, per topic; 0: no cap
    queue_messages_max: int = 0  # waiting per subscription, then publishes are refused; 0: no limit
    queue_bytes_max: int = 0
    buffer_bytes_max: int = 256 << 20  # of requests being read and answers not taken, all doors together; 0: no limit
    log_level: str = "info"
    log_format: str = "text"
    grace_seconds: float = 10  # for requests in progress when the server stops

    def port_of(self, door: str) -> int | None:
        """The port a door was given, by the door's name."""
        port: int | None = getattr(self, f"{door}_port", None)
        return port


class Source(NamedTuple):
    """One place settings come from, and how a setting is spelled there."""

    values: Mapping[str, object]
    spell: Callable[[str], str]


def load_settings(
    *, flags: Mapping[str, object], environment: Mapping[str, str], config: Mapping[str, object] | None = None
) -> Settings:
    """The settings in force. A flag that is None was not given. InvalidArgumentError names what is wrong."""
    sources = [
        Source(config or {}, lambda name: f"{name} in the settings file"),
        Source(_from_environment(environment), lambda name: ENVIRONMENT_PREFIX + name.upper()),
        Source({name: value for name, value in flags.items() if value is not None}, _flag),
    ]
    values: dict[str, Any] = {}
    for source in sources:
        _merge(values, dict(_parsed(source)), source)
    _refuse_shared_ports(values)
    return Settings(**values)


def read_config(path: str) -> dict[str, object]:
    """The content of a settings file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the settings file {path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not even text
        raise InvalidArgumentError(f"the settings file {path} is not valid TOML: {error}") from error


def installed_version() -> str:
    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "0+source"


def _flag(name: str) -> str:
    # The one setting that is a list is given one flag per name.
    name = "http_allowed_host" if name == "http_allowed_hosts" else name
    return f"--{name.replace('_', '-')}"


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    spelled = {ENVIRONMENT_PREFIX + name.upper(): name for name in PARSERS}
    return {spelled[variable]: text for variable, text in environment.items() if variable in spelled}


def _parsed(source: Source) -> Iterator[tuple[str, Any]]:
    for name, value in source.values.items():
        if name not in PARSERS:
            raise InvalidArgumentError(f"{source.spell(name)}: there is no such setting")
        try:
            yield name, PARSERS[name](value)
        except ValueError as error:
            given = "" if name in SECRETS else f", not {_shown(value)}"
            raise InvalidArgumentError(f"{source.spell(name)}: expected {error}{given}") from error


def _merge(values: dict[str, Any], new: dict[str, Any], source: Source) -> None:
    """Lay one source over the lesser ones. A folder and memory exclude each other, and the last word counts."""
    if "data" in new and new.get("memory"):
        raise InvalidArgumentError(f"{source.spell('data')} and {source.spell('memory')} exclude each other")
    if "data" in new:
        values["memory"] = False
    values.update(new)


def _refuse_shared_ports(values: Mapping[str, Any]) -> None:
    taken: dict[int, str] = {}
    for name in PORTS:
        port = values[name] if name in values else getattr(Settings(), name)
        if port and port in taken:
            raise InvalidArgumentError(f"{taken[port]} and {name} are both {port}; two doors need two ports")
        taken[port or 0] = name


def _shown(value: object) -> str:
    return repr(value)[:60]


# One parser per setting, for text (flags, environment) and typed values (files); a ValueError says what was expected.


def _port(value: object) -> int | None:
    if value == "off":
        return None
    port = _whole(value, 'a port from 0 to 65535 or "off"')
    if port > 65535:
        raise ValueError('a port from 0 to 65535 or "off"')
    return port


def _whole(value: object, expected: str = "a whole number, 0 or more") -> int:
    text = str(value).strip()
    if isinstance(value, bool | float) or not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ValueError(expected)
    return int(text)


def _seconds(value: object) -> float:
    expected = "a number of seconds, 0 or more"
    try:
        seconds = float(str(value))
    except ValueError:
        raise ValueError(expected) from None
    if isinstance(value, bool) or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(expected)
    return seconds


def _switch(value: object) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    word = str(value).lower()
    if word not in known:
        raise ValueError("true or false")
    return known[word]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("some text")
    return value.strip()


def _project(value: object) -> str:
    text = _text(value)
    if "/" in text or " " in text:
        raise ValueError("a project name without slashes and spaces")
    return text


def _names(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError("a list of names, or one text with commas")
    return tuple(_text(name) for name in names)


def _networks(value: object) -> tuple[str, ...]:
    expected = "a list of networks such as 127.0.0.0/8"
    try:
        return tuple(str(ip_network(name, strict=False)) for name in _names(value))
    except ValueError:
        raise ValueError(expected) from None


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        word = str(value).lower()
        if word not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return word

    return parse


SECRETS = {"pubsub_tokens", "flight_tokens", "azure_accounts"}  # never repeated, whatever is wrong with them

PARSERS: dict[str, Callable[[object], Any]] = {
    "host": _text,
    **dict.fromkeys(PORTS, _port),
    "http_allowed_hosts": _names,
    "pubsub_tokens": _names,
    "pubsub_tls_cert": _text,
    "pubsub_tls_key": _text,
    "pubsub_cors_origins": _names,
    "pubsub_seek_all": _switch,
    "pubsub_reset": _switch,
    "push_allow": _networks,
    "flight_tokens": _names,
    "flight_tls_cert": _text,
    "flight_tls_key": _text,
    "azure_accounts": _text,
    "azure_tls_cert": _text,
    "azure_tls_key": _text,
    "azure_oauth": _one_of(("off", "basic")),
    "azure_dialect": _switch,
    "azure_receipt_errors": _one_of(("azurite", "azure")),
    "azure_poison_after": _whole,
    "azure_poll_seconds": _seconds,
    "azure_message_bytes_max": _whole,
    "azure_keep_alive_seconds": _seconds,
    "default_project": _project,
    "text_unix_socket": _text,
    "text_tls_cert": _text,
    "text_tls_key": _text,
    "text_tls_client_ca": _text,
    "text_message_bytes_max": _whole,
    "text_window_max": _whole,
    "text_connections_max": _whole,
    "text_connections_per_address_max": _whole,
    "text_frame_seconds": _seconds,
    "text_idle_seconds": _seconds,
    "text_write_seconds": _seconds,
    "data": _text,
    "memory": _switch,
    "accept_loss": _switch,
    "ready_file": _text,
    "retention_seconds": _seconds,
    "retention_bytes": _whole,
    "queue_messages_max": _whole,
    "queue_bytes_max": _whole,
    "buffer_bytes_max": _whole,
    "log_level": _one_of(LOG_LEVELS),
    "log_format": _one_of(LOG_FORMATS),
    "grace_seconds": _seconds,
}
