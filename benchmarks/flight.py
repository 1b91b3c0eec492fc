"""The Flight door: scans and uploads, and the effect of a scan on clients that publish through another door.

Run as `python -m benchmarks flight [--quick]`. The peer of the publishing is the same clients without a scan. The
server and its reader process are measured separately: the server is the broker, which a scan must not keep busy.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pyarrow as pa
from pyarrow import flight

from benchmarks.gauge import mebibytes
from penstock.doors.google import messages as m

BATCH_BYTES = 4 << 20
BATCH_ROWS = 10_000
PUBLISHES_PER_SECOND = 100
TICKS = os.sysconf("SC_CLK_TCK")
CLOSED = [part for door in ("azure", "text", "http") for part in (f"--{door}-port", "off")]
OPEN = [part for door in ("pubsub", "flight") for part in (f"--{door}-port", "0")]

PAIRS = {  # attributes of row n
    "no attributes": None,
    "2 attributes that repeat": lambda n: [("origin", "sensors"), ("kind", f"reading-{n % 5}")],
    "2 attributes, all different": lambda n: [("origin", f"sensor-{n}"), ("trace", f"{n * 2654435761 % 2**32:08x}")],
}
REPEATING = "2 attributes that repeat"


class Kind(NamedTuple):
    """The form of the rows of a topic."""

    size: int
    attributes: str = REPEATING

    def __str__(self) -> str:
        return f"{self.size} B, {self.attributes}"

    @property
    def batch_rows(self) -> int:
        return min(BATCH_ROWS, BATCH_BYTES // self.size)

    def batch(self) -> pa.RecordBatch:
        """Return a record batch as a publisher sends it."""
        rows, blob = self.batch_rows, os.urandom(self.batch_rows * self.size)
        data = [blob[n * self.size : (n + 1) * self.size] for n in range(rows)]
        columns = {"data": pa.array(data, pa.binary())}
        pairs = PAIRS[self.attributes]
        if pairs is not None:
            columns["attributes"] = pa.array([pairs(n) for n in range(rows)], pa.map_(pa.string(), pa.string()))
        return pa.record_batch(columns)


# ---------------------------------------------------------------------- the server


class Server(NamedTuple):
    pid: int
    reader_pid: int
    flight: str
    pubsub: str

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of the server and of its reader process."""
        return _cpu_seconds(self.pid), _cpu_seconds(self.reader_pid)

    def ask(self, action: str, **body: Any) -> dict[str, Any]:
        with flight.FlightClient(f"grpc://{self.flight}") as client:
            answers = list(client.do_action(flight.Action(action, json.dumps(body).encode())))
        return dict(json.loads(answers[0].body.to_pybytes()))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """Return the processes that any thread of this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return sorted(found)


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Yield a server with fsync, and with the Flight and the Google door."""
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "penstock", "serve", *CLOSED, *OPEN, "--log-level", "warning"]
    command += ["--data", str(folder / "data"), "--ready-file", str(ready)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None, "it is a pipe"
        for line in process.stdout:
            if line.startswith("Ready."):
                break
        doors = json.loads(ready.read_text())
        server = Server(process.pid, 0, doors["flight"], doors["pubsub"])
        server.ask("bounds")  # the first client starts the reader process
        yield server._replace(reader_pid=children(process.pid)[0])
    finally:
        process.terminate()
        process.wait(30)


# ---------------------------------------------------------------------- uploads and scans


def upload(address: str, topic: str, kind: Kind, rows: int, begin: Callable[[], Any] = tuple) -> None:
    """Publish the rows with a few batches in flight at a time, and wait until all are durable."""
    batch = kind.batch()
    with flight.FlightClient(f"grpc://{address}") as client:
        client.wait_for_available()
        begin()
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"topic": topic}).encode())
        writer, answers = client.do_put(descriptor, batch.schema)
        waiting = 0
        for done in range(0, rows, batch.num_rows):
            writer.write_batch(batch.slice(0, rows - done))
            waiting += 1
            if waiting == 4:
                assert answers.read() is not None, "an upload is answered batch by batch"
                waiting -= 1
        for _ in range(waiting):
            assert answers.read() is not None, "an upload is answered batch by batch"
        writer.close()


def scan(address: str, topic: str, first: int, until: int, begin: Callable[[], Any] = tuple) -> None:
    """Read a range and discard it."""
    ticket = flight.Ticket(json.dumps({"topic": topic, "first": first, "until": until}).encode())
    rows = 0
    with flight.FlightClient(f"grpc://{address}") as client:
        client.wait_for_available()
        begin()
        for chunk in client.do_get(ticket):
            rows += chunk.data.num_rows
    assert rows == until - first, "a scan returns every row"


