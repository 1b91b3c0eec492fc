"""Spark: topics read and written, compared with the same plans with Arrow data from the worker and a counting sink.

Run as `python -m benchmarks spark [--quick]`. Everything runs on `local[2]` with two partitions after a warm-up,
Penstock and the peer in turn. The broker shares the cores with Spark. The long run, ten million messages archived to
Parquet, is left out with --quick.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import flight

from benchmarks.flight import PAIRS, REPEATING, Kind, Server, children, preload, resident, running

ROUNDS = 3
ARCHIVED = 10_000_000
SAMPLE_SECONDS = 5.0
NO_ATTRIBUTES = next(iter(PAIRS))

Rate = Callable[[], float]  # runs a plan and returns rows per second


@contextmanager
def session(folder: Path) -> Iterator[Any]:
    """Yield a session with the peers."""
    root = str(Path(__file__).resolve().parents[1])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warnings.simplefilter("ignore")  # pyspark and its libraries
    from pyspark.sql import SparkSession

    from benchmarks.spark_peers import CountingSink, Generator

    builder = SparkSession.builder.master("local[2]").appName("penstock-benchmarks")
    confs = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in confs.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(Generator)
    spark.dataSource.register(CountingSink)
    yield spark
    spark.stop()


class Plans:
    """The measured plans, on one session and one server. Each plan returns its rate in rows per second."""

    def __init__(self, spark: Any, server: Server, folder: Path) -> None:
        self._spark, self._server, self._folder = spark, server, folder
        self._streams = 0

    def topic(self, name: str, **more: str) -> tuple[str, dict[str, str]]:
        """Return Penstock's source, in two partitions."""
        options = {"endpoint": self._server.flight, "topic": name, "minPartitions": "2", "maxBytesPerPartition": "16g"}
        return "penstock", options | more

    def generator(self, kind: Kind, rows: int, **more: str) -> tuple[str, dict[str, str]]:
        return "generator", {"size": str(kind.size), "attributes": kind.attributes, "rows": str(rows)} | more

    def batch(self, source: tuple[str, dict[str, str]], rows: int) -> Rate:
        def run() -> float:
            started = time.perf_counter()
            frame = self._spark.read.format(source[0]).options(**source[1]).load()
            frame.write.format("noop").mode("overwrite").save()
            return rows / (time.perf_counter() - started)

        return run

    def last_rows(self, topic: str, rows: int, switch: str) -> float:
        """Return the seconds that it takes to find the last rows."""
        self._spark.conf.set("spark.sql.python.filterPushdown.enabled", switch)
        options = {"endpoint": self._server.flight, "topic": topic, "pushFilters": switch}
        frame = self._spark.read.format("penstock").options(**options).load()
        started = time.perf_counter()
        assert len(frame.where(f"offset >= {rows - 10}").collect()) == 10
        seconds = time.perf_counter() - started
        self._spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        return seconds

    def stream(self, source: tuple[str, dict[str, str]]) -> Rate:
        """Return a plan with AvailableNow that measures the micro-batches after the first, from planning to commit."""

        def run() -> float:
            self._streams += 1
            frame = self._spark.readStream.format(source[0]).options(**source[1]).load()
            writer = frame.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(self._folder / f"stream-{self._streams}")).start()
            query.awaitTermination()
            later = [each for each in query.recentProgress if each["numInputRows"]][1:]
            seconds = sum(each["durationMs"]["triggerExecution"] for each in later) / 1e3
            return float(sum(each["numInputRows"] for each in later) / seconds)

        return run

    def sink(self, kind: Kind, rows: int, form: str, **options: str) -> Rate:
        """Return a plan that writes the generator's rows into a sink."""
        form_in, options_in = self.generator(kind, rows)
        columns = ["data"] if kind.attributes == NO_ATTRIBUTES else ["data", "attributes"]

        def run() -> float:
            frame = self._spark.read.format(form_in).options(**options_in).load().select(*columns)
            started = time.perf_counter()
            frame.write.format(form).options(**options).mode("append").save()
            return rows / (time.perf_counter() - started)

        return run


