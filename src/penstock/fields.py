"""Settings: fields of frozen dataclasses, with types that know how values are read.

    port: Port = setting(8090, "Health and metrics.")

A value is text (from flags and the environment) or typed (from files). The ValueError of a reader names the expected
value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Kind(NamedTuple):
    metavar: str  # placeholder of the value in help and tables, with the unit
    read: Callable[[object], Any]
    choices: tuple[str, ...] = ()


def setting(default: T, help: str, *, secret: bool = False, name: str = "") -> T:  # noqa: A002 - as in click
    """Return a field that is a setting. A `secret` is never shown. `name` replaces section_field as the flat name."""
    made: T = field(default=default, repr=not secret, metadata={"help": help, "secret": secret, "name": name})
    return made


def one_of(*choices: str) -> Kind:
    def read(value: object) -> str:
        word = str(value).lower()
        if word not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return word

    return Kind("|".join(choices), read, choices)


def _whole(value: object, expected: str = "a whole number, 0 or more") -> int:
    text = str(value).strip()
    if isinstance(value, bool | float) or not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ValueError(expected)
    return int(text)


def _port(value: object) -> int | None:
    expected = 'a port from 0 to 65535 or "off"'
    port = None if value == "off" else _whole(value, expected)
    if port is not None and port > 65535:
        raise ValueError(expected)
    return port


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
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    word = str(value).lower()
    if word not in words:
        raise ValueError("true or false")
    return words[word]


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


def _projects(value: object) -> tuple[str, ...]:
    expected = "ACCOUNT=PROJECT, each account once"
    pairs = [name.partition("=") for name in _names(value)]
    if not all(account and is_ for account, is_, _ in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
        raise ValueError(expected)
    return tuple(f"{account.strip()}={_project(project)}" for account, _, project in pairs)


def _networks(value: object) -> tuple[str, ...]:
    from ipaddress import ip_network

    try:
        return tuple(str(ip_network(name, strict=False)) for name in _names(value))
    except ValueError:
        raise ValueError("a list of networks such as 127.0.0.0/8") from None


Host: TypeAlias = Annotated[str, Kind("HOST", _text)]
Project: TypeAlias = Annotated[str, Kind("PROJECT", _project)]
Folder: TypeAlias = Annotated[str, Kind("DIR", _text)]
OptionalFolder: TypeAlias = Annotated[str | None, Kind("DIR", _text)]
File: TypeAlias = Annotated[str | None, Kind("FILE", _text)]
Accounts: TypeAlias = Annotated[str | None, Kind("ACCOUNTS", _text)]
Hosts: TypeAlias = Annotated[tuple[str, ...], Kind("HOST", _names)]
Origins: TypeAlias = Annotated[tuple[str, ...], Kind("ORIGIN", _names)]
Tokens: TypeAlias = Annotated[tuple[str, ...], Kind("TOKEN", _names)]
Projects: TypeAlias = Annotated[tuple[str, ...], Kind("ACCOUNT=PROJECT", _projects)]
Networks: TypeAlias = Annotated[tuple[str, ...], Kind("NETWORK", _networks)]
Switch: TypeAlias = Annotated[bool, Kind("true|false", _switch)]
Port: TypeAlias = Annotated[int | None, Kind("PORT|off", _port)]  # 0: any free port; None: closed
Count: TypeAlias = Annotated[int, Kind("N", _whole)]
Bytes: TypeAlias = Annotated[int, Kind("BYTES", _whole)]
Seconds: TypeAlias = Annotated[float, Kind("SECONDS", _seconds)]
