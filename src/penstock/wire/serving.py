"""The connections of a door: where it listens, how many there may be, their deadlines, and how they all end.

    connections = Connections(log=log, counts=counts)
    host, port = await connections.listen(lambda: Protocol(connections), "127.0.0.1", 0)
    await connections.stop(grace_seconds=5)

One timer serves all deadlines of a door, there is one log line a second however many peers come, and when it has
stopped no connection is left, whatever its peer does.
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
ABORT_SECONDS = 1.0  # until every aborted connection has said that it is gone
STOPPING = "stopping"


class Served(Protocol):
    """A connection, as far as its door counts it, ends it in time and closes it."""

    peer: str  # the address of the other side, without its port

    def sweep(self, now: float) -> None:
        """Look at the deadlines."""

    def wind_down(self) -> None:
        """The door stops: finish what was begun, begin nothing."""

    def abort(self) -> None: ...


class Connections:
    def __init__(
        self,
        *,
        log: logging.Logger,
        counts: Counter[str],
        connections_max: int = 4096,
        connections_per_address_max: int = 1024,
        sweep_seconds: float = 1,
        linger_seconds: float = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`counts`: what the door publishes; connections turned away or ended by us are counted there, by reason."""
        self.counts = counts
        self.clock = clock
        self.now = clock()  # of the last sweep, for deadlines that need no better
        self.stopping = False
        self.on_sweep: list[Callable[[], None]] = []
        self.addresses: list[str] = []  # bound, without their ports
        self._log = log
        self._max = connections_max
        self._per_address_max = connections_per_address_max
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
        """The address actually bound (port 0 takes a free one). OSError if that cannot be."""
        server = await asyncio.get_running_loop().create_server(
            make,
            **_place(host, port),
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if tls else None,
            # A client that sleeps over its connection would hold up the stop for the whole grace.
            ssl_shutdown_timeout=self._linger_seconds if tls else None,
        )
        self._begin(server)
        names = [each.getsockname() for each in server.sockets]
        self.addresses += [str(name[0]) for name in names]
        return self.addresses[0], int(names[0][1])

    async def listen_on_unix(self, make: Callable[[], asyncio.Protocol], bound: socket.socket) -> None:
        self._begin(await asyncio.get_running_loop().create_unix_server(make, sock=bound, backlog=BACKLOG))

    def _begin(self, server: asyncio.Server) -> None:
        self._servers.append(server)
        if self._timer is None:
            self._tick()

    def wind_down(self) -> None:
        """Accept nothing new, and let every connection finish what was begun."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for connection in self:
            connection.wind_down()

    async def stop(self, grace_seconds: float) -> list[Served]:
        """Wind down, and abort what has not finished within the grace: the answer is what was aborted."""
        if not self.stopping:
            self.wind_down()
        left: list[Served] = []
        if not await self._emptied(grace_seconds):
            left = list(self)
            self._log.warning("closed, because they did not finish in time: %s", counted(len(left), "connection"))
            for connection in left:
                connection.abort()
            await self._emptied(ABORT_SECONDS)
        if self._timer is not None:
            self._timer.cancel()
        return left

    async def _emptied(self, seconds: float) -> bool:
        if self._open:
            self._none_open.clear()
            try:
                await asyncio.wait_for(self._none_open.wait(), seconds)
            except TimeoutError:
                return False
        return True

    # ------------------------------------------------------------------ deadlines

    def sweep(self) -> None:
        """End what is overdue. Called by the timer; tests with their own clock call it themselves."""
        self.now = now = self.clock()
        for connection in self:
            connection.sweep(now)
        if self._turned_away:
            self._log.warning("turned away %s over the limit", counted(self._turned_away, "connection"))
            self._turned_away = 0
        for call in self.on_sweep:
            call()

    def _tick(self) -> None:
        self.sweep()
        self._timer = asyncio.get_running_loop().call_later(self._sweep_seconds, self._tick)

    # ------------------------------------------------------------------ what a connection calls

    def add(self, connection: Served) -> str:
        """Count a connection in; why it has to go, or nothing. It counts until it is removed, even if it has to go."""
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
        self._turned_away += 1
        return reason

    def remove(self, connection: Served) -> None:
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._per_address[connection.peer] -= 1
        if not self._per_address[connection.peer]:
            del self._per_address[connection.peer]
        if not self._open:
            self._none_open.set()

    def count(self, reason: str) -> None:
        """Something was refused or ended by us, for this reason."""
        self.counts[reason] += 1


def endpoint_of(transport: asyncio.BaseTransport | None) -> str:
    """The same with its port, as tools of the operating system show it."""
    name = transport.get_extra_info("peername") if transport is not None else None
    if not isinstance(name, tuple):
        return ""
    return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"


def _place(host: str, port: int) -> dict[str, Any]:
    """`::` is every address of this machine, those of IPv4 as well; asyncio alone would leave them out."""
    if host != "::":
        return {"host": host, "port": port}
    if not socket.has_dualstack_ipv6():
        return {"host": "0.0.0.0", "port": port}  # noqa: S104 - every address was asked for
    return {"sock": socket.create_server((host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)}


def address_of(transport: asyncio.BaseTransport) -> str:
    """The address of the other side, without its port; empty if it has none (a Unix socket)."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""
