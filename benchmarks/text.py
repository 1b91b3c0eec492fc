"""The text door: pipelined confirmed sends, and consume + acknowledge, on one connection and on eight.

Run as `python -m benchmarks text [--quick]`. Peers, if they are installed: beanstalkd in memory and with fsync at every
write, and Redis Streams with appendfsync always. All run in the same run, one after the other, with similar clients
(benchmarks/text_clients.py), and each connection has a queue of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.gauge import Lap, row
from benchmarks.text_clients import BeanstalkClient, LoadClient, RedisClient, TextClient

CLOSED = [part for door in ("pubsub", "azure", "flight", "http") for part in (f"--{door}-port", "off")]
MAKERS: dict[str, Callable[[int, str], LoadClient]] = {
    "text": TextClient,
    "beanstalk": BeanstalkClient,
    "redis": RedisClient,
}


class Server(NamedTuple):
    pid: int
    port: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Contender(NamedTuple):
    label: str
    program: str  # empty for Penstock
    protocol: str
    command: Callable[[Path, int], list[str]]


CONTENDERS = [
    Contender("penstock, fsync", "", "text", lambda folder, port: _penstock(folder, "--data", str(folder / "data"))),
    Contender("penstock, memory", "", "text", lambda folder, port: _penstock(folder, "--memory")),
    Contender(
        "beanstalkd, memory", "beanstalkd", "beanstalk", lambda folder, port: ["-l", "127.0.0.1", "-p", str(port)]
    ),
    Contender(
        "beanstalkd, fsync every write",
        "beanstalkd",
        "beanstalk",
        lambda folder, port: ["-l", "127.0.0.1", "-p", str(port), "-b", str(folder), "-f", "0"],
    ),
    Contender(
        "redis streams, fsync always",
        "redis-server",
        "redis",
        lambda folder, port: [
            *("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "always"),
        ],
    ),
]


def main(quick: bool) -> None:
    messages, rounds = (8_000, 1) if quick else (32_000, 5)
    for connections in (1, 8):
        print(f"{connections} connection(s), 256 B, window 100, {messages:,} messages, median of {rounds}")
        laps: dict[str, list[tuple[Lap, Lap]]] = {}
        for _ in range(rounds):  # in turn, so that other load of the machine affects all of them
            for contender in installed():
                laps.setdefault(contender.label, []).append(measure(contender, connections, messages))
        for place, work in enumerate(("send", "consume+ack")):
            ours = middle([each[place] for each in laps[CONTENDERS[0].label]])
            for label, pairs in laps.items():
                mine = [each[place] for each in pairs]
                spread = f"  {min(lap.rate for lap in mine):,.0f} to {max(lap.rate for lap in mine):,.0f}"
                base = ours if label != CONTENDERS[0].label else None
                print(row(f"{work}: {label}", middle(mine), base) + spread)


def middle(laps: list[Lap]) -> Lap:
    return sorted(laps, key=lambda lap: lap.rate)[len(laps) // 2]


def installed() -> list[Contender]:
    absent = [each for each in CONTENDERS if each.program and shutil.which(each.program) is None]
    for each in absent:
        print(f"  {each.label}: {each.program} is not installed, left out")
    return [each for each in CONTENDERS if each not in absent]


def measure(contender: Contender, connections: int, messages: int) -> tuple[Lap, Lap]:
    with tempfile.TemporaryDirectory() as name, running(contender, Path(name)) as server:
        return load(server, contender.protocol, connections, messages)


@contextmanager
def running(contender: Contender, folder: Path) -> Iterator[Server]:
    port = free_port()
    arguments = contender.command(folder, port)
    command = [contender.program, *arguments] if contender.program else arguments
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Server(process.pid, wait_for(process, port, folder))
    finally:
        process.terminate()
        process.wait(30)


def wait_for(process: subprocess.Popen[bytes], port: int, folder: Path) -> int:
    """Return the port once the server answers there."""
    ready, until = folder / "ready.json", time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        if ready.exists():
            return int(json.loads(ready.read_text())["text"].rpartition(":")[2])
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return port
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"{process.args!r} did not start")


def load(server: Server, protocol: str, connections: int, messages: int) -> tuple[Lap, Lap]:
    """Run every connection in a process of its own. A barrier lets all begin at once."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(connections + 1)
    share = messages // connections // 100 * 100
    clients = [
        context.Process(target=client, args=(protocol, server.port, f"bench-{number}", share, barrier))
        for number in range(connections)
    ]
    for each in clients:
        each.start()
    marks = []
    for _ in range(3):
        barrier.wait(120)
        marks.append((time.perf_counter(), server.cpu_seconds()))
    for each in clients:
        each.join(30)
        assert each.exitcode == 0, "a client failed"
    (t0, c0), (t1, c1), (t2, c2) = marks
    return Lap(share * connections, t1 - t0, c1 - c0), Lap(share * connections, t2 - t1, c2 - c1)


def client(protocol: str, port: int, name: str, messages: int, barrier: multiprocessing.synchronize.Barrier) -> None:
    made = MAKERS[protocol](port, name)
    made.send(100)  # the warm-up is not measured
    barrier.wait(120)
    made.send(messages)
    barrier.wait(120)
    made.take(messages)
    barrier.wait(120)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _penstock(folder: Path, *store: str) -> list[str]:
    ready = ["--ready-file", str(folder / "ready.json")]
    return [sys.executable, "-m", "penstock", "serve", "--text-port", "0", *CLOSED, *ready, *store]
