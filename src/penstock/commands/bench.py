"""`penstock bench`: publish and consume through the text protocol, and measure it.

The clients are the blocking clients of `penstock.text`, one thread each in one Python process. The server itself may be
faster than the figures of these clients.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import command
from penstock.commands.output import plain
from penstock.commands.parameters import WholeNumber
from penstock.commands.progress import Progress
from penstock.commands.session import Session, on_server, path_of
from penstock.commands.value_parsers import parse_size
from penstock.errors import FailedPreconditionError, PenstockError, UnavailableError
from penstock.terminal import tell

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.5  # between two checks for a Ctrl-C
STOP_SECONDS = 10.0  # for batches that were sent when the benchmark is interrupted


Note = Callable[[int], bool]  # called with a number of messages done; False means stop


class Measured(NamedTuple):
    """The result of one part of a run."""

    what: str
    messages: int
    seconds: float
    latencies: list[float]

    def row(self, size: int) -> dict[str, Any]:
        ordered = sorted(self.latencies)
        return {
            "what": self.what,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "per_second": round(self.messages / self.seconds, 1),
            "bytes_per_second": round(self.messages * size / self.seconds),
            "p50_ms": _quantile(ordered, 0.5),
            "p99_ms": _quantile(ordered, 0.99),
        }


def _quantile(ordered: list[float], part: float) -> float | None:
    return round(1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3) if ordered else None


@command()
@on_server
@click.option(
    "--messages", "-n", metavar="N", default=10000, type=WholeNumber(min=1), help="Messages to publish and consume."
)
@click.option("--size", metavar="SIZE", default="256", help="Size of each body.")
@click.option("--clients", "-c", metavar="N", default=4, type=WholeNumber(min=1, max=100), help="Client connections.")
@click.option(
    "--batch", metavar="N", default=100, type=WholeNumber(min=1, max=1000), help="Messages that a client sends at once."
)
@click.option(
    "--text-address", metavar="HOST:PORT", help="Address of the text protocol. Default: as reported by the server."
)
def bench(session: Session, *, messages: int, size: str, clients: int, batch: int, text_address: str | None) -> None:
    """Measure publishing and consuming through the text protocol.

    A temporary queue is created, and deleted at the end. A message counts as published when the server has confirmed
    that it is durable, and as consumed when its ack was sent. The latency is the time from sending a batch to the last
    answer. The clients are Python threads in one process: with more than a few, this command is the bottleneck.
    """
    body = os.urandom(parse_size(size, "--size"))
    address = text_address or _text_address(session)
    if text_address is None and session.place.project:
        raise WrongUsageError("The text protocol has only the default project. Leave out --project")
    queue = f"bench-{uuid.uuid4().hex[:12]}"
    session.client.post("/queues", {"name": queue})
    try:
        shares = [messages // clients + (number < messages % clients) for number in range(clients)]
        rows = [
            _measure("publish", shares, lambda share, note: _publish(address, queue, body, share, batch, note)),
            _measure("consume", shares, lambda share, note: _consume(address, queue, share, note)),
        ]
    finally:
        session.client.delete(path_of("queues", queue))
    _report(session, rows, len(body), clients, batch)


def _report(session: Session, rows: list[Measured], size: int, clients: int, batch: int) -> None:
    shown = [measured.row(size) for measured in rows]
    if session.output.json or not session.output.terminal:
        for row in shown:
            session.output.line(row) if session.output.json else print("\t".join(map(plain, row.values())))
        return
    durable = session.client.get("/server")["durability"]["sentence"]
    tell(f"Text protocol, {clients} clients in threads of one process, batches of {batch}, bodies of {size:,} bytes.")
    tell(durable)
    for row in shown:
        latency = f"   batch p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms" if row["p50_ms"] is not None else ""
        tell(
            f"{row['what']:<8} {row['per_second']:>12,.0f} messages/s   {row['bytes_per_second'] / 1e6:>8.1f} MB/s"
            f"   {row['messages']:,} in {row['seconds']:.2f} s{latency}"
        )


def _text_address(session: Session) -> str:
    for door in session.client.get("/server")["doors"]:
        if door["name"] == "text" and door["address"]:
            return str(door["address"])
    raise FailedPreconditionError("The text protocol of this server is closed. Give an address with --text-address")


def _measure(what: str, shares: list[int], work: Callable[[int, Note], list[float]]) -> Measured:
    """Run each share in a thread of its own, and raise the first failure.

    All threads have ended when this returns. A thread that still sent would create the deleted queue again.
    """
    total, latencies, failures = sum(shares), list[float](), list[PenstockError]()
    lock, ended = threading.Lock(), threading.Event()

    with Progress(what.capitalize(), total) as bar:

        def note(count: int) -> bool:
            with lock:
                bar.add(count)
            return not ended.is_set()

        def run(share: int, over: threading.Event) -> None:
            try:
                latencies.extend(work(share, note))
            except PenstockError as error:
                failures.append(error)
                ended.set()
            finally:
                over.set()

        # Threads are not joined: after a Ctrl-C during a join, Python 3.11 takes a running thread for ended.
        ends = list[threading.Event]()
        began = time.monotonic()
        try:
            for share in filter(None, shares):
                ends.append(threading.Event())
                threading.Thread(target=run, args=(share, ends[-1]), daemon=True).start()
            for end in ends:
                # A wait without a timeout misses a Ctrl-C that arrives just before it begins.
                while not end.wait(LOOK_SECONDS):
                    pass
        finally:
            ended.set()
            until = time.monotonic() + STOP_SECONDS
            for end in ends:
                end.wait(max(0.0, until - time.monotonic()))
        seconds = time.monotonic() - began
    if failures:
        raise failures[0]
    return Measured(what, total, seconds, latencies)


def _publish(address: str, queue: str, body: bytes, share: int, batch: int, note: Note) -> list[float]:
    from penstock.text import Client

    latencies = []
    with Client(address, timeout_seconds=WAIT_SECONDS) as client:
        while share and note(0):
            some = min(batch, share)
            began = time.monotonic()
            client.send_many(queue, [body] * some)
            latencies.append(time.monotonic() - began)
            share -= some
            note(some)
    return latencies


def _consume(address: str, queue: str, share: int, note: Note) -> list[float]:
    from penstock.text import Client

    with Client(address, timeout_seconds=WAIT_SECONDS) as client:
        taken = client.consume(queue, window=min(share, 1000), wait_seconds=WAIT_SECONDS)
        for number, message in enumerate(taken, 1):
            message.ack()
            if number == share or (number % 100 == 0 and not note(100)):
                break
        else:
            raise UnavailableError(f"No message came for {WAIT_SECONDS:g} seconds")
        taken.close()
    return []
