"""The Google door: publish in batches of 100 and of 1, then drain and ack by StreamingPull, over raw gRPC, 256 B.

Run as `python -m benchmarks google [--quick]`. Penstock with fsync, Penstock in memory and the official emulator get
the same load in the same run. The emulator runs if it is installed: name its command in PUBSUB_EMULATOR, for example
PUBSUB_EMULATOR="java -jar cloud-pubsub-emulator.jar", or have `cloud-pubsub-emulator` on the PATH or gcloud's package
installed.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from benchmarks.gauge import Lap, mebibytes, row
from penstock.doors.google import messages as m

SIZE = 256
CONCURRENT = 8
ROUNDS = 3
EMULATOR = "official emulator"
PUBLISHER, SUBSCRIBER = "/google.pubsub.v1.Publisher/", "/google.pubsub.v1.Subscriber/"
CLOSED = [part for door in ("azure", "text", "flight", "http") for part in (f"--{door}-port", "off")]
GCLOUD = Path("/usr/lib/google-cloud-sdk/platform/pubsub-emulator/bin")  # the path of Debian's package
TICKS = os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    name: str
    address: str
    pid: int
    ready_seconds: float

    def cpu_seconds(self) -> float:
        return sum(_cpu_seconds(pid) for pid in _family(self.pid))

    def resident_bytes(self) -> int:
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in _family(self.pid)]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    family = [pid]
    for each in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            parent = int(Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent in family and each not in family:
            family.append(each)
    return family


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


# ---------------------------------------------------------------------- servers


@contextmanager
def penstock(name: str, folder: Path, *arguments: str) -> Iterator[Server]:
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "penstock", "serve", *CLOSED, "--pubsub-port", "0", "--log-level", "warning"]
    started = time.perf_counter()
    process = subprocess.Popen([*command, "--ready-file", str(ready), *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None, "it is a pipe"
        for line in process.stdout:
            if line.startswith("Ready."):
                break
        seconds = time.perf_counter() - started
        yield Server(name, json.loads(ready.read_text())["pubsub"], process.pid, seconds)
    finally:
        process.terminate()
        process.wait(30)


def emulator_command() -> list[str]:
    named = os.environ.get("PUBSUB_EMULATOR")
    if named:
        return shlex.split(named)
    found = shutil.which("cloud-pubsub-emulator") or shutil.which("cloud-pubsub-emulator", path=str(GCLOUD))
    return [found] if found else []


@contextmanager
def emulator(command: list[str]) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--host=127.0.0.1", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(60)
        yield Server(EMULATOR, f"127.0.0.1:{port}", process.pid, time.perf_counter() - started)
    finally:
        process.terminate()
        process.wait(30)


# ---------------------------------------------------------------------- the load


class Load:
    """Requests that are prepared beforehand, without a client library, so that only the server is measured."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._channel = grpc.insecure_channel(server.address, options=[("grpc.max_receive_message_length", -1)])

    def close(self) -> None:
        self._channel.close()

    def _unary(self, path: str) -> Any:
        return self._channel.unary_unary(path)

    def prepare(self) -> tuple[str, str]:
        run = uuid.uuid4().hex[:8]
        topic, subscription = f"projects/bench/topics/t-{run}", f"projects/bench/subscriptions/s-{run}"
        self._unary(PUBLISHER + "CreateTopic")(m.Topic(name=topic).SerializeToString())
        request = m.Subscription(name=subscription, topic=topic, ack_deadline_seconds=600)
        self._unary(SUBSCRIBER + "CreateSubscription")(request.SerializeToString())
        return topic, subscription

    def publish(self, topic: str, messages: int, batch: int) -> Lap:
        bodies = [m.PubsubMessage(data=os.urandom(SIZE), attributes={"k": "v"}) for _ in range(batch)]
        request = m.PublishRequest(topic=topic, messages=bodies).SerializeToString()
        publish, room = self._unary(PUBLISHER + "Publish"), threading.Semaphore(CONCURRENT)
        errors: list[BaseException] = []

        def done(answer: Any) -> None:
            if answer.exception():
                errors.append(answer.exception())
            room.release()

        cpu, started = self.server.cpu_seconds(), time.perf_counter()
        for _ in range(messages // batch):
            room.acquire()
            publish.future(request).add_done_callback(done)
        for _ in range(CONCURRENT):
            room.acquire()
        lap = Lap(messages, time.perf_counter() - started, self.server.cpu_seconds() - cpu)
        assert not errors, errors[0]
        return lap

    def drain(self, subscription: str, messages: int) -> Lap:
        requests: queue.Queue[Any] = queue.Queue()
        kind = m.StreamingPullRequest
        requests.put(
            kind(
                subscription=subscription,
                stream_ack_deadline_seconds=60,
                max_outstanding_messages=10_000,
                max_outstanding_bytes=100 << 20,
            )
        )
        stream = self._channel.stream_stream(
            SUBSCRIBER + "StreamingPull", kind.SerializeToString, m.StreamingPullResponse.FromString
        )
        seen: set[str] = set()
        cpu, started = self.server.cpu_seconds(), time.perf_counter()
        call = stream(iter(requests.get, None))
        for answer in call:
            seen.update(each.message.message_id for each in answer.received_messages)
            requests.put(kind(ack_ids=[each.ack_id for each in answer.received_messages]))
            if len(seen) >= messages:
                break
        lap = Lap(messages, time.perf_counter() - started, self.server.cpu_seconds() - cpu)
        call.cancel()
        requests.put(None)
        return lap


def steps(scale: int) -> dict[str, Callable[[Load], Lap]]:
    """Return the measurements. Each one uses its own topic."""

    def publish(batch: int, messages: int) -> Callable[[Load], Lap]:
        return lambda load: load.publish(load.prepare()[0], messages, batch)

    def drain(load: Load) -> Lap:
        messages = 100_000 // scale if load.server.name.startswith("penstock") else 5_000
        topic, subscription = load.prepare()
        load.publish(topic, messages, 100)
        return load.drain(subscription, messages)

    return {
        "publish, batches of 100": publish(100, 200_000 // scale),
        "publish, batches of 1": publish(1, 10_000 // scale),
        "drain and ack": drain,
    }


def measure(servers: list[Server], scale: int) -> None:
    """Run every step on every server in turn, so that other load affects all of them, and print the medians."""
    for server in servers:
        print(f"  {server.name}: ready in {server.ready_seconds:.2f} s, {mebibytes(server.resident_bytes())} idle")
    loads = [Load(server) for server in servers]
    for step, run in steps(scale).items():
        for load in loads:
            run(load)  # an equally long warm-up, which a JIT needs
        laps = [[run(load) for load in loads] for _ in range(ROUNDS)]
        typical = [sorted(column, key=lambda lap: lap.rate)[ROUNDS // 2] for column in zip(*laps, strict=True)]
        peer = typical[-1] if servers[-1].name == EMULATOR else None
        for server, lap in zip(servers, typical, strict=True):
            print(row(f"{step}: {server.name}", lap, peer))
    for load in loads:
        load.close()


def main(quick: bool = False) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = [
            stack.enter_context(penstock("penstock, fsync", folder, "--data", str(folder / "data"))),
            stack.enter_context(penstock("penstock, memory", folder, "--memory")),
        ]
        command = emulator_command()
        if command:
            servers.append(stack.enter_context(emulator(command)))
        else:
            print("  official emulator: not installed here (see PUBSUB_EMULATOR), so there is no ratio to it")
        measure(servers, 10 if quick else 1)