def preload(server: Server, name: str, kind: Kind, rows: int) -> str:
    topic = f"projects/bench/topics/{name}"
    server.ask("topic.ensure", topic=topic)
    upload(server.flight, topic, kind, rows)
    return topic


@contextmanager
def at_once(work: list[tuple[Any, ...]]) -> Iterator[None]:
    """Run every call in a process of its own, as for real clients.

    All calls begin when the block is entered, and are done after it.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(work) + 1)
    processes = [context.Process(target=call[0], args=call[1:], kwargs={"begin": barrier.wait}) for call in work]
    for process in processes:
        process.start()
    barrier.wait(60)
    yield
    for process in processes:
        process.join()
        assert process.exitcode == 0, "a client failed"


def timed(server: Server, label: str, rows: int, work: list[tuple[Any, ...]]) -> None:
    """Measure concurrent clients: their rate, and the CPU time."""
    with at_once(work):
        before, started = server.cpu(), time.perf_counter()
    seconds = time.perf_counter() - started
    spent = [(after - earlier) / rows * 1e6 for earlier, after in zip(before, server.cpu(), strict=True)]
    print(f"  {label:<54} {rows / seconds:>10,.0f} rows/s   broker {spent[0]:5.2f}, reader {spent[1]:5.2f} us CPU/row")


def measure_door(server: Server, kind: Kind, rows: int) -> None:
    name = f"flight-{kind.size}-{len(kind.attributes)}"
    topic = preload(server, name, kind, rows)
    for clients in (1, 2):
        share = rows // clients
        target = f"projects/bench/topics/{name}-{clients}"
        server.ask("topic.ensure", topic=target)
        puts = [(upload, server.flight, target, kind, share) for _ in range(clients)]
        gets = [(scan, server.flight, topic, n * share, (n + 1) * share) for n in range(clients)]
        timed(server, f"{kind}: DoPut, {clients} client(s)", rows, puts)
        timed(server, f"{kind}: DoGet, {clients} client(s)", rows, gets)


# ---------------------------------------------------------------------- another door meanwhile


class Latencies(NamedTuple):
    count: int
    median: float
    p99: float
    worst: float

    def __str__(self) -> str:
        times = f"p50 {self.median * 1e3:6.2f}, p99 {self.p99 * 1e3:6.2f}, worst {self.worst * 1e3:6.2f} ms"
        return f"{times}  ({self.count} publishes)"


def latencies(address: str, seconds: float) -> Latencies:
    """Publish one message of 256 B at a fixed rate, and measure each publish from the time when it was due."""
    request = m.PublishRequest(topic="projects/bench/topics/other", messages=[m.PubsubMessage(data=os.urandom(256))])
    encoded, found = request.SerializeToString(), []
    with grpc.insecure_channel(address) as channel:
        publish = channel.unary_unary("/google.pubsub.v1.Publisher/Publish")
        publish(encoded)
        begin = time.perf_counter()
        for number in range(int(seconds * PUBLISHES_PER_SECOND)):
            due = begin + number / PUBLISHES_PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            publish(encoded)
            found.append(time.perf_counter() - due)
    found.sort()
    return Latencies(len(found), found[len(found) // 2], found[int(len(found) * 0.99)], found[-1])


def scan_on(address: str, topic: str, rows: int, seconds: float, begin: Callable[[], Any] = tuple) -> None:
    begin()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        scan(address, topic, 0, rows)


def measure_neighbour(server: Server, kind: Kind, rows: int, seconds: float) -> None:
    server.ask("topic.ensure", topic="projects/bench/topics/other")
    topic = preload(server, f"scanned-{kind.size}", kind, rows)
    idle = latencies(server.pubsub, seconds)
    print(f"  publish by Google gRPC, {PUBLISHES_PER_SECOND}/s: idle            {idle}")
    with at_once([(scan_on, server.flight, topic, rows, seconds) for _ in range(2)]):
        busy = latencies(server.pubsub, seconds)
    print(
        f"  publish by Google gRPC, {PUBLISHES_PER_SECOND}/s: 2 full scans    {busy}   p99 {busy.p99 / idle.p99:.1f}x"
    )


def main(quick: bool = False) -> None:
    scale = 5 if quick else 1
    kinds = [*(Kind(100, attributes) for attributes in PAIRS), Kind(1000)]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        server = stack.enter_context(running(Path(name)))
        for kind in kinds:
            measure_door(server, kind, (2_000_000 if kind.size == 100 else 500_000) // scale)
        measure_neighbour(server, Kind(100), 1_000_000 // scale, 20 / scale)
        measure_neighbour(server, Kind(1000), 500_000 // scale, 20 / scale)
        sizes = [mebibytes(resident(pid)) for pid in (server.pid, server.reader_pid)]
        print(f"  memory after all of it: broker {sizes[0]}, reader process {sizes[1]}")
