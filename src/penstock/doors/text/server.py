"""The server of the text protocol: it listens at a port and at a Unix socket, and counts and logs faults of clients.

The number of log lines is bounded. After a stop no connection, no lease and no socket file is left.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections import Counter
from collections.abc import Sequence

from penstock.doors.consumers import Consumer
from penstock.doors.port import join_address
from penstock.doors.resources import parts_of
from penstock.doors.text.connection import TextConnection
from penstock.doors.text.options import TextOptions
from penstock.doors.text.queues import Queues
from penstock.doors.text.request_log import LoggedConnection
from penstock.doors.text.requests import is_queue_name, maxima
from penstock.doors.text.sockets import claim_unix_path, make_room_for, release_unix_path
from penstock.engine.port import Queue, SubscriptionMetadata
from penstock.errors import UnavailableError, where
from penstock.wire.budget import Budget
from penstock.wire.request_log import RequestLog
from penstock.wire.serving import Connections, Served
from penstock.wire.trust import server_context
from penstock.wording import counted

FAULTS_LOGGED_PER_SWEEP = 10
USUAL_ADDRESS = "127.0.0.1:9123"  # the default of our client


class TextDoor:
    name = "text"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        queue: Queue,
        project: str,
        log: logging.Logger,
        options: TextOptions | None = None,
        budget: Budget | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        self.address = ""
        self.limits = options = options or TextOptions()
        self.budget = budget or Budget()
        self.maxima = maxima(options.message_bytes_max)
        self.queues = Queues(queue, project, options, log)
        self._project = project
        self.counts: Counter[str] = Counter()  # of connections, and of faults by code
        self.acknowledge = queue.ack_delivered
        self._host, self._port = host, port
        self._unix_path: str | None = None  # set while the server listens there
        self._tls = server_context(self.name, options.tls_cert, options.tls_key, client_ca=options.tls_client_ca)
        self._log = log
        self._requests = requests
        self._faults = 0  # since the last sweep
        self.connections = Connections(
            log=log,
            counts=self.counts,
            connections_max=self.limits.connections_max,
            connections_per_address_max=self.limits.connections_per_address_max,
            sweep_seconds=self.limits.sweep_seconds,
            linger_seconds=self.limits.linger_seconds,
        )
        self.connections.on_sweep.append(self._report_faults)

    @property
    def guarded(self) -> bool:
        return self._tls is not None and self._tls.verify_mode is ssl.CERT_REQUIRED

    @property
    def hints(self) -> Sequence[str]:
        flag = "" if self.address == USUAL_ADDRESS else f" --address {self.address}"
        lines = [f"penstock text send QUEUE{flag}"]
        return lines if self._unix_path is None else [*lines, f"unix socket {self._unix_path}"]

    def name_of(self, topic: str) -> str | None:
        project, name = parts_of(topic)
        if project != self._project and self.limits.projects:
            name = f"{name}@{project}"
        elif project != self._project:
            return None
        return name if is_queue_name(name.encode()) else None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return self.queues.consumers(subscription.name)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        make_room_for(self.limits.connections_max)
        self.address = join_address(*await self.connections.listen(self._connection, self._host, self._port, self._tls))
        if self.limits.unix_socket is not None:
            await self._listen_on(self.limits.unix_socket)

    async def _listen_on(self, path: str) -> None:
        try:
            await self.connections.listen_on_unix(self._connection, claim_unix_path(path))
            self._unix_path = path
        except OSError as error:
            await self.stop(0)
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise UnavailableError(f"it cannot listen at {path}: {reason}; --text-unix-socket names it") from error

    def _connection(self) -> TextConnection:
        return TextConnection(self) if self._requests is None else LoggedConnection(self, self._requests)

    async def stop(self, grace_seconds: float) -> None:
        """T-041: close all connections and wait until their messages were returned."""
        await self.connections.stop(grace_seconds)
        await self.queues.wait_for_returns()
        if self._unix_path is not None:
            release_unix_path(self._unix_path)

    # ------------------------------------------------------------------ what connections call

    def note_fault(self, connection: Served, code: str, sentence: str) -> None:
        """Count and log a fault of a client. The first faults of a sweep are warnings, the others debug lines."""
        self.counts[code] += 1
        self._faults += 1
        level = logging.WARNING if self._faults <= FAULTS_LOGGED_PER_SWEEP else logging.DEBUG
        self._log.log(level, "%s: %s: %s", connection.peer, code, sentence)

    def _report_faults(self) -> None:
        unlogged, self._faults = self._faults - FAULTS_LOGGED_PER_SWEEP, 0
        if unlogged > 0:
            self._log.warning("%s of text clients not logged", counted(unlogged, "more error"))

    def bug(self, error: BaseException) -> None:
        self._log.error("a text connection failed: %s", where(error))
        self._log.debug("a text connection failed", exc_info=error)
