"""The URLs and addresses that push may send to.

Push sends only over https and to public addresses, unless the operator allowed the network of the address. A name is
resolved once. Every address is checked, after unwrapping IPv4 addresses embedded in IPv6, and the connection goes to a
checked address. So a name that resolves differently the second time gains nothing (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from penstock.doors.google.errors import CallError, invalid

URL_BYTES_MAX = 2048
Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
# Networks in IANA's special-purpose registries that are not globally reachable. The list is our own, because
# `is_global` differs between Python versions. IPv6 assigns only 2000::/3 as global unicast, so special networks
# outside it (64:ff9b:1::/48, 100::/64, 5f00::/16, fc00::/7, fe80::/10, ff00::/8) need no row.
_GLOBAL_UNICAST = ip_network("2000::/3")
_NOT_GLOBAL = [
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",
        "2001::/23",  # protocol assignments
        "2001:db8::/32",
        "3fff::/20",  # documentation
    )
]


class DeniedError(Exception):
    """The operator did not allow requests to this address."""


class Target(NamedTuple):
    secure: bool
    host: str
    port: int
    path: str  # with the query

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.secure else 80) else f"{name}:{self.port}"


async def resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


class Endpoints:
    def __init__(self, allowed: Iterable[str], own_ports: Collection[int], resolver: Resolve = resolve) -> None:
        """`allowed`: networks in CIDR notation that may be reached, also over plain http."""
        self._allowed = [ip_network(network, strict=False) for network in allowed]
        self._own_ports = own_ports
        self._resolve = resolver

    def check(self, url: str) -> None:
        """Raise CallError if a new endpoint can never be used."""
        target = parse(url)
        try:
            literal = ip_address("127.0.0.1" if target.host == "localhost" else target.host)
        except ValueError:
            return  # a name is resolved and checked at each use, because its addresses may change
        try:
            self._check_address(literal, target)
        except DeniedError as error:
            raise _unsupported_error(f"{error}; see the setting push_allow") from None

    async def addresses(self, target: Target) -> list[str]:
        """Return the addresses to connect to. Raise DeniedError if one is not allowed, OSError if there are none."""
        addresses = await self._resolve(target.host, target.port)
        for text in addresses:
            self._check_address(ip_address(text.partition("%")[0]), target)
        return list(dict.fromkeys(addresses))

    def _check_address(self, address: Address, target: Target) -> None:
        bare = unwrap(address)
        if any(bare in network for network in self._allowed):
            if bare.is_loopback and target.port in self._own_ports:
                raise DeniedError("this server does not push to itself")
            return
        if not target.secure:
            raise DeniedError("only https is allowed")
        if not is_global(bare):
            raise DeniedError("this address is not allowed")


def is_global(address: Address) -> bool:
    """Return whether an unwrapped address is reachable on the public internet."""
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return not any(address in network for network in _NOT_GLOBAL)


def unwrap(address: Address) -> Address:
    """Return the IPv4 address that is embedded in an IPv6 address, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def parse(url: str) -> Target:
    """Split the URL of an endpoint. Raise CallError if it is invalid."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise _unsupported_error("it is not a URL") from None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.password:
        raise _unsupported_error("it is not an http or https URL")
    if (
        len(url) > URL_BYTES_MAX
        or not url.isascii()
        or any(character <= " " or character == "\x7f" for character in url)
    ):
        raise _unsupported_error("it is too long or has invalid characters")
    secure = parts.scheme == "https"
    query = f"?{parts.query}" if parts.query else ""
    return Target(secure, host, port or (443 if secure else 80), (parts.path or "/") + query)


def _unsupported_error(why: str) -> CallError:
    return invalid(f"Unsupported push_endpoint: {why}.")