class Spent(NamedTuple):
    """CPU seconds up to now."""

    spark: float  # the JVM and the Python workers
    broker: float
    reader: float

    @classmethod
    def now(cls, server: Server) -> Spent:
        family = [pid for child in children(os.getpid()) if child != server.pid for pid in _family(child)]
        return cls(sum(map(_cpu_with_children, family)), *server.cpu())

    def since(self, earlier: Spent, rows: int) -> Spent:
        """Return the microseconds per row."""
        return Spent(*((now - then) / rows * 1e6 for now, then in zip(self, earlier, strict=True)))


def compared(label: str, plan: Rate, peer_label: str, peer: Rate, server: Server, rows: int) -> None:
    """Run both in turn, so that other load of the machine affects both, and print the median of the ratios.

    The ratio of CPU is printed for machines with other load, where it varies less than the ratio of rates.
    """
    plan(), peer()  # to warm up
    rates: dict[Rate, list[float]] = {plan: [], peer: []}
    spent: dict[Rate, list[Spent]] = {plan: [], peer: []}
    for _ in range(ROUNDS):
        for each in (plan, peer):
            before = Spent.now(server)
            rates[each].append(each())
            spent[each].append(Spent.now(server).since(before, rows))
    rate, peer_rate = (statistics.median(rates[each]) for each in (plan, peer))
    ratios = sorted(mine / other for mine, other in zip(rates[plan], rates[peer], strict=True))
    ours, theirs = (Spent(*map(statistics.median, zip(*spent[each], strict=True))) for each in (plan, peer))
    print(
        f"  {label:<47} {rate:>9,.0f} rows/s, {peer_label} {peer_rate:>9,.0f}: "
        f"{statistics.median(ratios):4.0%} ({ratios[0]:.0%} to {ratios[-1]:.0%}); "
        f"us CPU/row: Spark {ours.spark:.2f}, broker {ours.broker:.2f}, reader {ours.reader:.2f}, "
        f"{peer_label} {theirs.spark:.2f}: {theirs.spark / sum(ours):.0%}",
        flush=True,
    )


def _cpu_with_children(pid: int) -> float:
    """Return the CPU seconds of a process and its finished children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measure_source(plans: Plans, server: Server, scale: int) -> None:
    for kind in (Kind(100), Kind(1000), *(Kind(100, each) for each in PAIRS if each != REPEATING)):
        rows = (4_000_000 if kind.size == 100 else 1_000_000) // scale
        limit = rows // 4
        topic = preload(server, f"read-{kind.size}-{len(kind.attributes)}", kind, rows)
        ours, peer = plans.batch(plans.topic(topic), rows), plans.batch(plans.generator(kind, rows), rows)
        compared(f"{kind}: batch", ours, "generator", peer, server, rows)
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(limit), "maxBytesPerTrigger": "16g"}
        ours = plans.stream(plans.topic(topic, **limits))
        peer = plans.stream(plans.generator(kind, rows, limit=str(limit)))
        compared(f"{kind}: stream", ours, "generator", peer, server, rows)
        if kind.attributes == REPEATING:
            measure_defaults(plans, server, kind, topic, rows)


def measure_defaults(plans: Plans, server: Server, kind: Kind, topic: str, rows: int) -> None:
    """Measure the default options, and the cost of one column."""
    source = {"endpoint": server.flight, "topic": topic}
    peer = plans.batch(plans.generator(kind, rows), rows)
    compared(f"{kind}: batch, defaults", plans.batch(("penstock", source), rows), "generator", peer, server, rows)
    for column in ("offset", "publish_time"):
        one = plans.batch(("penstock", source | {"columns": column}), rows)
        compared(f"{kind}: batch, {column} alone", one, "generator", peer, server, rows)


def measure_small_topics(plans: Plans, server: Server, topics: int) -> None:
    """Measure the count of many topics of three rows each."""
    names = [f"projects/bench/topics/small-{number:04d}" for number in range(topics)]
    for name in names:
        server.ask("topic.ensure", topic=name)
    batch = pa.record_batch({"topic": names * 3, "data": [b"x" * 100] * (topics * 3)})
    with flight.FlightClient(f"grpc://{server.flight}") as client:
        writer, answers = client.do_put(flight.FlightDescriptor.for_command(b"{}"), batch.schema)
        writer.write_batch(batch)
        assert answers.read() is not None, "an upload is answered batch by batch"
        writer.close()
    run = plans.batch(("penstock", {"endpoint": server.flight, "topicPattern": ".*/small-.*"}), topics * 3)
    seconds = sorted(topics * 3 / run() for _ in range(ROUNDS))
    print(f"  {topics:,} topics of 3 rows: {seconds[ROUNDS // 2]:.2f} s", flush=True)


def measure_filter(plans: Plans, server: Server, topic: str, rows: int) -> None:
    """Measure the read of the last ten rows, with Spark's switch for filters off and on."""
    for switch in ("false", "true"):
        seconds = sorted(plans.last_rows(topic, rows, switch) for _ in range(ROUNDS))
        print(f"  WHERE offset >= {rows - 10:,}, pushed {switch}: {seconds[ROUNDS // 2]:.2f} s", flush=True)


