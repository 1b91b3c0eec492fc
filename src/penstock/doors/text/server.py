"""The text door: it listens, counts its connections, looks at their deadlines, and closes them all.

The rule kept here: one timer for the whole door, a bounded number of log lines however many clients misbehave, and
when it has stopped nothing of it is left: no connection, no lease, no socket file.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from penstock.doors.port import join_address
from penstock.doors.text.connection import Connection
from penstock.doors.text.limits import Limits
from penstock.doors.text.queues import Queues
from penstock.doors.text.requests import maxima
from penstock.doors.text.sockets import claim_unix_path, make_room_for, release_unix_path
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import where
from penstock.wire.budget import Budget

BACKLOG = 4096
HANDSHAKE_SECONDS = 10.0
COMPLAINTS_PER_SWEEP = 10


class TextDoor:
    name = "text"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        queue: AsyncMessageQueue,
        project: str,
        log: logging.Logger,
        limits: Limits | None = None,
        unix_path: str | None = None,
        tls: ssl.SSLContext | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.address = ""
        self.limits = limits or Limits()
        self.budget = budget or Budget()
        self.maxima = maxima(self.limits.content_bytes_max)
        self.queues = Queues(queue, project, self.limits, log)
        self.counts: Counter[str] = Counter()  # of connections and of what was wrong with them, by reason
        self.now = 0.0
        self.stopping = False
        self.committed = queue.committed
        self.acknowledge = queue.decide_ack
        self._host, self._port, self._unix_path, self._tls = host, port, unix_path, tls
        self._log = log
        self._connections: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._complaints = 0  # since the last sweep
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    @property
    def guarded(self) -> bool:
        return self._tls is not None and self._tls.verify_mode is ssl.CERT_REQUIRED

    @property
    def hints(self) -> Sequence[str]:
        lines = [f"penstock text send QUEUE --address {self.address}"]
        return lines if self._unix_path is None else [*lines, f"unix socket {self._unix_path}"]

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        make_room_for(self.limits.connections_max)
        server = await loop.create_server(
            lambda: Connection(self),
            self._host,
            self._port,
            backlog=BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
            # A client that sleeps over its connection would hold up the stop for the whole grace.
            ssl_shutdown_timeout=self.limits.linger_seconds if self._tls else None,
        )
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        self.address = join_address(host, port)
        if self._unix_path is not None:
            await self._listen_at(self._unix_path)
        self._sweep()

    async def _listen_at(self, path: str) -> None:
        try:
            listening = claim_unix_path(path)
            loop = asyncio.get_running_loop()
            server = await loop.create_unix_server(lambda: Connection(self), sock=listening, backlog=BACKLOG)
            self._servers.append(server)
        except OSError:
            await self.stop(0)
            raise

    async def stop(self, grace_seconds: float) -> None:
        """T-041."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.wind_down()
        await self._emptied(grace_seconds)
        for connection in list(self._connections):
            connection.abort()
        await self._emptied(1)
        await self.queues.rest()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._unix_path is not None:
            release_unix_path(self._unix_path)

    async def _emptied(self, seconds: float) -> None:
        if self._connections:
            self._empty.clear()
            with suppress(TimeoutError):  # the caller goes on to the harder way
                await asyncio.wait_for(self._empty.wait(), seconds)

    # ------------------------------------------------------------------ what connections call

    def opened(self, connection: Connection) -> bool:
        """T-063."""
        peer, limits = connection.peer, self.limits
        crowded = len(self._connections) >= limits.connections_max
        if self.stopping or crowded or self._addresses[peer] >= limits.connections_per_address_max:
            self.complain(connection, "connections", "One connection too many.")
            return False
        self._connections.add(connection)
        self._addresses[peer] += 1
        self.counts["opened"] += 1
        return True

    def closed(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self._addresses[connection.peer] -= 1
        if not self._addresses[connection.peer]:
            del self._addresses[connection.peer]
        if not self._connections:
            self._empty.set()

    def complain(self, connection: Connection, code: str, sentence: str) -> None:
        """Count and log what a client did wrong; no log can be filled this way."""
        self.counts[code] += 1
        self._complaints += 1
        if self._complaints <= COMPLAINTS_PER_SWEEP:
            self._log.warning("%s: %s: %s", connection.peer, code, sentence)

    def bug(self, error: BaseException) -> None:
        self._log.error("a text connection failed: %s", where(error))
        self._log.debug("a text connection failed", exc_info=error)

    # ------------------------------------------------------------------ deadlines

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = now = loop.time()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.overdue()
        unsaid = self._complaints - COMPLAINTS_PER_SWEEP
        if unsaid > 0:
            self._log.warning("%d more faults of text clients", unsaid)
        self._complaints = 0
        self._sweeper = loop.call_later(self.limits.sweep_seconds, self._sweep)
