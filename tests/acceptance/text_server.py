"""A real server process with nothing open but its text door, and a client made of nothing but `socket`.

The rule kept here: ports are free ones, waiting is for what is waited for, and a process is stopped by its id.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

SECONDS = 30.0  # only a failing test waits so long
OTHERS = ("pubsub", "azure", "flight", "http")


class TextServer:
    def __init__(self, process: subprocess.Popen[str], ready_file: Path) -> None:
        self.process = process
        assert process.stdout is not None
        watch = threading.Timer(SECONDS, process.kill)
        watch.start()
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("Ready."):
                    break
        finally:
            watch.cancel()
        assert ready_file.exists(), said
        self.ready: dict[str, Any] = json.loads(ready_file.read_text())
        host, _, port = str(self.ready["text"]).rpartition(":")
        self.address = (host, int(port))

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)


@contextmanager
def serve(
    folder: Path, *arguments: str, settings: dict[str, str] | None = None, others: tuple[str, ...] = ()
) -> Iterator[TextServer]:
    """A server with its text door and the `others`, on free ports, until the end of the block."""
    ready_file = folder / f"ready-{os.urandom(4).hex()}.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    ports = [part for door in OTHERS for part in (f"--{door}-port", "0" if door in others else "off")]
    flags = ["--text-port", "0", *ports, "--ready-file", str(ready_file), *arguments]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", *flags],
        stdout=subprocess.PIPE,
        text=True,
        env=environment | {f"PENSTOCK_{name.upper()}": value for name, value in (settings or {}).items()},
    )
    try:
        yield TextServer(process, ready_file)
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


class Plug:
    """A client with a socket and the document beside it; it knows no code of Penstock."""

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
        """The type of the next message and its packages; EOFError when there is no next message."""
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
        """Confirmations."""
        ids = []
        for _ in range(count):
            kind, packages = self.hear()
            assert kind == 5, (kind, packages)
            ids.append(packages[3])
        return ids

    def hear_messages(self, count: int) -> list[tuple[bytes, bytes]]:
        """Dispatches, as contents and ids."""
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
