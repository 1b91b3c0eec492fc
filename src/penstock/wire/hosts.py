"""Names and addresses of this machine, and the Host headers that a door answers to.

A web page can point its own name at 127.0.0.1 (DNS rebinding), but it cannot choose the Host and Origin headers that
the browser sends. So a door that is bound to loopback answers only to names of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from penstock.wire.http1_message import Request

# Headers that proxies add, in addition to names with "forward" in them.
_PROXY_HEADERS = frozenset({"via", "cdn-loop"})
_ADDRESS_ENDS = ("ip", "ipv6", "-addr", "-address")  # X-Real-IP, True-Client-IP, X-Azure-ClientIP, X-Remote-Addr
_NAME_MAX = 253  # characters of a DNS name. Longer names are not cached


def is_loopback(host: str) -> bool:
    """Return whether a name or an address, without port and brackets, always means this machine."""
    return len(host) <= _NAME_MAX and _is_loopback(host)


@lru_cache(maxsize=4096)  # called for the peer of every request
def _is_loopback(host: str) -> bool:
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761: never another machine
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def host_of(header: str) -> str:
    """Return the name in a Host header, without its port and without the brackets of an IPv6 address."""
    name = header.strip().lower()
    if not name.startswith("["):
        return name.partition(":")[0].removesuffix(".")
    address, closed, port = name[1:].partition("]")
    return address if closed and port[:1] in ("", ":") else ""


def origin_host(origin: str) -> str:
    """Return the host in an Origin header, or an empty string."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def is_forwarded(header_names: Iterable[str]) -> bool:
    """Return whether a proxy passed the request on, by the lower-case names of its headers.

    A proxy on this machine lends its loopback address to every client, so such a request is not local. A proxy that
    adds no header cannot be recognised.
    """
    return any(name in _PROXY_HEADERS or "forward" in name or name.endswith(_ADDRESS_ENDS) for name in header_names)


def is_from_here(request: Request) -> bool:
    """Return whether a program on this machine sent the request: no proxy, and no page whose name points here."""
    if not is_loopback(request.peer) or is_forwarded(request.index):
        return False
    return is_loopback(host_of(request.header("host")))


class HostGuard:
    """The check of the Host header. Every Host is allowed unless the door is bound to loopback."""

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        """`names`: allowed in addition to those of this machine."""
        self._guarded = is_loopback(bound)
        self._names = {bound.lower(), *(host_of(name) for name in names)} - {""}

    def listens_at(self, addresses: Iterable[str]) -> None:
        """Set the bound addresses, because a name or a short form such as 127.1 may mean loopback too."""
        self._guarded = self._guarded or all(map(is_loopback, addresses))

    def allows(self, header: str) -> bool:
        name = host_of(header)
        return not self._guarded or name in self._names or is_loopback(name)
