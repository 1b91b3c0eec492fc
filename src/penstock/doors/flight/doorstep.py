"""Who listens before the reader process does: most servers never see a Flight client, and need none.

The rule kept here: nobody who knocks is turned away. Connections that come before the reader process answers are kept
and then joined to it, byte by byte, in threads of their own; every later one reaches it without us.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

BACKLOG = 128
PIECE_BYTES = 1 << 18


class Doorstep:
    def __init__(self, family: int, host: str, port: int) -> None:
        """Listens from now on; OSError if somebody else does, there."""
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
            self._listener.listen(BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self._family = family
        self._waiting: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])

    async def knock(self) -> None:
        """Until somebody comes."""
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._waiting.append(connection)

    def leave(self) -> None:
        """Take in who stands outside, and make room for the reader process."""
        with suppress(OSError):  # nobody is left, or we have left before
            while True:
                self._waiting.append(self._listener.accept()[0])
        self._listener.close()

    def hand_over(self, host: str) -> None:
        """The reader process listens: join it to everybody who waited."""
        waiting, self._waiting = self._waiting, []
        for client in waiting:
            try:
                service = socket.create_connection((_reachable(self._family, host), self.port), timeout=5)
            except OSError:  # it has ended meanwhile; its clients try again
                client.close()
                continue
            self._join(client, service)

    def close(self) -> None:
        self._listener.close()
        for connection in self._waiting:
            connection.close()

    @staticmethod
    def _join(client: socket.socket, service: socket.socket) -> None:
        for connection in (client, service):
            connection.setblocking(True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, target in ((client, service), (service, client)):
            threading.Thread(target=_carry, args=(source, target), name="penstock-doorstep", daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    """Everything one side says to the other; its end, too. A reader process that ends, ends the conversation."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _reachable(family: int, host: str) -> str:
    """Where to find, from here, what listens everywhere."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "::1" if family == socket.AF_INET6 else "127.0.0.1"
    return host
