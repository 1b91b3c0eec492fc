"""The duration of a publish at the Pub/Sub door while other clients export, list and scrape.

Run as `python -m benchmarks neighbours [--quick]`. One client publishes a message of 256 B and waits for its answer, in
turn at the server and at an idle control server, so that other load of the machine affects both. The loads are 10
readers of the stream of a deep topic, and, on a server with 100,000 topics and as many subscriptions, four programs
that request lists and metrics repeatedly. The clients of a load have the lowest priority.
"""

from __future__ import annotations

import asyncio
import http.client
import multiprocessing
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from benchmarks.google import PUBLISHER
from penstock.assembly import SERVER_LIMITS, open_journal
from penstock.broker.model import Draft
from penstock.doors.google import messages as m
from penstock.engine.async_queue import AsyncMessageQueue
from tests.server_process import ServerProcess

SIZE = 256
EXPORTS = 10
ASKED = (
    "/admin/v1/topics",
    "/admin/v1/subscriptions",
    "/admin/v1/topics?sort=-rate&page_size=10",
    "/metrics",
)
TOPIC = "projects/penstock/topics/deep"


class Latencies(NamedTuple):
    p50: float  # seconds
    p99: float
    publishes: int


def main(quick: bool) -> None:
    messages, topics, seconds = (20_000, 5_000, 4.0) if quick else (200_000, 100_000, 30.0)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        asyncio.run(fill(folder / "few", messages, 0))
        asyncio.run(fill(folder / "many", 0, topics))
        few, many, idle = (stack.enter_context(serve(folder / each)) for each in ("few", "many", "idle"))
        print(f"  {'publishing 1 message of 256 B':<44} {'server p50 / p99':>20} {'control p50 / p99':>20}")
        for label, server, load in (
            ("no load", few, None),
            (f"{EXPORTS} exports of {messages:,} messages", few, export),
            ("no load", few, None),
            (f"no load, {topics:,} topics and subscriptions", many, None),
            ("listed and scraped by 4 clients", many, ask),
            (f"no load, {topics:,} topics and subscriptions", many, None),
        ):
            with loaded(server, load) as count:
                server_latencies, control = measure(server, idle, seconds)
                rate = f"  {count() / seconds:,.0f} a second by the load" if load is not None else ""
            print(f"  {label:<44} {shown(server_latencies):>20} {shown(control):>20}{rate}")


def shown(latencies: Latencies) -> str:
    return f"{latencies.p50 * 1e3:.2f} / {latencies.p99 * 1e3:.1f} ms"


async def fill(folder: Path, messages: int, topics: int) -> None:
    """Create the store of a server."""
    queue = AsyncMessageQueue(open_journal(folder), limits=SERVER_LIMITS)
    await queue.start()
    await queue.create_topic(TOPIC)
    await queue.create_subscription("projects/penstock/subscriptions/deep", TOPIC)  # so that all messages are kept
    for _ in range(messages // 1000):
        await queue.publish(TOPIC, [Draft(b"x" * SIZE, {"a": "b"})] * 1000)
    for first in range(0, topics, 1000):
        names = [f"{each:06}" for each in range(first, min(topics, first + 1000))]
        await asyncio.gather(*[queue.create_topic(f"projects/penstock/topics/{name}") for name in names])
        await asyncio.gather(
            *[
                queue.create_subscription(f"projects/penstock/subscriptions/{name}", f"projects/penstock/topics/{name}")
                for name in names
            ]
        )
    await queue.close()


@contextmanager
def serve(folder: Path) -> Iterator[ServerProcess]:
    folder.mkdir(exist_ok=True)
    with ServerProcess(folder, f"--data={folder}", doors=("http", "pubsub")) as server:
        yield server


# ---------------------------------------------------------------------- the publisher


class Publisher:
    def __init__(self, server: ServerProcess) -> None:
        self._channel = grpc.insecure_channel(server.addresses["pubsub"])
        name = f"projects/penstock/topics/busy-{time.time_ns()}"
        self._channel.unary_unary(f"{PUBLISHER}CreateTopic")(m.Topic(name=name).SerializeToString())
        request = m.PublishRequest(topic=name, messages=[m.PubsubMessage(data=b"x" * SIZE)])
        self._body = request.SerializeToString()
        self._publish = self._channel.unary_unary(f"{PUBLISHER}Publish")
        self.seconds: list[float] = []

    def publish(self) -> None:
        began = time.perf_counter()
        self._publish(self._body)
        self.seconds.append(time.perf_counter() - began)

    def close(self) -> Latencies:
        self._channel.close()
        ordered = sorted(self.seconds)
        return Latencies(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], len(ordered))


def measure(server: ServerProcess, control: ServerProcess, seconds: float) -> tuple[Latencies, Latencies]:
    publishers = Publisher(server), Publisher(control)
    for _ in range(100):
        for publisher in publishers:
            publisher.publish()
    for publisher in publishers:
        publisher.seconds.clear()
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for publisher in publishers:
            publisher.publish()
    return publishers[0].close(), publishers[1].close()


# ---------------------------------------------------------------------- the loads


Load = Callable[[tuple[str, int], Any], None]


@contextmanager
def loaded(server: ServerProcess, load: Load | None) -> Iterator[Callable[[], int]]:
    """Run a load in a process of its own. The value is the number of messages or answers that it got so far."""
    context = multiprocessing.get_context("spawn")
    count = context.Value("q", 0)
    if load is None:
        yield lambda: 0
        return
    process = context.Process(target=_run, args=(load, server.place("http"), count), daemon=True)
    process.start()
    time.sleep(1)
    before = count.value
    try:
        yield lambda: count.value - before
        assert process.is_alive(), "the load failed"
    finally:
        process.kill()
        process.join()


def _run(load: Load, place: tuple[str, int], count: Any) -> None:
    os.nice(19)
    load(place, count)


def _in_threads(work: Callable[[Any], None], items: list[Any]) -> None:
    threads = [threading.Thread(target=work, args=(each,)) for each in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def export(place: tuple[str, int], count: Any) -> None:
    def read(_: int) -> None:
        while True:
            with socket.create_connection(place) as opened:
                path = "/admin/v1/topics/deep/stream"
                opened.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                while data := opened.recv(1 << 18):
                    with count.get_lock():
                        count.value += data.count(b'"offset"')

    _in_threads(read, list(range(EXPORTS)))


def ask(place: tuple[str, int], count: Any) -> None:
    def repeat(path: str) -> None:
        connection = http.client.HTTPConnection(*place, timeout=60)
        while True:
            connection.request("GET", path, headers={"Host": "localhost"})
            response = connection.getresponse()
            response.read()
            assert response.status == 200, path
            with count.get_lock():
                count.value += 1

    _in_threads(repeat, list(ASKED))
