"""The server of the Google door: gRPC over HTTP/2 and REST over HTTP/1.1 on one port.

The first bytes of a connection tell the protocol: HTTP/2 clients begin with its preface.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from penstock.doors.consumers import Consumer
from penstock.doors.google.call_log import CallLog
from penstock.doors.google.calls import Calls
from penstock.doors.google.endpoints import Endpoints
from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.http2.connection import Http2Connection
from penstock.doors.google.http2.frames import PREFACE
from penstock.doors.google.http2.limits import Http2Limits
from penstock.doors.google.http2.stream import Receiver, Stream
from penstock.doors.google.http_client import HttpClient
from penstock.doors.google.options import GoogleOptions
from penstock.doors.google.push import PUSH_HOLDER, Push, endpoint_of
from penstock.doors.google.rest import BODY_BYTES_MAX, Origins, Rest, forget_everything
from penstock.doors.google.rest_over_http2 import RestCall
from penstock.doors.google.services import HEALTH, Services, methods
from penstock.doors.google.tokens import CERTS_PATH, DISCOVERY_PATH, Tokens
from penstock.doors.port import Condition, join_address
from penstock.doors.resources import parts_of
from penstock.engine.port import Queue, SubscriptionMetadata
from penstock.errors import UnavailableError
from penstock.wire.budget import Budget
from penstock.wire.http1 import HttpLimits, HttpServer
from penstock.wire.request_log import RequestLog
from penstock.wire.serving import Connections, address_of
from penstock.wire.trust import BearerTokens, server_context

CONNECTIONS_MAX = 8192  # in total, and from one address. Their memory is charged to the budget


class GoogleDoor:
    name = "pubsub"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        queue: Queue,
        condition: Condition,
        log: logging.Logger,
        options: GoogleOptions | None = None,
        own_ports: Sequence[int] = (),  # ports of this server, which push refuses
        budget: Budget | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        options = options or GoogleOptions()
        self.address = self._second = ""
        self.limits = Http2Limits()
        self.budget = budget or Budget()
        self.log = log
        self.clock = time.monotonic
        self._host = host
        self._port = port
        self._queue = queue
        self._options = options
        self._own_ports = set(own_ports)
        self._tokens = BearerTokens(options.tokens)
        endpoints = Endpoints(options.push_allow, self._own_ports)
        tokens = Tokens(queue, queue.clock.wall)
        self._push = Push(queue, HttpClient(endpoints), tokens, log)
        self._services = Services(queue, lambda config: _check_push(config, endpoints), log)
        all_methods = methods(self._services, lambda: condition.ready)
        call_log = None if requests is None else CallLog(requests)
        self._calls = Calls(all_methods, log, self._admit, self.budget, call_log)
        self.counts = self._calls.counts
        self.connections = Connections(
            log=log,
            counts=self.counts,
            connections_max=CONNECTIONS_MAX,
            connections_per_address_max=CONNECTIONS_MAX,
            linger_seconds=self.limits.linger_seconds,
        )
        self._origins = Origins(host, options.cors_origins)
        self._rest = Rest(
            self._calls,
            self._origins,
            partial(forget_everything, queue) if options.reset else None,
            {CERTS_PATH: tokens.certs, DISCOVERY_PATH: lambda: tokens.discovery(self.url)},
            requests,
        )
        self._http1 = HttpServer(
            self._rest.answer,
            log=log,
            limits=HttpLimits(body_bytes_max=BODY_BYTES_MAX),
            refusal=self._rest.refusal,
            budget=self.budget,
            connections=self.connections,
            requests=requests,
        )

    @property
    def url(self) -> str:
        return f"{'https' if self._options.tls_cert else 'http'}://{self.address}"

    @property
    def guarded(self) -> bool:
        return bool(self._options.tokens)

    @property
    def hints(self) -> Sequence[str]:
        also = [f"also at {self._second}"] if self._second else []
        return [*also, f"export PUBSUB_EMULATOR_HOST={self.address}"]

    def name_of(self, topic: str) -> str | None:
        """Return the name of the topic itself. A topic that could not be created here can still be used."""
        return topic if parts_of(topic)[0] else None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        endpoint = endpoint_of(subscription)
        pushed = (Consumer("push", PUSH_HOLDER, endpoint),) if endpoint and not subscription.detached else ()
        return (*pushed, *self._services.consumers.of(subscription.name))

    async def start(self) -> None:
        tls = server_context(self.name, self._options.tls_cert, self._options.tls_key, protocols=["h2", "http/1.1"])
        host, port = await self.connections.listen(lambda: NewConnection(self), self._host, self._port, tls)
        self.address = join_address(host, port)
        self._origins.hosts.listens_at(self.connections.addresses)
        self._own_ports.add(port)
        if self._options.second_port is not None:
            await self._listen_also(self._options.second_port, tls)
        self._services.flow_control.follow(self._queue)
        self._push.start()

    async def _listen_also(self, port: int, tls: ssl.SSLContext | None) -> None:
        try:
            host, port = await self.connections.listen(lambda: NewConnection(self), self._host, port, tls)
        except OSError as error:
            await self.connections.stop(0)
            reason = os.strerror(error.errno or 0)
            raise UnavailableError(f"{join_address(self._host, port)}, the pubsub_second_port: {reason}") from None
        self._second = join_address(host, port)
        self._own_ports.add(port)

    async def stop(self, grace_seconds: float) -> None:
        # GOAWAY first: a client that gets it after the end of its stream would open the next stream here again.
        self.connections.wind_down()
        self._calls.end_streams()
        await self._push.stop()
        if not await self._http1.stop(grace_seconds):  # it closes the HTTP/2 connections as well
            for task in list(self._calls.tasks):
                task.cancel()

    def _admit(self, headers: dict[str, str], path: str) -> None:
        """Raise CallError if tokens are configured and the caller has none of them."""
        if not self._tokens or path.startswith(f"/{HEALTH}/"):
            return
        if not self._tokens.admit(headers.get("authorization", "").encode("latin-1", "replace")):
            raise CallError(Code.UNAUTHENTICATED, "Request had invalid authentication credentials.")

    # Called by HTTP/2 connections.

    def accept(self, stream: Stream) -> Receiver | None:
        headers = stream.head.fields
        if headers.get("content-type", "").startswith("application/grpc"):
            return self._calls.begin(stream, headers)
        return RestCall(self._rest, self._calls, stream, headers)

    def protocol(self, begins_http2: bool) -> asyncio.Protocol:
        return Http2Connection(self) if begins_http2 else self._http1.connection()


def _check_push(config: Any, endpoints: Endpoints) -> None:
    if config.push_endpoint:
        endpoints.check(config.push_endpoint)


class NewConnection(asyncio.Protocol):
    """A new connection, until its first bytes tell its protocol."""

    def __init__(self, door: GoogleDoor) -> None:
        self.peer = ""
        self._door = door
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._deadline = door.clock() + door.limits.preface_seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = address_of(transport)
        if self._door.connections.add(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) < 3 and PREFACE.startswith(self._data):
            return
        assert self._transport is not None, "data comes after the connection"
        self._door.connections.remove(self)
        protocol = self._door.protocol(begins_http2=PREFACE.startswith(self._data[: len(PREFACE)]))
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections.remove(self)

    def sweep(self, now: float) -> None:
        if now >= self._deadline:
            self.abort()

    def wind_down(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
