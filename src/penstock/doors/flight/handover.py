"""The handover of clients to the reader process: until it listens, the server accepts connections in its place.

These connections are then joined to the reader process, byte by byte, in threads. Later connections reach it directly.
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
        """Begin to listen. Raise OSError if the port is taken."""
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
        """Accept the connections that wait, and leave the port to the reader process."""
        with suppress(OSError):  # no connection waits, or the listener is closed already
            while True:
                self._waiting.append(self._listener.accept()[0])
        self._listener.close()

    def hand_over(self) -> None:
        """Join every waiting connection to the reader process, which listens now."""
        host = self._host
        if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = "::1" if self._family == socket.AF_INET6 else "127.0.0.1"
        waiting, self._waiting = self._waiting, []
        for client in waiting:
            try:
                service = socket.create_connection((host, self.port), timeout=5)
            except OSError:  # the reader process has ended meanwhile, and the client tries again
                client.close()
                continue
            for connection in (client, service):
                connection.setblocking(True)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._joined.append(_start(_join, client, service))

    def finish(self, seconds: float) -> None:
        """Wait until clients have the last answers of the reader process, which has ended."""
        until = time.monotonic() + max(seconds, 2 * CLOSE_SECONDS)
        for connection in self._joined:
            connection.join(max(until - time.monotonic(), 0))

    def close(self) -> None:
        self._listener.close()
        for connection in self._waiting:
            connection.close()


def bound_socket(family: int, host: str, port: int) -> socket.socket:
    """Return a socket bound to a port. Raise OSError if the port is taken."""
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
    """Copy requests one way and answers the other, until all answers are copied and the client has closed.

    Unread bytes of the client would turn the end of this process into a reset, and the client could lose the last
    answer.
    """
    with client, service:
        requests = _start(_copy, client, service)
        _copy(service, client)
        requests.join(CLOSE_SECONDS)
        with suppress(OSError):  # do not wait for a client that stays connected
            client.shutdown(socket.SHUT_RDWR)
        requests.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy all bytes and the end of the stream. Drop bytes that the target no longer accepts."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        while source.recv(PIECE_BYTES):
            pass
