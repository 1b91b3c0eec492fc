"""The Azure door: puts, and receives with deletes, over HTTP, at depth 0, 5,000 and (not --quick) 1,000,000.

Run as `python -m benchmarks azure [--quick]`. One account SAS, 8 keep-alive connections, 256 B, no SDK. The peer is
Azurite's queue in memory, in the same run, if it is installed: name its command in AZURITE_QUEUE, for example
AZURITE_QUEUE="node node_modules/azurite/dist/src/queue/main.js", or have `azurite-queue` on the PATH.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.azure_client import Connection, Load, connect
from penstock.assembly import SERVER_LIMITS, open_journal
from penstock.broker.model import Draft
from penstock.doors.resources import QUEUE_OPTIONS, subscription_name, topic_name
from penstock.engine.async_queue import AsyncMessageQueue

CONNECTIONS = 8
SIZE = 256
DEEP = "deep-queue"
PROJECT = "penstock"  # of the development account
QUIET = ["--log-level", "warning"]
ALONE = [part for door in ("pubsub", "text", "flight", "http") for part in (f"--{door}-port", "off")]


class Server(NamedTuple):
    name: str
    address: str
    pid: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Figures(NamedTuple):
    rate: float
    cpu_us: float

    def line(self, label: str, peer: Figures | None = None) -> str:
        ratio = f"  {self.rate / peer.rate:7.1f}x" if peer else ""
        return f"  {label:<44} {self.rate:>9,.0f} msg/s  {self.cpu_us:>8,.0f} us CPU/msg{ratio}"


@contextmanager
def penstock(data: Path) -> Iterator[Server]:
    ready = data.parent / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "penstock", "serve", "--data", str(data), "--azure-port", "0", *ALONE, *QUIET]
    process = subprocess.Popen([*command, "--ready-file", str(ready)], stdout=subprocess.DEVNULL, text=True)
    try:
        _wait(ready.exists, process)
        yield Server("Penstock, fsync", json.loads(ready.read_text())["azure"], process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def azurite(command: list[str]) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    flags = ["--queuePort", str(port), "--inMemoryPersistence", "--silent", "--disableTelemetry"]
    process = subprocess.Popen([*command, *flags, "--skipApiVersionCheck"], stdout=subprocess.DEVNULL)
    try:
        _wait(lambda: _answers(port), process)
        yield Server("Azurite, memory", f"127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()


def azurite_command() -> list[str] | None:
    named = os.environ.get("AZURITE_QUEUE")
    if named:
        return shlex.split(named)
    found = shutil.which("azurite-queue")
    return [found] if found else None


def _wait(condition, process: subprocess.Popen) -> None:  # type: ignore[no-untyped-def, type-arg]
    until = time.monotonic() + 30
    while not condition():
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"{process.args[0]} did not start")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


# ---------------------------------------------------------------------- measurements


async def measure(server: Server, queue: str, count: int, depth: int = 0) -> tuple[Figures, Figures]:
    """Measure puts, then receives with deletes, while `depth` more messages wait."""
    connections = await asyncio.gather(*(connect(server.address) for _ in range(CONNECTIONS)))
    load = Load(server.address, queue, SIZE)
    await load.create(connections[0])
    await load.puts(connections, min(500, count) + depth)
    await load.takes(connections, min(500, count))
    put = await _timed(server, load.puts(connections, count))
    take = await _timed(server, load.takes(connections, count))
    for connection in connections:
        connection.close()
    return put, take


async def _timed(server: Server, work) -> Figures:  # type: ignore[no-untyped-def]
    cpu, started = server.cpu_seconds(), time.perf_counter()
    count = await work
    seconds = time.perf_counter() - started
    return Figures(count / seconds, (server.cpu_seconds() - cpu) / count * 1e6)


async def fill(data: Path, messages: int) -> None:
    """Fill a deep queue without a server, because only the later load is measured."""
    queue = AsyncMessageQueue(open_journal(data), limits=SERVER_LIMITS)
    await queue.start()
    topic = topic_name(PROJECT, DEEP)
    await queue.provide_queue(topic, subscription_name(PROJECT, DEEP), QUEUE_OPTIONS)
    drafts = [Draft(b"x" * SIZE, ttl_seconds=604800)] * 1000
    for _ in range(messages // 1000):
        await queue.publish(topic, drafts)
    await queue.close()


def run(work):  # type: ignore[no-untyped-def]
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def compare(scale: int) -> None:
    command = azurite_command()
    if command is None:
        print("  Azurite is not installed (AZURITE_QUEUE, azurite-queue on the PATH): Penstock alone")
    for depth, count in ((0, 3_000), (5_000, 3_000)):
        peer: tuple[Figures, Figures] | None = None
        print(f"depth {depth:,}, {SIZE} B, {CONNECTIONS} connections")
        if command is not None:
            with azurite(command) as server:
                peer = run(measure(server, f"bench-{depth}", count // scale, depth))
            for step, figures in zip(("put", "receive + delete"), peer, strict=True):
                print(figures.line(f"{server.name}: {step}"))
        with tempfile.TemporaryDirectory() as name, penstock(Path(name) / "data") as server:
            mine = run(measure(server, f"bench-{depth}", count // scale, depth))
        for index, step in enumerate(("put", "receive + delete")):
            print(mine[index].line(f"{server.name}: {step}", peer[index] if peer else None))


def deep(scale: int) -> None:
    depth = 1_000_000 // (scale * scale)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        run(fill(data, depth))
        with penstock(data) as server:
            empty = run(measure(server, "empty-queue", 5_000 // scale))
            full = run(measure(server, DEEP, 5_000 // scale))
    print(f"depth {depth:,} against depth 0, one server")
    for step, shallow, at_depth in zip(("put", "receive + delete"), empty, full, strict=True):
        print(shallow.line(f"{step}, empty queue"))
        print(at_depth.line(f"{step}, at depth"))
        print(f"  {'CPU at depth / empty':<44} {at_depth.cpu_us / shallow.cpu_us:>9.2f}x")


def main(quick: bool = False) -> None:
    scale = 10 if quick else 1
    compare(scale)
    deep(scale)


__all__ = ["Connection", "main"]
