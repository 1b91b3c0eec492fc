"""`penstock bench`: what a server does for clients of the text protocol, measured by such clients.

They are the blocking clients of `penstock.text`, one thread each in one process of Python. So the figures are those of
this client through that door on this machine; the server itself may do more.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.output import plain
from penstock.commands.progress import Progress
from penstock.commands.session import Session, on_server, path_of
from penstock.commands.times import size as read_size
from penstock.errors import FailedPreconditionError, PenstockError, UnavailableError

WAIT_SECONDS = 30.0
STOP_SECONDS = 10.0  # for the batches that are on their way when it is broken off


Note = Callable[[int], bool]  # so many are done; False: it is over, do no more


class Measured(NamedTuple):
    """One part of a run: how many, how long, and the latencies of its steps."""

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


@on_server
def bench(
    session: Session,
    *,
    messages: Annotated[int, typer.Option("--messages", "-n", metavar="N", help="In all.", min=1)] = 10_000,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Of a body.")] = "256",
    clients: Annotated[int, typer.Option("--clients", "-c", metavar="N", help="Connections.", min=1, max=100)] = 4,
    batch: Annotated[int, typer.Option(metavar="N", help="Messages a client sends at once.", min=1, max=1000)] = 100,
    text_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of the text door. Default: as the server says.")
    ] = None,
) -> None:
    """Measure publishing and consuming through the text door.

    A queue is made for it and removed in the end. Published is a message when the server has said that it is durable;
    consumed when its ack was sent. The latency is that of a batch from sending it to its last answer. The clients are
    Python threads in one process, so beyond a few of them it is this command that is measured.
    """
    body = os.urandom(read_size(size, "--size"))
    address = text_address or _text_address(session)
    if text_address is None and session.place.project:
        raise WrongUsageError("The text door knows the default project alone; leave --project away")
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
    shown = [each.row(size) for each in rows]
    if session.output.json or not session.output.terminal:
        for row in shown:
            session.output.line(row) if session.output.json else print("\t".join(map(plain, row.values())))
        return
    durable = session.client.get("/server")["durability"]["sentence"]
    print(f"Text door, {clients} clients in threads of one process, batches of {batch}, bodies of {size:,} bytes.")
    print(durable)
    for row in shown:
        latency = f"   batch p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms" if row["p50_ms"] is not None else ""
        print(
            f"{row['what']:<8} {row['per_second']:>12,.0f} messages/s   {row['bytes_per_second'] / 1e6:>8.1f} MB/s"
            f"   {row['messages']:,} in {row['seconds']:.2f} s{latency}"
        )


def _text_address(session: Session) -> str:
    for door in session.client.get("/server")["doors"]:
        if door["name"] == "text" and door["address"]:
            return str(door["address"])
    raise FailedPreconditionError("The text door of this server is closed; name one with --text-address")


def _measure(what: str, shares: list[int], work: Callable[[int, Note], list[float]]) -> Measured:
    """Each share in a thread of its own; the first failure is the failure of all.

    None goes on when this is left: one that still sent would make the queue again after it was deleted.
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

        # Threads are not joined: a Ctrl-C during a join makes Python 3.11 take one for ended that goes on.
        ends = list[threading.Event]()
        began = time.monotonic()
        try:
            for share in filter(None, shares):
                ends.append(threading.Event())
                threading.Thread(target=run, args=(share, ends[-1]), daemon=True).start()
            for each in ends:
                each.wait()
        finally:
            ended.set()
            until = time.monotonic() + STOP_SECONDS
            for each in ends:
                each.wait(max(0.0, until - time.monotonic()))
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
