"""Addresses of endpoints: `host:port`, `[::1]:9123`, or `unix:path`."""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import InvalidArgumentError

DEFAULT = "127.0.0.1:9123"


class Address(NamedTuple):
    host: str
    port: int
    path: str = ""  # of a Unix socket. Host and port are then unused


def parse_address(text: str) -> Address:
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Address("", 0, text.removeprefix("unix:"))
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise InvalidArgumentError(f"An address is host:port or unix:path, not {text!r}")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
