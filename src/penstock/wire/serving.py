"""The connections of a door: listening, limits, deadlines and the stop.

    connections = Connections(log=log, counts=counts)
    host, port = await connections.listen(lambda: Protocol(connections), "127.0.0.1", 0)
    await connections.stop(grace_seconds=5)

One timer serves all deadlines of a door. There is at most one log line per second for refused connections. After the
stop no connection is left, whatever its peer does.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.wording import counted

BACKLOG = 4096
HANDSHAKE_SECONDS = 10.0
ABORT_SECONDS = 1.0  # for aborted connections to close
STOPPING = "stopping"
RESERVED = "reserved"  # accepted over a limit, for a reserved path only


class Served(Protocol):
    """The interface of a connection for its door."""

    peer: str  # the address of the other side, without its port

    def sweep(self, now: float) -> None:
        """End the connection if it is overdue."""

    def wind_down(self) -> None:
        """Finish the requests that were begun, because the door stops."""

    def abort(self) -> None: ...


class Connections:
    def __init__(
        self,
        *,
        log: logging.Logger,
        counts: Counter[str],
        connections_max: int = 4096,
        connections_per_address_max: int = 1024,
        reserve: int = 0,
        sweep_seconds: float = 1,
        linger_seconds: float = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`counts`: the counters of the door, which count refused and ended connections by reason.

        `reserve`: the number of connections over the limits that are accepted as RESERVED. A new one ends the oldest.
        """
        self.counts = counts
        self.clock = clock
        self.now = clock()  # the time of the last sweep, for deadlines that need no better precision
        self.stopping = False
        self.on_sweep: list[Callable[[], None]] = []
        self.addresses: list[str] = []  # bound addresses, without ports
        self._log = log
        self._max = connections_max
        self._per_address_max = connections_per_address_max
        self._reserve = reserve
        self._reserved: dict[Served, None] = {}  # oldest first
        self._sweep_seconds = sweep_seconds
        self._linger_seconds = linger_seconds
        self._open: set[Served] = set()
        self._per_address: Counter[str] = Counter()
        self._turned_away = 0  # since the last sweep
        self._none_open = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Served]:
        return iter(list(self._open))

    # ------------------------------------------------------------------ life

    async def listen(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen, and return the bound address (port 0 takes a free port). Raise OSError if the address is taken."""
        server = await asyncio.get_running_loop().create_server(
            make,
            **_listen_options(host, port),
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if tls else None,
            # An inactive client would delay the stop for the whole grace period.
            ssl_shutdown_timeout=self._linger_seconds if tls else None,
        )
        self._begin(server)
        names = [bound.getsockname() for bound in server.sockets]
        self.addresses += [str(name[0]) for name in names]
        return self.addresses[0], int(names[0][1])

    async def listen_on_unix(self, make: Callable[[], asyncio.Protocol], bound: socket.socket) -> None:
        self._begin(await asyncio.get_running_loop().create_unix_server(make, sock=bound, backlog=BACKLOG))

    def _begin(self, server: asyncio.Server) -> None:
        self._servers.append(server)
        if self._timer is None:
            self._tick()

    def wind_down(self) -> None:
        """Accept nothing new, and let every connection finish its requests."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for connection in self:
            connection.wind_down()

    async def stop(self, grace_seconds: float) -> list[Served]:
        """Wind down, and abort the connections that do not finish within the grace period. Return the aborted ones."""
        if not self.stopping:
            self.wind_down()
        left: list[Served] = []
        if not await self._wait_until_empty(grace_seconds):
            left = list(self)
            self._log.warning("closed, because they did not finish in time: %s", counted(len(left), "connection"))
            for connection in left:
                connection.abort()
            await self._wait_until_empty(ABORT_SECONDS)
        if self._timer is not None:
            self._timer.cancel()
        return left

    async def _wait_until_empty(self, seconds: float) -> bool:
        if self._open:
            self._none_open.clear()
            try:
                await asyncio.wait_for(self._none_open.wait(), seconds)
            except TimeoutError:
                return False
        return True

    # ------------------------------------------------------------------ deadlines

    def sweep(self) -> None:
        """End overdue connections. Called by the timer, and by tests with their own clock."""
        self.now = now = self.clock()
        for connection in self:
            connection.sweep(now)
        if self._turned_away:
            self._log.warning("refused %s over the limit", counted(self._turned_away, "connection"))
            self._turned_away = 0
        for call in self.on_sweep:
            call()

    def _tick(self) -> None:
        self.sweep()
        self._timer = asyncio.get_running_loop().call_later(self._sweep_seconds, self._tick)

    # ------------------------------------------------------------------ called by connections

    def add(self, connection: Served) -> str:
        """Add a connection. Return why it must be closed, or an empty string. It counts until it is removed."""
        peer = connection.peer
        self._open.add(connection)
        self._per_address[peer] += 1
        if self.stopping:
            return STOPPING
        if len(self._open) > self._max:
            reason = "too_many_connections"
        elif self._per_address[peer] > self._per_address_max:
            reason = "too_many_connections_of_address"
        else:
            return ""
        self.counts[reason] += 1
        if self._reserve:
            self._admit_reserved(connection)
            return RESERVED
        self._turned_away += 1
        return reason

    def _admit_reserved(self, connection: Served) -> None:
        if len(self._reserved) >= self._reserve:
            oldest = next(iter(self._reserved))
            del self._reserved[oldest]
            oldest.abort()
            self._turned_away += 1
        self._reserved[connection] = None

    def remove(self, connection: Served) -> None:
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._reserved.pop(connection, None)
        self._per_address[connection.peer] -= 1
        if not self._per_address[connection.peer]:
            del self._per_address[connection.peer]
        if not self._open:
            self._none_open.set()

    def count(self, reason: str) -> None:
        """Count a request or connection that we refused or ended."""
        self.counts[reason] += 1


def endpoint_of(transport: asyncio.BaseTransport | None) -> str:
    """Return address and port of the peer, or an empty string."""
    name = transport.get_extra_info("peername") if transport is not None else None
    if not isinstance(name, tuple):
        return ""
    return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"


def _listen_options(host: str, port: int) -> dict[str, Any]:
    """Return the options of create_server. `::` includes the IPv4 addresses, which asyncio alone would leave out."""
    if host != "::":
        return {"host": host, "port": port}
    if not socket.has_dualstack_ipv6():
        return {"host": "0.0.0.0", "port": port}  # noqa: S104 - every address is wanted
    return {"sock": socket.create_server((host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)}


def address_of(transport: asyncio.BaseTransport) -> str:
    """Return the address of the peer without its port, or an empty string (a Unix socket)."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""
