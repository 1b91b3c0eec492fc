"""Which names and addresses mean this machine, and which Host headers a door answers to.

A page in the user's browser may point its own name at 127.0.0.1 (DNS rebinding), but it can choose neither the Host
nor the Origin that its browser sends. So a door bound to loopback answers only to names of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

# Headers that proxies add, besides every x-forwarded-*.
_PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-forwarded-for"}
    | {"true-client-ip", "cf-connecting-ip"}
)
_NAME_MAX = 253  # characters of a name in DNS; longer ones are not kept in the cache either


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without port and brackets, surely means this machine."""
    return len(host) <= _NAME_MAX and _is_loopback(host)


@lru_cache(maxsize=4096)  # asked of every request's peer
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
    """The name in a Host header, without its port and without the brackets of an IPv6 address."""
    name = header.strip().lower()
    if not name.startswith("["):
        return name.partition(":")[0].removesuffix(".")
    address, closed, port = name[1:].partition("]")
    return address if closed and port[:1] in ("", ":") else ""


def origin_host(origin: str) -> str:
    """The host in an Origin header; empty if it names none."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def is_forwarded(header_names: Iterable[str]) -> bool:
    """Return whether a proxy passed the request on, by the lower-case names of its headers.

    A proxy on this machine lends its loopback address to every client, so such a request is not local. A proxy that
    adds no header cannot be recognised.
    """
    return any(name in _PROXY_HEADERS or name.startswith("x-forwarded-") for name in header_names)


class HostGuard:
    """Answers to every Host unless the door is bound to loopback."""

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        """`names`: answered to besides those of this machine."""
        self._guarded = is_loopback(bound)
        self._names = {bound.lower(), *(host_of(name) for name in names)} - {""}

    def listens_at(self, addresses: Iterable[str]) -> None:
        """The addresses that `bound` led to: a name, or a short form like 127.1, may mean loopback as well."""
        self._guarded = self._guarded or all(map(is_loopback, addresses))

    def allows(self, header: str) -> bool:
        name = host_of(header)
        return not self._guarded or name in self._names or is_loopback(name)
