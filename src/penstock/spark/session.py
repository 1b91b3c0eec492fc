"""A Spark session that keeps quiet.

What Spark prints goes to a log file unless the user asked for it, a Ctrl-C of the terminal does not reach Spark's
processes (we stop the flows, they do not die under them), and what a user sets wins over our defaults.
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

MISSING = "pipelines run on Spark, which is not installed: pip install 'penstock[spark]'"
LOCAL = "local[*]"
CONNECT_PORT = 15002
CONNECT_SECONDS = 5.0

DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",  # days and minutes are the same on every machine
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
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),  # state of every flow is kept in so many parts
}


class SparkAddress(NamedTuple):
    """Where Spark runs: its own process here, a cluster, or a Connect server."""

    master: str | None = None
    remote: str | None = None

    @property
    def local(self) -> bool:
        return self.remote is None and (self.master is None or self.master.startswith("local"))

    def __str__(self) -> str:
        return self.remote or self.master or LOCAL


HERE = SparkAddress()


def require_spark() -> None:
    """FailedPreconditionError if the packages are not there."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise FailedPreconditionError(MISSING) from error


def open_session(
    name: str, confs: Mapping[str, str], place: SparkAddress = HERE, *, log: Path | None = None
) -> SparkSession:
    """A session; `log` takes what Spark prints, without one it is printed."""
    require_spark()
    # Python's side of Spark: warnings about its own libraries, and failures logged that a sentence says already.
    warnings.filterwarnings("ignore", module=r"pyspark\..*")
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support")
    if log is not None:
        for each in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
            logging.getLogger(each).setLevel(logging.CRITICAL + 1)
    if place.remote is not None:
        return _remote_session(place.remote, confs)
    use_java(os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf

    conf = SparkConf(loadDefaults=False).setAppName(name).setMaster(place.master or LOCAL)
    defaults = DEFAULTS | (LOCAL_DEFAULTS if place.local else {})
    if log is not None:  # Spark makes a warehouse folder wherever it is started; ours stays with the logs
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
        where = f"; what it said is in {log}" if log is not None else ""
        raise UnavailableError(f"Spark did not start: {sentence_of(error)}{where}") from error


def _remote_session(url: str, confs: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    place = urlsplit(url)
    if place.scheme != "sc" or not place.hostname:
        raise InvalidArgumentError(f"--remote takes sc://HOST:PORT, not {url}")
    try:  # Spark's own client would try for many minutes where nothing listens
        socket.create_connection((place.hostname, place.port or CONNECT_PORT), CONNECT_SECONDS).close()
    except OSError as error:
        raise UnavailableError(f"no Spark Connect server answers at {url}: {error.strerror or error}") from error
    try:
        session = SparkSession.builder.remote(url).create()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.version  # noqa: B018 - the first call that needs the server
    except Exception as error:
        raise UnavailableError(f"no Spark Connect server answers at {url}: {sentence_of(error)}") from error
    for key, value in confs.items():
        with suppress(Exception):  # a server's fixed confs are its operator's; the rest is taken
            session.conf.set(key, value)
    return session
