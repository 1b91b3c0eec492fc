"""The Spark session of a pipeline.

Spark's output goes to a log file, unless the user wants it on the terminal. A Ctrl-C of the terminal does not reach
Spark's processes, because we stop the flows ourselves. The user's configuration replaces our defaults.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from penstock.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from penstock.spark.java import use_java
from penstock.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = "pipelines run on Spark, which is not installed: pip install 'penstock-broker[spark]'"
LOCAL = "local[*]"
CONNECT_PORT = 15002
CONNECT_SECONDS = 5.0

DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",  # dates and minutes are the same on every machine
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",  # flows share the cores instead of queueing
}
LOCAL_DEFAULTS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),  # the state of each flow has this many partitions
}


class SparkAddress(NamedTuple):
    """The address of Spark: a process on this machine, a cluster, or a Connect server."""

    master: str | None = None
    remote: str | None = None

    @property
    def local(self) -> bool:
        return self.remote is None and (self.master is None or self.master.startswith("local"))

    def __str__(self) -> str:
        return self.remote or self.master or LOCAL


HERE = SparkAddress()


def require_spark() -> None:
    """Raise FailedPreconditionError if pyspark or pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise FailedPreconditionError(MISSING) from error


def open_session(
    name: str, confs: Mapping[str, str], address: SparkAddress = HERE, *, log: Path | None = None
) -> SparkSession:
    """Open a session. Spark's output goes to `log`, or to the terminal if it is None."""
    require_spark()
    # Spark's Python code warns about its own libraries, and logs failures that we report in a sentence.
    warnings.filterwarnings("ignore", module=r"pyspark\..*")
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support")
    if log is not None:
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
            logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    if address.remote is not None:
        return _remote_session(address.remote, confs)
    use_java(os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf

    conf = SparkConf(loadDefaults=False).setAppName(name).setMaster(address.master or LOCAL)
    defaults = DEFAULTS | (LOCAL_DEFAULTS if address.local else {})
    if log is not None:  # keeps Spark's warehouse folder out of the current folder
        defaults |= {"spark.sql.warehouse.dir": str(log.parent / "warehouse")}
    for key, value in {**defaults, **confs}.items():
        conf.set(key, value)
    if log is None and "spark.log.level" not in confs:
        conf.set("spark.log.level", "WARN")
    return _classic_session(conf, log)


def _classic_session(conf: Any, log: Path | None) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    launch: Any = launch_gateway
    popen: dict[str, Any] = {"start_new_session": True}  # out of reach of the terminal's Ctrl-C
    try:
        with ExitStack() as files:
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                popen["stderr"] = files.enter_context(log.open("ab"))
            SparkContext._gateway = SparkContext._gateway or launch(conf, popen)
        SparkContext._jvm = SparkContext._gateway.jvm
        return SparkSession(SparkContext(conf=conf))
    except Exception as error:
        where = f"; its output is in {log}" if log is not None else ""
        raise UnavailableError(f"Spark did not start: {sentence_of(error)}{where}") from error


def _remote_session(url: str, confs: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    server = urlsplit(url)
    if server.scheme != "sc" or not server.hostname:
        raise InvalidArgumentError(f"--remote takes sc://HOST:PORT, not {url}")
    try:  # Spark's own client would retry for many minutes
        socket.create_connection((server.hostname, server.port or CONNECT_PORT), CONNECT_SECONDS).close()
    except OSError as error:
        raise UnavailableError(f"no Spark Connect server answers at {url}: {error.strerror or error}") from error
    try:
        session = SparkSession.builder.remote(url).create()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.version  # noqa: B018 - the first call that needs the server
    except Exception as error:
        raise UnavailableError(f"no Spark Connect server answers at {url}: {sentence_of(error)}") from error
    for key, value in confs.items():
        with suppress(Exception):  # a server refuses to change its static configuration
            session.conf.set(key, value)
    return session
