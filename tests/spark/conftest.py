"""Shared fixtures of Spark tests: a session and a server for each test process, and topics for each test.

A session takes eight seconds to start and a server one, so there is one of each. Tests use topics with different names.
Only a test that stops or breaks a server starts its own.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.java import use_java
from tests.spark.drivers import LEAN, worker_python
from tests.spark.servers import Server

MakeTopic = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def _java(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use the Java of the machine, or the bundled one. Java and Python workers start with few threads and modules."""
    use_java(os.environ)
    os.environ["SPARK_SUBMIT_OPTS"] = LEAN
    python = worker_python(tmp_path_factory.mktemp("python"))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server with a data folder and all doors, until the last test."""
    folder = tmp_path_factory.mktemp("broker")
    with Server(folder, "--data", str(folder / "data")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the session of this test process."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark and its libraries, which this project cannot change
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .appName("penstock-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.stopTimeout", "60s")
            .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder / 'derby'}")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def make_topic(server: Server) -> MakeTopic:
    """Return a function that creates a topic: `make_topic(b"a", b"b")` publishes these messages and returns its
    full name.
    """

    def make(*rows: bytes, name: str = "") -> str:
        topic = f"projects/penstock/topics/{name or 't-' + uuid.uuid4().hex[:12]}"
        server.ask("topic.ensure", topic=topic)
        if rows:
            server.publish(topic, rows)
        return topic

    return make


@pytest.fixture
def read(spark: Any, server: Server) -> Callable[..., Any]:
    """Return a function that reads a topic: `read(topic, option="value")` returns a batch DataFrame."""

    def load(topic: str | None = None, **options: Any) -> Any:
        chosen = {"endpoint": server.endpoint} | ({"topic": topic} if topic else {}) | options
        return spark.read.format("penstock").options(**chosen).load()

    return load


@pytest.fixture
def read_stream(spark: Any, server: Server) -> Callable[..., Any]:
    """Return a function that reads a stream: `read_stream(topic, option="value")` reads a topic from its earliest
    message.
    """

    def load(topic: str | None = None, **options: Any) -> Any:
        chosen = {"endpoint": server.endpoint} | ({"topic": topic} if topic else {}) | options
        if not {"startingOffsets", "startingTimestamp"} & chosen.keys():
            chosen["startingOffsets"] = "earliest"
        return spark.readStream.format("penstock").options(**chosen).load()

    return load


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of user-defined functions. The installed pandas is newer than those that Spark has tested."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )
