"""A small HTTP/1.1 server for every door that speaks HTTP: one coroutine per request, one timer for all deadlines.

    server = HttpServer(answer, limits=Limits(body_bytes_max=96 << 10), log=log)
    host, port = await server.start("127.0.0.1", 0)
    await server.stop(grace_seconds=5)

The rule kept here: a peer can only ever harm its own connection. Limits hold before memory is taken, deadlines are
absolute, and nothing about an unexpected failure reaches the peer but its status.
"""

from __future__ import annotations

import asyncio
import logging
import ssl as tls
import time
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate

from penstock.wire.budget import Budget
from penstock.wire.connection import Answer, Connection
from penstock.wire.limits import Limits
from penstock.wire.message import Request, Response, plain_refusal

__all__ = ["Answer", "HttpServer", "Limits", "Request", "Response"]


class HttpServer:
    def __init__(
        self,
        answer: Answer,
        *,
        log: logging.Logger,
        limits: Limits | None = None,
        refusal: Callable[[int], Response] = plain_refusal,
        budget: Budget | None = None,
        counts: Counter[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`answer` gets every request; `refusal` shapes the answers it never sees (400, 408, 413, 500 ...).

        `counts`: where to count connections that are ended by us, by reason.
        """
        self.answer = answer
        self.refusal = refusal
        self.log = log
        self.limits = limits or Limits()
        self.budget = budget or Budget()
        self.clock = clock
        self.date = _http_date()
        self.stopping = False
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._none_open = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turned_away = 0  # connections over a cap since the last sweep

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int, ssl: tls.SSLContext | None = None) -> tuple[str, int]:
        """Listen; the address actually bound (port 0 takes a free one). OSError if that cannot be."""
        loop = asyncio.get_running_loop()
        limits = self.limits
        self._server = await loop.create_server(
            lambda: Connection(self),
            host,
            port,
            ssl=ssl,
            backlog=1024,
            ssl_handshake_timeout=limits.head_seconds if ssl else None,
            # A client that sleeps over a kept connection would hold up the stop for half a minute.
            ssl_shutdown_timeout=limits.linger_seconds if ssl else None,
        )
        self._tick()
        name = self._server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def stop(self, grace_seconds: float) -> None:
        """Accept nothing new, let requests in progress finish within the grace, then close what is left."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.wind_down()
        if not await self._emptied(grace_seconds):
            self.log.warning("%d HTTP connections did not finish in time and were closed", self.connections)
            await self._abort_all()
        if self._timer is not None:
            self._timer.cancel()

    def sweep(self) -> None:
        """End what is overdue. Called by the one timer; tests with their own clock call it themselves."""
        now = self.clock()
        self.date = _http_date()
        for connection in list(self._connections):
            connection.sweep(now)
        if self._turned_away:
            self.log.warning("turned away %d connections over the limit", self._turned_away)
            self._turned_away = 0

    # What a connection calls.

    def opened(self, connection: Connection) -> str:
        self._connections.add(connection)
        self._per_address[connection.peer] += 1
        self._none_open.clear()
        if len(self._connections) > self.limits.connections_max:
            return self._turn_away("too_many_connections")
        if self._per_address[connection.peer] > self.limits.connections_per_address_max:
            return self._turn_away("too_many_connections_of_address")
        return ""

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._per_address[connection.peer] -= 1
        if self._per_address[connection.peer] <= 0:
            del self._per_address[connection.peer]
        if not self._connections:
            self._none_open.set()

    def count(self, reason: str) -> None:
        self.counts[reason] += 1

    def _turn_away(self, reason: str) -> str:
        self.counts[reason] += 1
        self._turned_away += 1
        return reason

    def _tick(self) -> None:
        self.sweep()
        self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._tick)

    async def _emptied(self, grace_seconds: float) -> bool:
        if not self._connections:
            return True
        try:
            await asyncio.wait_for(self._none_open.wait(), grace_seconds)
        except TimeoutError:
            return False
        return True

    async def _abort_all(self) -> None:
        work = [connection.work for connection in self._connections if connection.work is not None]
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*work, return_exceptions=True)
        await self._emptied(1)


def _http_date() -> str:
    return formatdate(time.time(), usegmt=True)
