"""Listening in place of the reader process until the first client comes, and handing clients over to it.

Connections that come before the reader process listens are kept and then joined to it, byte by byte, in threads of
their own; later ones reach it directly.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

BACKLOG = 128
PIECE_BYTES = 1 << 18


class Handover:
    def __init__(self, family: int, host: str, port: int) -> None:
        """Listens from now on; OSError if the port is taken."""
        self._family, self._host = family, host
        self._listener = bound_socket(family, host, port)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._waiting: list[socket.socket] = []
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
            for pair in ((client, service), (service, client)):
                threading.Thread(target=_copy, args=pair, name="penstock-handover", daemon=True).start()

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


def _copy(source: socket.socket, target: socket.socket) -> None:
    """All that comes from one side to the other, and its end."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
