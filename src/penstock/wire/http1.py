"""A small HTTP/1.1 server for every door that speaks HTTP: one coroutine per request.

    server = HttpServer(answer, limits=HttpLimits(body_bytes_max=96 << 10), log=log)
    host, port = await server.start("127.0.0.1", 0)
    await server.stop(grace_seconds=5)

Limits are checked before memory is used, deadlines are absolute, and the peer learns only the status of an unexpected
failure.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate

from penstock.wire.budget import Budget
from penstock.wire.http1_connection import Answer, HttpConnection
from penstock.wire.http1_message import Request, Response, plain_refusal
from penstock.wire.http1_reader import HttpLimits
from penstock.wire.request_log import RequestLog
from penstock.wire.serving import Connections

__all__ = ["Answer", "HttpLimits", "HttpServer", "Request", "Response"]


class HttpServer:
    def __init__(
        self,
        answer: Answer,
        *,
        log: logging.Logger,
        limits: HttpLimits | None = None,
        refusal: Callable[[int], Response] = plain_refusal,
        budget: Budget | None = None,
        counts: Counter[str] | None = None,
        connections: Connections | None = None,
        requests: RequestLog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`answer` answers every request. `refusal` returns the answers to invalid input (400, 408, 413, 500 ...).

        `counts`: counters for connections that we end, by reason. `connections`: those of a door with several
        protocols. `requests`: the log for invalid requests.
        """
        self.requests = requests
        self.answer = answer
        self.refusal = refusal
        self.log = log
        self.limits = limits = limits or HttpLimits()
        self.budget = budget or Budget()
        self.clock = clock
        if connections is None:
            connections = Connections(
                log=log,
                counts=Counter() if counts is None else counts,
                connections_max=limits.connections_max,
                connections_per_address_max=limits.connections_per_address_max,
                reserve=limits.reserve,
                sweep_seconds=limits.sweep_seconds,
                linger_seconds=limits.linger_seconds,
                clock=clock,
            )
        self.connections = connections
        self.connections.on_sweep.append(self._set_date)
        self.counts = self.connections.counts
        self._set_date()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Listen, and return the bound address (port 0 takes a free port). Raise OSError if the address is taken."""
        return await self.connections.listen(self.connection, host, port, tls)

    async def stop(self, grace_seconds: float) -> bool:
        """Accept nothing new, let requests in progress finish within the grace period, then abort the rest.

        Return False if connections were aborted.
        """
        left = await self.connections.stop(grace_seconds)
        work = [
            connection.work
            for connection in left
            if isinstance(connection, HttpConnection) and connection.work is not None
        ]
        await asyncio.gather(*work, return_exceptions=True)
        return not left

    def refused(self, peer: str, status: int) -> None:
        """Count and log input that is not a valid request."""
        self.connections.count(f"status_{status}")
        self.log.debug("%s: refused an invalid request: %d", peer, status)
        if self.requests is not None:
            self.requests.write("", "", status)

    def connection(self) -> HttpConnection:
        return HttpConnection(self)

    def _set_date(self) -> None:
        self.date = formatdate(time.time(), usegmt=True)
