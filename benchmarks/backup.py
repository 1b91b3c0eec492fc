"""A backup of a busy queue: how long publishes take while it runs, and how fast it is.

Run as `python -m benchmarks backup [--quick]`. The peer is the same queue without a backup, in turns of a few seconds.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.gauge import mebibytes
from penstock.assembly import SERVER_LIMITS, back_up, open_journal, restore
from penstock.broker.model import Draft
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.port import BackupReport

BODY = b"x" * 256
BATCH, PUBLISHERS = 20, 8


class Load:
    """Publishes and consumes as fast as it can; how long each publish took."""

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


async def measure(folder: Path, size: int, turns: int, seconds: float) -> None:
    queue = AsyncMessageQueue(open_journal(folder / "data"), limits=SERVER_LIMITS)
    await queue.start()
    await fill(queue, size)
    await queue.create_topic("t")
    await queue.create_subscription("s", "t")
    load = Load(queue, folder / "data" / "penstock.db-wal")
    tasks = [asyncio.create_task(load.publish()) for _ in range(PUBLISHERS)]
    tasks.append(asyncio.create_task(load.consume()))
    await asyncio.sleep(1)
    quiet, busy = list[float](), list[float]()
    for turn in range(turns):
        load.take()
        await asyncio.sleep(seconds)
        quiet += load.take()
        began = time.perf_counter()
        for kind in ("whole", "incremental"):
            report = await copied(queue, folder / f"backup-{turn}")
            took = time.perf_counter() - began
            print(f"  {kind:<12} {mebibytes(report.copied_bytes):>10} in {took:.2f} s, checked")
            began = time.perf_counter()
        busy += load.take()
    print(f"  publish of {BATCH}, without  {shown(quiet)}")
    print(f"  publish of {BATCH}, during   {shown(busy)}")
    print(f"  write-ahead log at most {mebibytes(load.wal_bytes)}")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await queue.close()


async def copied(queue: AsyncMessageQueue, folder: Path) -> BackupReport:
    *_, report = [news async for news in queue.backup(str(folder))]
    assert isinstance(report, BackupReport), "the last is the report"
    return report


def shown(times: list[float]) -> str:
    ordered = sorted(times)
    places = [f"{name} {ordered[int(len(ordered) * share)] * 1e3:6.2f} ms" for name, share in PLACES.items()]
    return f"{'  '.join(places)}  max {ordered[-1] * 1e3:6.1f} ms  of {len(ordered):,}"


PLACES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def main(quick: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        asyncio.run(measure(folder, (64 if quick else 256) << 20, 2 if quick else 4, 2 if quick else 5))
        began = time.perf_counter()
        again = back_up(folder / "data", folder / "closed", lambda _: None)
        print(f"  closed store {mebibytes(again.copied_bytes)} in {time.perf_counter() - began:.2f} s")
        began = time.perf_counter()
        restore(folder / "closed", folder / "restored", lambda _: None)
        print(f"  restored in {time.perf_counter() - began:.2f} s")
