"""Ten million messages archived in one run, with constant memory of all processes.

Memory is the resident size of a process, measured twice a second. It is constant when the last third of the run needs
no more than the middle third.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict, deque
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.dataset as dataset
import pytest
from pyarrow import flight

from tests.spark.drivers import Driver, environment_of
from tests.spark.servers import Server

ROWS = int(os.environ.get("PENSTOCK_SOAK_ROWS") or 10_000_000)
BATCH = 10_000
TOPIC = "projects/penstock/topics/flood"
MARGIN_MB = 150  # Java uses all the memory it is allowed before it collects garbage
FINISH_SECONDS = 3600.0


class Scales(threading.Thread):
    """The memory of the broker, its reader and the pipeline's processes over time, in MB."""

    def __init__(self, server: Server, pipeline: Driver) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, list[int]] = defaultdict(list)
        self._server = psutil.Process(server.process.pid)
        self._pipeline = pipeline
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.wait(0.5):
            self.seen["broker"].append(_megabytes([self._server.pid]))
            self.seen["reader"].append(_megabytes([child.pid for child in self._server.children()]))
            members = self._pipeline.members()
            java = [pid for pid in members if _is_java(pid)]
            self.seen["java"].append(_megabytes(java))
            self.seen["python"].append(_megabytes([pid for pid in members if pid not in java]))

    def stop(self) -> None:
        self._enough.set()
        self.join()


def _megabytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.Error:  # the process has ended meanwhile
            continue
    return total >> 20


def _is_java(pid: int) -> bool:
    try:
        return psutil.Process(pid).name() == "java"
    except psutil.Error:
        return False


def publish(server: Server, rows: int) -> float:
    """Publish `rows` messages of 100 bytes, and return the seconds that it took."""
    began = time.monotonic()
    with server.client() as client:
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"topic": TOPIC}).encode())
        writer, answers = client.do_put(descriptor, pa.schema([("data", pa.binary())]))
        unanswered: deque[int] = deque()
        for first in range(0, rows, BATCH):
            data = [b"%012d" % number + b"x" * 88 for number in range(first, first + BATCH)]
            writer.write_batch(pa.record_batch({"data": pa.array(data, pa.binary())}))
            unanswered.append(first)
            while len(unanswered) > 3:
                assert "published" in json.loads(answers.read().to_pybytes())
                unanswered.popleft()
        for _ in unanswered:
            assert "published" in json.loads(answers.read().to_pybytes())
        writer.close()
    return time.monotonic() - began


@pytest.mark.nightly
def test_memory_is_flat_while_a_long_topic_is_archived(tmp_path: Path) -> None:
    with Server(tmp_path, "--data", str(tmp_path / "data")) as server:
        server.ask("topic.ensure", topic=TOPIC)
        seconds = publish(server, ROWS)
        print(f"published {ROWS} in {seconds:.0f} s, {ROWS / seconds:,.0f}/s")
        began = time.monotonic()
        seen = archive(server, tmp_path)
        seconds = time.monotonic() - began
        print(f"archived {ROWS} in {seconds:.0f} s, {ROWS / seconds:,.0f}/s with the start of Spark")
    files = [str(path) for path in (tmp_path / "lake").rglob("*.parquet")]
    assert dataset.dataset(files).count_rows() == ROWS
    for name, sizes in seen.items():
        assert max(sizes) > 50, f"{name} was not found"
        third = len(sizes) // 3
        print(
            f"{name}: {[max(sizes[at : at + third // 5]) for at in range(0, len(sizes) - third // 5, third // 5)]} MB"
        )
        assert max(sizes[2 * third :]) <= max(sizes[third : 2 * third]) + MARGIN_MB, (name, sizes)


def archive(server: Server, folder: Path) -> dict[str, list[int]]:
    command = [sys.executable, "-m", "penstock", "pipeline", "run", "archive", "--endpoint", server.endpoint]
    command += ["--set", f"topics={TOPIC}", "--set", "lake=lake"]
    environment = environment_of(folder)
    environment.pop("PYSPARK_SUBMIT_ARGS")
    pipeline = Driver(command, folder, environment)
    scales = Scales(server, pipeline)
    scales.start()
    try:
        pipeline.finish(FINISH_SECONDS)
    finally:
        scales.stop()
        pipeline.close()
    return scales.seen
