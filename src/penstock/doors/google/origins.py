"""Web pages and this door: whose scripts may call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.wire.hosts import HostGuard, is_loopback, origin_host
from penstock.wire.http1 import Request

_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class Origins:
    def __init__(self, bound: str, origins: Iterable[str]) -> None:
        """`origins`: allowed besides this machine's own; "*" allows every page."""
        self.hosts = HostGuard(bound)
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def refusal(self, request: Request) -> str:
        """Why a request may not be; empty if it may."""
        if not self.hosts.allows(request.header("host")):
            return "This server does not answer to that Host."
        origin = request.header("origin")
        if origin and not self._allows(origin):
            return "Pages of that origin may not call this server; see the setting pubsub_cors_origins."
        return ""

    def headers(self, request: Request) -> Sequence[tuple[str, str]]:
        origin = request.header("origin")
        if not origin or not self._allows(origin):
            return ()
        wanted = request.header("access-control-request-headers") or "*"
        return (
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Methods", _METHODS),
            ("Access-Control-Allow-Headers", wanted),
            ("Access-Control-Max-Age", "86400"),
            ("Vary", "Origin"),
        )

    def _allows(self, origin: str) -> bool:
        return "*" in self._origins or origin.lower() in self._origins or is_loopback(origin_host(origin))
