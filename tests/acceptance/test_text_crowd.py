"""Crowds: thousands of idle or slow clients, and their cost for other clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.acceptance.text_server import Plug, TextServer

MIB = 1 << 20


def crowd(server: TextServer, count: int, stack: ExitStack) -> list[socket.socket]:
    """Open `count` connections, from several local addresses if one has not enough ports."""
    clients = []
    for number in range(count):
        client = socket.create_connection(server.address, 30, source_address=(f"127.0.0.{1 + number // 10_000}", 0))
        stack.enter_context(client)
        clients.append(client)
    return clients


def test_idle_connections_cost_little_and_a_stop_is_quick(tmp_path: Path, rounds: Callable[[int, int], int]) -> None:
    """T-041, T-063: each client sends one message, and is answered after all others have connected."""
    count = rounds(2000, 10_000)
    with TextServer(tmp_path, "--memory") as server, ExitStack() as stack:
        with Plug(server.address) as first:
            first.send(b"q", b"1")
            first.hear_ids(1)
        clients = crowd(server, count, stack)
        ping = b"H0200102P01%033dqP02%033dx" % (1, 1)
        for client in clients:
            client.sendall(ping)
        for client in clients:
            assert client.recv(8) == b"H0200502"
        assert server.resident_bytes() < 100 * MIB
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 5


class Drip:
    """Clients that send one byte a second each, until the server closes them."""

    def __init__(self, clients: list[socket.socket]) -> None:
        self._clients = clients
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for client in clients:
            client.setblocking(False)

    def __enter__(self) -> Drip:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        frame = b"H0200102P01%033dqP02%033d" % (1, 1000) + b"x" * 1000
        for place in range(len(frame)):
            for number, client in enumerate(self._clients):
                try:
                    client.send(frame[place : place + 1])
                except OSError:
                    continue  # the server closed the connection, as it should
                if number % 20 == 0 and self._stop.wait(20 / len(self._clients)):
                    return


def batch_cost(server: TextServer, batches: int) -> float:
    """Return the CPU seconds that the server spends on a confirmed batch of one client.

    Other load of the machine is not included.
    """
    before = server.cpu_seconds()
    with Plug(server.address) as client:
        for _ in range(batches):
            client.send(b"honest", *[b"x" * 256] * 20)
            client.hear_ids(20)
    return (server.cpu_seconds() - before) / batches


def test_a_thousand_slow_clients_do_not_slow_an_honest_one(tmp_path: Path, rounds: Callable[[int, int], int]) -> None:
    """T-061: each slow client is disconnected at its time limit."""
    count, batches = rounds(500, 1000), rounds(2000, 20_000)
    with TextServer(tmp_path, "--memory", "--log-level", "error", text_frame_seconds="3") as server:
        alone = batch_cost(server, batches)
        with ExitStack() as stack:
            clients = crowd(server, count, stack)
            with Drip(clients):
                crowded = batch_cost(server, batches)
                last = clients[-1]
                last.setblocking(True)
                last.settimeout(30)
                assert last.recv(1) in (b"", b"H")
        print(f"{alone * 1e6:.0f} us CPU a batch alone, {crowded * 1e6:.0f} us beside {count} slow clients")
        assert crowded < 2 * alone
        assert server.stop() == 0


def test_consumers_with_windows_larger_than_a_block_get_a_backlog_in_order(tmp_path: Path) -> None:
    """T-014: producers keep the disk busy meanwhile."""
    backlog = [b"%05d" % number for number in range(12_000)]
    with TextServer(tmp_path) as server, ExitStack() as stack:
        consumers = [stack.enter_context(Plug(server.address, version=version)) for version in (1, 2)]
        for version in (1, 2):
            with Plug(server.address) as producer:
                producer.send(b"q%d" % version, *backlog)
                producer.hear_ids(len(backlog))
        stop = threading.Event()
        noise = threading.Thread(target=make_noise, args=(server, stop), daemon=True)
        noise.start()
        for consumer in consumers:
            consumer.consume(b"q%d" % consumer.version, 5000)
        for consumer in consumers:
            assert [content for content, _ in consumer.hear_messages(5000)] == backlog[:5000]
        stop.set()
        noise.join(10)
        assert server.stop() == 0


def make_noise(server: TextServer, stop: threading.Event) -> None:
    """Commit without a pause."""
    with Plug(server.address) as producer:
        while not stop.is_set():
            producer.send(b"noise", b"x" * 100_000)
            producer.hear_ids(1)
