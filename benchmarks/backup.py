"""A backup of a busy queue: the duration of publishes during the backup, and its speed.

Run as `python -m benchmarks backup [--quick]`. The peer is the same load without a backup, in turns of the same length:
on the queue alone in this process, then by clients of the Google door on a server.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
import time
from itertools import chain
from pathlib import Path
from typing import Self

import grpc

from benchmarks.gauge import mebibytes
from benchmarks.google import penstock
from penstock.admin.client import Client
from penstock.assembly import SERVER_LIMITS, back_up, open_journal, restore
from penstock.broker.model import Draft
from penstock.doors.google import messages as m
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.port import BackupReport

BODY = b"x" * 256
BATCH, PUBLISHERS = 20, 8


class Load:
    """A thread that publishes and consumes as fast as it can, and records the duration of each publish."""

    def __init__(self, queue: AsyncMessageQueue, wal: Path) -> None:
        self._queue, self._wal = queue, wal
        self.times: list[float] = []
        self.wal_bytes = 0

    async def publish(self) -> None:
        while True:
            began = time.perf_counter()
            await self._queue.publish("t", [Draft(BODY)] * BATCH)
            self.times.append(time.perf_counter() - began)
            self.wal_bytes = max(self.wal_bytes, self._wal.stat().st_size)

    async def consume(self) -> None:
        while True:
            deliveries = await self._queue.pull("s", 1000, wait_seconds=1)
            await self._queue.ack([delivery.receipt for delivery in deliveries])

    def take(self) -> list[float]:
        times, self.times = self.times, []
        return times


async def fill(queue: AsyncMessageQueue, size: int) -> None:
    await queue.create_topic("kept")
    await queue.create_subscription("kept", "kept")
    for _ in range(size // (len(BODY) * 500)):
        await queue.publish("kept", [Draft(BODY)] * 500)


class Rounds:
    """Durations of publishes without a backup and during one, for each round."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._without: list[list[float]] = []
        self._during: list[list[float]] = []

    def add(self, without: list[float], during: list[float]) -> None:
        self._without.append(sorted(without))
        self._during.append(sorted(during))

    def show(self) -> None:
        without, during = (sorted(chain.from_iterable(times)) for times in (self._without, self._during))
        print(f"  {self._label}, publish of {BATCH}, without  {shown(without)}")
        print(f"  {self._label}, publish of {BATCH}, during   {shown(during)}")
        ratios = [at(busy, 0.99) / at(quiet, 0.99) for quiet, busy in zip(self._without, self._during, strict=True)]
        print(
            f"  p99 during / without: {at(during, 0.99) / at(without, 0.99):.2f}; "
            f"by round {', '.join(f'{each:.2f}' for each in ratios)}; median {sorted(ratios)[len(ratios) // 2]:.2f}"
        )


async def measure(folder: Path, size: int, rounds: int) -> None:
    """Measure the queue alone, in this process."""
    queue = AsyncMessageQueue(open_journal(folder / "data"), limits=SERVER_LIMITS)
    await queue.start()
    await fill(queue, size)
    await queue.create_topic("t")
    await queue.create_subscription("s", "t")
    load = Load(queue, folder / "data" / "penstock.db-wal")
    tasks = [asyncio.create_task(load.publish()) for _ in range(PUBLISHERS)]
    tasks.append(asyncio.create_task(load.consume()))
    await asyncio.sleep(1)
    found = Rounds("queue alone")
    for number in range(rounds):
        load.take()
        began = time.perf_counter()
        for kind in ("whole", "incremental"):
            report = await copied(queue, folder / f"backup-{number}")
            took = time.perf_counter() - began
            print(f"  {kind:<12} {mebibytes(report.copied_bytes):>10} in {took:.2f} s, checked")
        during = load.take()
        await asyncio.sleep(took)
        found.add(load.take(), during)
    found.show()
    print(f"  write-ahead log at most {mebibytes(load.wal_bytes)}")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await queue.close()


async def copied(queue: AsyncMessageQueue, folder: Path) -> BackupReport:
    *_, report = [news async for news in queue.backup(str(folder))]
    assert isinstance(report, BackupReport), "the last item is the report"
    return report


# ---------------------------------------------------------------------- through a door


class Publishers:
    """Clients of the Google door, each in a thread that waits for every answer."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        messages = [m.PubsubMessage(data=BODY)] * BATCH
        self._request = m.PublishRequest(topic=topic, messages=messages).SerializeToString()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._publish) for _ in range(PUBLISHERS)]
        self.times: list[float] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _publish(self) -> None:
        with grpc.insecure_channel(self._address) as channel:
            publish = channel.unary_unary("/google.pubsub.v1.Publisher/Publish")
            while not self._stop.is_set():
                began = time.perf_counter()
                publish(self._request)
                self.times.append(time.perf_counter() - began)

    def take(self) -> list[float]:
        times, self.times = self.times, []
        return times


def measure_door(folder: Path, rounds: int) -> None:
    """Measure a server in its own process, with the store that the queue alone has filled."""
    found = Rounds("Google door")
    with penstock(
        "penstock", folder, "--data", str(folder / "data"), "--http-port", "0", "--retention-seconds", "0"
    ) as server:
        addresses = json.loads((folder / "ready.json").read_text())
        with Client(addresses["http"]) as client:
            # without consumers, so that the store does not grow while it is copied
            client.post("/topics", {"name": "door"})
            with Publishers(server.address, "projects/penstock/topics/door") as load:
                time.sleep(1)
                for number in range(rounds):
                    load.take()
                    began = time.perf_counter()
                    *_, last = client.stream("/backup", body={"folder": str(folder / f"door-{number}")})
                    took = time.perf_counter() - began
                    during = load.take()
                    print(f"  whole        {mebibytes(last['backup']['copied_bytes']):>10} in {took:.2f} s, checked")
                    time.sleep(took)
                    found.add(load.take(), during)
                    shutil.rmtree(folder / f"door-{number}")
    found.show()


def at(ordered: list[float], share: float) -> float:
    return ordered[int(len(ordered) * share)]


def shown(ordered: list[float]) -> str:
    places = [f"{name} {at(ordered, share) * 1e3:6.2f} ms" for name, share in PLACES.items()]
    return f"{'  '.join(places)}  max {ordered[-1] * 1e3:6.1f} ms  of {len(ordered):,}"


PLACES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def main(quick: bool) -> None:
    rounds = 2 if quick else 6
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        asyncio.run(measure(folder, (64 if quick else 256) << 20, rounds))
        began = time.perf_counter()
        again = back_up(folder / "data", folder / "closed", lambda _: None)
        print(f"  closed store {mebibytes(again.copied_bytes)} in {time.perf_counter() - began:.2f} s")
        began = time.perf_counter()
        restore(folder / "closed", folder / "restored", lambda _: None)
        print(f"  restored in {time.perf_counter() - began:.2f} s")
        measure_door(folder, rounds)
