"""A standalone cluster from the pip package: a master, two workers, and a stream whose tasks run in other processes.

All tests of the file share the cluster. Each of its processes leads a session, and the processes are ended by their
ids. Executors without the data source run a Python that cannot import it.
"""

from __future__ import annotations

import json
import socket
import sys
import sysconfig
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

import pyspark_penstock
from tests.spark.drivers import LEAN, PROGRAMS, Driver, environment_of
from tests.spark.queries import wait_until
from tests.spark.servers import Server

HOME = Path(pyspark.__file__).parent
SOURCES = Path(pyspark_penstock.__file__).parents[1]
ROWS = 200


@dataclass(frozen=True)
class Cluster:
    """A master and two workers."""

    master: str
    folder: Path
    environment: dict[str, str]

    def submit(self, *arguments: str, flags: tuple[str, ...] = (), **environment: str) -> Driver:
        command = [str(HOME / "bin/spark-submit"), "--master", self.master, "--executor-memory", "600m"]
        command += ["--executor-cores", "1", "--total-executor-cores", "2", "--driver-memory", "600m"]
        command += ["--conf", f"spark.executor.extraJavaOptions={LEAN}", *flags]
        command += [str(PROGRAMS / "relay.py"), *arguments]
        return Driver(command, self.folder, self.environment | {"RELAY_DRAIN": "yes"} | environment)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    environment = environment_of(folder) | {
        "SPARK_HOME": str(HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LEAN,
    }
    port, page = free_port(), free_port()
    with ExitStack() as stack:

        def start(role: str, *flags: str) -> None:
            command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", *flags]
            stack.callback(Driver(command, folder, environment).close)

        start("master.Master", "--port", str(port), "--webui-port", str(page))
        for number in (1, 2):
            place = ("--work-dir", str(folder / f"work{number}"), "--webui-port", "0")
            start("worker.Worker", "--cores", "1", "--memory", "700m", *place, f"spark://127.0.0.1:{port}")
        wait_until(lambda: alive_workers(page) == 2)
        yield Cluster(f"spark://127.0.0.1:{port}", folder, environment)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def alive_workers(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # not started, or the JSON of its page is not there yet
        return 0


def bare_python(folder: Path) -> str:
    """Write a Python without the data source. It does not read the site folder, where the data source is linked."""
    python = folder / "bare-python"
    packages = sysconfig.get_paths()["purelib"]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$DRIVER_PATH:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return str(python)


def zipped(folder: Path) -> str:
    path = folder / "pyspark_penstock.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for module in sorted((SOURCES / "pyspark_penstock").glob("*.py")):
            archive.write(module, f"pyspark_penstock/{module.name}")
    return str(path)


def relayed(cluster: Cluster, server: Server, name: str, **submitted: object) -> None:
    """Run both relays to the end of their own topic on the cluster. All rows must be there once."""
    source, plain, shuffled = (f"projects/penstock/topics/{name}-{role}" for role in ("source", "plain", "shuffled"))
    for topic in (source, plain, shuffled):
        server.ask("topic.ensure", topic=topic)
    server.publish(source, [b"%d" % number for number in range(ROWS)])
    folder = cluster.folder / name
    relays = (f"plain:{source}:{plain}", f"shuffled:{source}:{shuffled}")
    with closing(cluster.submit(server.endpoint, str(folder), *relays, **submitted)) as driver:  # type: ignore[arg-type]
        assert driver.finish().split()[-2:] == ["executors", "2"]
    assert sorted(server.data(plain)) == sorted(b"got %d" % number for number in range(ROWS))
    assert sorted(int(data.split()[0]) for data in server.data(shuffled)) == list(range(ROWS))


def test_a_stream_runs_on_a_cluster(cluster: Cluster, server: Server) -> None:
    relayed(cluster, server, "installed")
    # Both workers had an executor.
    assert [len(list((cluster.folder / work).glob("app-*/*/stderr"))) for work in ("work1", "work2")] == [1, 1]


@pytest.mark.nightly
def test_executors_get_the_source_as_a_zip(cluster: Cluster, server: Server) -> None:
    zip_file = zipped(cluster.folder)
    python = bare_python(cluster.folder)
    # Spark does not add the zip to the path of a source that it found by itself, but the folder where executors unpack
    # it is known.
    flags = ("--py-files", zip_file, "--conf", f"spark.executorEnv.PYTHONPATH={Path(zip_file).name}")
    relayed(cluster, server, "zipped", flags=flags, PYSPARK_PYTHON=python, DRIVER_PATH=str(SOURCES))


@pytest.mark.nightly
def test_the_source_travels_with_the_query(cluster: Cluster, server: Server) -> None:
    relayed(cluster, server, "by-value", PYSPARK_PYTHON=bare_python(cluster.folder), RELAY_SOURCE=str(SOURCES))
