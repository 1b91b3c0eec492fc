"""Listening in place of the reader process until the first client comes, and handing clients over to it.

Connections that come before the reader process listens are kept and then joined to it, byte by byte, in threads of
their own; later ones reach it directly.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

BACKLOG = 128
PIECE_BYTES = 1 << 18
CLOSE_SECONDS = 0.5


class Handover:
    def __init__(self, family: int, host: str, port: int) -> None:
        """Listens from now on; OSError if the port is taken."""
        self._family, self._host = family, host
        self._listener = bound_socket(family, host, port)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._waiting: list[socket.socket] = []
        self._joined: list[threading.Thread] = []
        self.port = int(self._listener.getsockname()[1])

    async def first_client(self) -> None:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._waiting.append(connection)

    def stop_listening(self) -> None:
        """Accept what has connected, and leave the port to the reader process."""
        with suppress(OSError):  # there is no more, or the listener is closed already
            while True:
                self._waiting.append(self._listener.accept()[0])
        self._listener.close()

    def hand_over(self) -> None:
        """The reader process listens: join it to every connection that waited."""
        host = self._host
        if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = "::1" if self._family == socket.AF_INET6 else "127.0.0.1"
        waiting, self._waiting = self._waiting, []
        for client in waiting:
            try:
                service = socket.create_connection((host, self.port), timeout=5)
            except OSError:  # it has ended meanwhile; its clients try again
                client.close()
                continue
            for connection in (client, service):
                connection.setblocking(True)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._joined.append(_start(_join, client, service))

    def finish(self, seconds: float) -> None:
        """The reader process has ended: wait until its clients have what it said last."""
        until = time.monotonic() + max(seconds, 2 * CLOSE_SECONDS)
        for connection in self._joined:
            connection.join(max(until - time.monotonic(), 0))

    def close(self) -> None:
        self._listener.close()
        for connection in self._waiting:
            connection.close()


def bound_socket(family: int, host: str, port: int) -> socket.socket:
    """OSError if the port is taken."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def _start(target: Callable[..., None], *sockets: socket.socket) -> threading.Thread:
    thread = threading.Thread(target=target, args=sockets, name="penstock-handover", daemon=True)
    thread.start()
    return thread


def _join(client: socket.socket, service: socket.socket) -> None:
    """Requests one way and answers the other, until all answers are there and the client has hung up.

    Bytes of the client that nobody read would turn the end of this process into a reset, and the last answer with it.
    """
    with client, service:
        requests = _start(_copy, client, service)
        _copy(service, client)
        requests.join(CLOSE_SECONDS)
        with suppress(OSError):  # a client that stays is not waited for
            client.shutdown(socket.SHUT_RDWR)
        requests.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """All that comes from one side to the other, and its end; what the other side no longer takes is dropped."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        while source.recv(PIECE_BYTES):
            pass
