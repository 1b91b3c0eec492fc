"""Which Host headers a door on the loopback interface answers to.

The rule kept here: a page in the user's browser may point its own name at 127.0.0.1 (DNS rebinding), but it cannot
choose the Host its browser sends. A door that only this machine can reach answers only to this machine's names.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a Host header, without its port and without the brackets of an IPv6 address."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


class HostList:
    """The names allowed for a door bound to `bound`; beyond the loopback interface every name is."""

    def __init__(self, bound: str, configured: Iterable[str]) -> None:
        self._guarded = is_loopback(bound)
        self._names = {bound.lower(), *(host_of(name) for name in configured)}

    def allows(self, header: str) -> bool:
        name = host_of(header)
        return not self._guarded or name in self._names or is_loopback(name)
