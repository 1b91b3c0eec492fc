"""Helpers that run streaming queries until they end or fail.

A query is always stopped, and every wait has a deadline.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_penstock.schema import COLUMNS
from tests.spark.servers import Server
from tests.time_limit import dump_stacks

SECONDS = 120.0


def start(frame: Any, checkpoint: str, sink: dict[str, Any] | None = None, **trigger: Any) -> Any:
    """Start a query without a sink, or into a topic with the options of `sink`."""
    writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(**(trigger or {"availableNow": True}))
    writer = writer.format("penstock").options(**sink) if sink is not None else writer.format("noop")
    return writer.start()


def run(frame: Any, checkpoint: str, sink: dict[str, Any] | None = None, **trigger: Any) -> list[dict[str, Any]]:
    """Run a query until it ends by itself. Return its progress, without batches that have no rows."""
    query = start(frame, checkpoint, sink, **trigger)
    try:
        assert query.awaitTermination(SECONDS), "the query does not end"
        return [progress for progress in _progress(query) if progress["numInputRows"]]
    finally:
        query.stop()


def _progress(query: Any) -> list[dict[str, Any]]:
    import json

    return [json.loads(each.json) for each in query.recentProgress]


def sizes(progress: list[dict[str, Any]]) -> list[int]:
    return [each["numInputRows"] for each in progress]


def failure(action: Callable[[], Any]) -> str:
    """Return the text of the error that an action raises."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - Spark's errors have many classes
        return str(error)
    raise AssertionError("nothing was refused")


def sentence(words: str) -> str:
    """Return Penstock's sentence from an error of Spark. It must be in the first line of the message."""
    lines = [line for line in words.splitlines() if line.strip() and not line.endswith("from the Python worker:")]
    assert "penstock: " in lines[0], words
    assert "Traceback" not in words, words
    return lines[0].partition("penstock: ")[2]


def failing(frame: Any, flag: Path, on: str = "") -> Any:
    """Return the frame with a task that fails once: at the first row, or at `on`, unless the flag file exists."""
    from pyspark.sql import functions

    path, wanted = str(flag), on.encode()

    @functions.udf("binary")
    def fail_once(data):  # type: ignore[no-untyped-def] # Spark reads hints, and not these
        import pathlib

        if (not wanted or bytes(data) == wanted) and not pathlib.Path(path).exists():
            pathlib.Path(path).touch()
            raise RuntimeError("as the test wants it")
        return data

    return frame.select(fail_once("data").alias("data"))


def wait_until(true: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait for a condition that Spark does not announce. A timeout writes the stacks of all processes."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() >= until:
            with tempfile.TemporaryFile("w+") as report:  # a process needs a real file to write to
                dump_stacks(report)
                report.seek(0)
                print(report.read())
            raise AssertionError("it did not happen")
        time.sleep(0.05)


def uncommit(checkpoint: str) -> int:
    """Make Spark run the last batch of a checkpoint again, as after a crash before its commit."""
    commits = Path(checkpoint, "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in [commits / str(last), commits / f".{last}.crc"]:
        path.unlink(missing_ok=True)
    for path in commits.glob(f"*{last}*"):  # checksums have several names
        path.unlink() if path.is_file() else shutil.rmtree(path)
    return last


def into(server: Server, topic: str, **options: Any) -> dict[str, Any]:
    """Return the options of a sink."""
    return {"endpoint": server.endpoint, "topic": topic} | options


def arrow_schema(columns: Sequence[str] = COLUMNS) -> pa.Schema:
    """Return the Arrow schema of every batch that is read."""
    known = {
        "topic": pa.string(),
        "offset": pa.int64(),
        "message_id": pa.string(),
        "data": pa.binary(),
        "attributes": pa.map_(pa.string(), pa.string()),
        "publish_time": pa.timestamp("us", "UTC"),
        "ordering_key": pa.string(),
    }
    return pa.schema([(name, known[name]) for name in columns])