def measure_sink(plans: Plans, server: Server, scale: int) -> None:
    for kind in (Kind(100, NO_ATTRIBUTES), Kind(100), Kind(1000)):
        rows = (2_000_000 if kind.size == 100 else 500_000) // scale
        topic = f"projects/bench/topics/written-{kind.size}-{len(kind.attributes)}"
        ours = plans.sink(kind, rows, "penstock", topic=topic, endpoint=server.flight, createTopics="true")
        compared(f"{kind}: sink", ours, "counting sink", plans.sink(kind, rows, "counting"), server, rows)


# ---------------------------------------------------------------------- the long run


def measure_archive(server: Server, folder: Path, rows: int) -> None:
    """Measure `penstock pipeline run archive`, as a user types it, and the memory of all processes."""
    kind = Kind(100)
    topic = preload(server, "archived", kind, rows)
    lake, started = folder / "lake", time.perf_counter()
    command = [sys.executable, "-m", "penstock", "pipeline", "run", "archive", "--endpoint", server.flight]
    command += ["--state", str(folder / "state"), "--set", f"topics={topic}", "--set", f"lake={lake}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    print(f"  {rows:,} messages of {kind} to Parquet: `penstock pipeline run archive`")
    while True:
        try:
            code = process.wait(SAMPLE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            print(f"    {time.perf_counter() - started:5.0f} s: {_memory(server, process.pid)}", flush=True)
    seconds = time.perf_counter() - started
    size = sum(each.stat().st_size for each in lake.rglob("*.parquet"))
    print(f"    exit code {code}, {seconds:.1f} s, {rows / seconds:,.0f} rows/s, {size >> 20} MiB of Parquet")


def _memory(server: Server, pid: int) -> str:
    """Return the resident MiB of the broker, its reader process, the Python driver, the JVM and Spark's Python
    workers.
    """
    jvms = children(pid)
    workers = [each for jvm in jvms for each in _family(jvm)[1:]]
    known = {"broker": [server.pid], "reader": [server.reader_pid], "driver": [pid], "JVM": jvms, "workers": workers}
    sizes = {name: sum(map(_resident, pids)) >> 20 for name, pids in known.items()}
    return ", ".join(f"{name} {size} MiB" for name, size in sizes.items())


def _family(pid: int) -> list[int]:
    return [pid, *(each for child in children(pid) for each in _family(child))]


def _resident(pid: int) -> int:
    try:
        return resident(pid)
    except OSError:
        return 0


def main(quick: bool = False) -> None:
    scale = 4 if quick else 1
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(running(folder))
        with session(folder) as spark:
            plans = Plans(spark, server, folder)
            measure_source(plans, server, scale)
            measure_small_topics(plans, server, 1000)
            measure_filter(plans, server, f"projects/bench/topics/read-100-{len(REPEATING)}", 4_000_000 // scale)
            measure_sink(plans, server, scale)
        if not quick:
            measure_archive(server, folder, ARCHIVED)
