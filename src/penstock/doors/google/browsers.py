"""Web pages and this door: whose scripts may call it.

The rule kept here: a browser says where a page came from (Origin) and which name it asked for (Host), and a page can
forge neither. Pages of this machine are welcome, as with the official emulator; others only if the operator says so.
A door that only this machine can reach answers only to this machine's names, so that no foreign name can be pointed
at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from penstock.wire.http1 import Request

_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class Browsers:
    def __init__(self, bound: str, origins: Iterable[str]) -> None:
        """`origins`: allowed besides this machine's own; "*" allows every page."""
        self._guarded = is_local(bound)
        self._bound = bound.lower()
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def refusal(self, request: Request) -> str:
        """Why a request may not be; empty if it may."""
        host = _host(f"//{request.header('host')}")
        if self._guarded and host != self._bound and not is_local(host):
            return "This server does not answer to that Host."
        origin = request.header("origin")
        if origin and not self._welcomes(origin):
            return "Pages of that origin may not call this server; see the setting pubsub_cors_origins."
        return ""

    def headers(self, request: Request) -> Sequence[tuple[str, str]]:
        origin = request.header("origin")
        if not origin or not self._welcomes(origin):
            return ()
        wanted = request.header("access-control-request-headers") or "*"
        return (
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Methods", _METHODS),
            ("Access-Control-Allow-Headers", wanted),
            ("Access-Control-Max-Age", "86400"),
            ("Vary", "Origin"),
        )

    def _welcomes(self, origin: str) -> bool:
        return "*" in self._origins or origin.lower() in self._origins or is_local(_host(origin))


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def is_local(host: str) -> bool:
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
