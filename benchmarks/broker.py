"""The broker alone: publish, pull, ack and the full cycle, in memory and with fsync, empty and with a deep backlog.

Run as `python -m benchmarks broker [--quick]`. The peer is a queue of rows in a SQLite table with the same fsync.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gauge import Lap, Stopwatch, mebibytes, resident_bytes, row
from benchmarks.rows_in_a_table import TableQueue
from penstock.assembly import SERVER_LIMITS, open_journal, open_queue
from penstock.broker.limits import Limits
from penstock.broker.model import Draft
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.blocking_queue import MessageQueue

BODY = b"x" * 256
BATCHES = (1, 10, 100)
SUBSCRIPTIONS = (1, 10, 1_000, 10_000)
FILTERED = (0, 1, 10, 100)
CAPPED = Limits(queue_max_messages=100_000)


def cycle(queue: MessageQueue, batch: int, rounds: int) -> dict[str, Lap]:
    """Measure publish, pull and ack in turn, with one caller that waits for each answer."""
    drafts = [Draft(BODY)] * batch
    publish, pull, ack = Stopwatch(), Stopwatch(), Stopwatch()
    for _ in range(rounds):
        with publish.running():
            queue.publish("t", drafts)
        with pull.running():
            deliveries = queue.lease("s", batch)
        with ack.running():
            settled = queue.ack_many([delivery.receipt for delivery in deliveries])
        assert len(deliveries) == batch, "every pull finds a batch"
        assert not settled.stale, "every receipt is valid"
    messages = batch * rounds
    laps = {"publish": publish.lap(messages), "pull": pull.lap(messages), "ack": ack.lap(messages)}
    total = [sum(parts) for parts in zip(*((lap.seconds, lap.cpu_seconds) for lap in laps.values()), strict=True)]
    return {**laps, "full cycle": Lap(messages, *total)}


def table_cycle(folder: Path, batch: int, rounds: int) -> Lap:
    queue, watch = TableQueue(folder / "table.db"), Stopwatch()
    with watch.running():
        for _ in range(rounds):
            queue.publish([BODY] * batch)
            queue.ack([number for number, _ in queue.pull(batch)])
    queue.close()
    return watch.lap(batch * rounds)


async def shared(folder: Path | None, batch: int, callers: int, rounds: int) -> Lap:
    """Measure many callers at once, as in a server: each publishes, pulls and acks, and they share commits."""
    queue = AsyncMessageQueue(open_journal(folder), limits=SERVER_LIMITS)
    await queue.start()
    await queue.create_topic("t")
    await queue.create_subscription("s", "t")
    drafts, watch = [Draft(BODY)] * batch, Stopwatch()

    async def caller() -> int:
        done = 0
        for _ in range(rounds):
            await queue.publish("t", drafts)
            deliveries = await queue.pull("s", batch)
            await queue.ack([delivery.receipt for delivery in deliveries])
            done += len(deliveries)
        return done

    with watch.running():
        done = sum(await asyncio.gather(*(caller() for _ in range(callers))))
    await queue.close()
    return watch.lap(done)


def prepared(folder: Path | None) -> MessageQueue:
    queue = open_queue(folder, limits=SERVER_LIMITS)
    queue.register_topic("t")
    queue.register_subscription("s", "t")
    return queue


def rates(label: str, durable: bool, scale: int) -> None:
    for batch in BATCHES:
        rounds = max(50, (20_000 if durable else 100_000) // (scale * (batch if not durable else max(batch // 3, 1))))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            queue = prepared(folder / "data" if durable else None)
            laps = cycle(queue, batch, rounds)
            queue.close()
            print(f"{label}, batches of {batch}, one caller")
            for step, lap in laps.items():
                print(row(step, lap))
            if durable:
                peer = table_cycle(folder, batch, rounds)
                print(row("peer: rows in a table, full cycle", peer))
                print(f"  {'penstock / peer':<34} {laps['full cycle'].rate / peer.rate:>11.2f}x")
        with tempfile.TemporaryDirectory() as name:
            data = Path(name) / "data" if durable else None
            lap = asyncio.run(shared(data, batch, 16, max(20, rounds // (4 if durable else 16))))
            print(row("full cycle, 16 callers", lap))


def subscribers(scale: int) -> None:
    """Measure publishing beside subscriptions without consumers. Law 6 says that they cost nothing."""
    for label, limits in (("no caps, as the server", SERVER_LIMITS), ("caps, as a bare MessageQueue", CAPPED)):
        print(f"memory, publishing one by one to a topic with many subscriptions, {label}")
        for number in SUBSCRIPTIONS:
            queue, watch = open_queue(limits=limits), Stopwatch()
            queue.register_topic("t")
            for each in range(number):
                queue.register_subscription(f"s{each}", "t")
            drafts = [Draft(BODY)]
            with watch.running():
                for _ in range(50_000 // scale):
                    queue.publish("t", drafts)
            queue.close()
            print(row(f"{number:,} subscriptions", watch.lap(50_000 // scale)))


def filters(scale: int) -> None:
    """Measure publishing beside subscriptions whose filter matches no message. Each filter is compared at most once."""
    print("memory, publishing one by one to a topic with filtered subscriptions")
    for number in FILTERED:
        queue, watch = open_queue(limits=SERVER_LIMITS), Stopwatch()
        queue.register_topic("t")
        queue.register_subscription("s", "t")
        for each in range(number):
            queue.register_subscription(f"f{each}", "t", filter='attributes.kind = "order" AND attributes:country')
        drafts = [Draft(BODY, {"kind": "note", "country": "fr"})]
        with watch.running():
            for _ in range(50_000 // scale):
                queue.publish("t", drafts)
        queue.close()
        print(row(f"{number:,} filtered subscriptions", watch.lap(50_000 // scale)))


def fill(queue: MessageQueue, messages: int, size: int) -> Lap:
    watch, drafts = Stopwatch(), [Draft(os.urandom(size)) for _ in range(1000)]
    with watch.running():
        for _ in range(messages // 1000):
            queue.publish("t", drafts)
    return watch.lap(messages)


def backlog(scale: int) -> None:
    """Measure a deep queue: speed at depth, memory, and recovery after a crash."""
    depth = 1_000_000 // scale
    rounds = 600 // scale
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        queue = prepared(data)
        cycle(queue, 100, rounds)  # to warm up
        empty = cycle(queue, 100, rounds)
        filled = fill(queue, depth, 256)
        deep = cycle(queue, 100, rounds)
        queue.close()
        print(f"SQLite with fsync, backlog of {depth:,} messages of 256 B, batches of 100")
        print(row("filling, batches of 1000", filled))
        for step in ("publish", "pull", "ack", "full cycle"):
            print(row(f"{step}, empty queue", empty[step]))
            print(row(f"{step}, at depth", deep[step]))
            print(f"  {'time at depth / empty':<34} {deep[step].seconds / empty[step].seconds:>11.2f}x")


def memory(scale: int) -> None:
    depth = 1_000_000 // scale
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.broker", "fill-and-die", str(data), str(depth)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == -signal.SIGKILL, child.stderr
        print(f"SQLite with fsync, backlog of {depth:,} messages of 1 KB")
        print(child.stdout.rstrip())
        size = sum(file.stat().st_size for file in data.iterdir())
        print(f"  {'store on disk':<34} {mebibytes(size):>12}")
        subprocess.run([sys.executable, "-m", "benchmarks.broker", "first-delivery", str(data)], check=True)


def fill_and_die(data: Path, depth: int) -> None:
    queue = prepared(data)
    cycle(queue, 100, 100)
    gc.collect()
    before = resident_bytes()
    fill(queue, depth, 1024)
    gc.collect()
    after = resident_bytes()
    print(
        f"  {'RSS before / after / growth':<34} {mebibytes(before)} / {mebibytes(after)} / {mebibytes(after - before)}"
    )
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def first_delivery(data: Path) -> None:
    started = time.perf_counter()
    queue = open_queue(data, limits=SERVER_LIMITS)
    opened = time.perf_counter()
    deliveries = queue.lease("s", 1)
    print(f"  {'after kill -9: open':<34} {opened - started:>10.3f} s")
    print(f"  {'open to first delivery':<34} {time.perf_counter() - opened:>10.3f} s")
    assert deliveries, "the backlog is there"
    os._exit(0)  # as abrupt as the crash before, because closing is not measured


def main(quick: bool = False) -> None:
    scale = 10 if quick else 1
    rates("memory", durable=False, scale=scale)
    rates("SQLite with fsync", durable=True, scale=scale)
    subscribers(scale)
    filters(scale)
    backlog(scale)
    memory(scale)


if __name__ == "__main__":
    if sys.argv[1] == "fill-and-die":
        fill_and_die(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        first_delivery(Path(sys.argv[2]))
