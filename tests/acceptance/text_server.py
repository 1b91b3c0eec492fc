"""A server process with its text door open, and a client that is only a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from tests.server_process import SECONDS, ServerProcess


class TextServer(ServerProcess):
    def __init__(self, folder: Path, *arguments: str, others: Iterable[str] = (), **settings: str) -> None:
        super().__init__(folder, *arguments, doors=["text", *others], **settings)
        self.address = self.place("text")


class Plug:
    """A client that is written from the protocol's document. It uses no code of Penstock."""

    def __init__(self, address: tuple[str, int], *, line: bool = False, version: int = 2) -> None:
        self.socket = socket.create_connection(address, SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 20)
        self.gap = b"\n" if line else b""
        self.version = version

    def __enter__(self) -> Plug:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def frame(self, kind: int, *packages: tuple[int, bytes]) -> bytes:
        parts = [b"H%02d%03d%02d" % (self.version, kind, len(packages))]
        for number, content in packages:
            parts += [b"P%02d%033d" % (number, len(content)), content]
        return b"".join(part + self.gap for part in parts)

    def send(self, queue: bytes, *contents: bytes) -> None:
        self.socket.sendall(b"".join(self.frame(1, (1, queue), (2, content)) for content in contents))

    def consume(self, queue: bytes, count: int) -> None:
        self.socket.sendall(self.frame(2, (1, queue), (4, b"%d" % count)))

    def ack(self, queue: bytes, *ids: bytes) -> None:
        self.socket.sendall(b"".join(self.frame(4, (1, queue), (3, each)) for each in ids))

    def hear(self) -> tuple[int, dict[int, bytes]]:
        """Read the next message and return its type and packages. Raise EOFError at the end of the connection."""
        gap = len(self.gap)
        header = self._read(8 + gap)
        assert header[:3] == b"H%02d" % self.version, header
        packages = {}
        for _ in range(int(header[6:8])):
            head = self._read(36 + gap)
            content = self._read(int(head[3:36]) + gap)
            packages[int(head[1:3])] = content[: len(content) - gap]
        return int(header[3:6]), packages

    def hear_ids(self, count: int) -> list[bytes]:
        """Read confirmations and return their ids."""
        ids = []
        for _ in range(count):
            kind, packages = self.hear()
            assert kind == 5, (kind, packages)
            ids.append(packages[3])
        return ids

    def hear_messages(self, count: int) -> list[tuple[bytes, bytes]]:
        """Read dispatches and return their contents and ids."""
        messages = []
        for _ in range(count):
            kind, packages = self.hear()
            assert kind == 3, (kind, packages)
            messages.append((packages[2], packages[3]))
        return messages

    def _read(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise EOFError
        return data
