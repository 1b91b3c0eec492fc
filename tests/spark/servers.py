"""A real server as a process of its own, and what tests say to it.

The rule kept here: ports are free ones, waiting is for what is waited for, and a process is stopped by its id.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

SECONDS = 60.0  # only a failing test waits so long
DOORS = ("pubsub", "azure", "text", "flight", "http")


class Server:
    """A running server; `addresses` has host:port by door."""

    def __init__(self, process: subprocess.Popen[str], addresses: dict[str, str]) -> None:
        self.process = process
        self.addresses = addresses

    @property
    def endpoint(self) -> str:
        return self.addresses["flight"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

    # ------------------------------------------------------------------ through the Flight door

    def client(self) -> flight.FlightClient:
        return flight.FlightClient(f"grpc://{self.endpoint}")

    def ask(self, action: str, **body: Any) -> dict[str, Any]:
        with self.client() as client:
            answers = list(client.do_action(flight.Action(action, json.dumps(body).encode())))
        return dict(json.loads(answers[0].body.to_pybytes()))

    def tail(self, topic: str) -> int:
        return int(next(iter(self.ask("bounds", topics=[topic])["topics"].values()))["tail"])

    def publish(self, topic: str, rows: Sequence[bytes], attributes: Sequence[dict[str, str]] = ()) -> None:
        columns: dict[str, pa.Array] = {"data": pa.array(rows, pa.binary())}
        if attributes:
            pairs = [list(each.items()) for each in attributes]
            columns["attributes"] = pa.array(pairs, pa.map_(pa.string(), pa.string()))
        batch = pa.record_batch(columns)
        with self.client() as client:
            descriptor = flight.FlightDescriptor.for_command(json.dumps({"topic": topic}).encode())
            writer, answers = client.do_put(descriptor, batch.schema)
            writer.write_batch(batch)
            assert "published" in json.loads(answers.read().to_pybytes())
            writer.close()

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """All that a topic holds."""
        bound = next(iter(self.ask("bounds", topics=[topic])["topics"].values()))
        ticket = {"topic": topic, "first": bound["head"], "until": bound["tail"]}
        with self.client() as client:
            found: list[dict[str, Any]] = (
                client.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all().to_pylist()
            )
        return found

    def data(self, topic: str) -> list[bytes]:
        return [row["data"] for row in self.rows(topic)]

    # ------------------------------------------------------------------ through Google's REST

    def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{self.addresses['pubsub']}/v1/{path}",
            data=json.dumps(body).encode() if body is not None else None,
            method=method,
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return dict(json.loads(answer.read() or b"{}"))

    def rest_publish(self, topic: str, data: bytes, attributes: dict[str, str], key: str = "") -> str:
        message = {"data": base64.b64encode(data).decode(), "attributes": attributes, "orderingKey": key}
        answer = self.rest("POST", f"{topic}:publish", {"messages": [message]})
        return str(answer["messageIds"][0])


@contextmanager
def serve(folder: Path, *flags: str, ports: dict[str, str] | None = None, **settings: str) -> Iterator[Server]:
    """A server with all doors on free ports, or the given ones, until the end of the block."""
    ready = folder / f"ready-{os.urandom(4).hex()}.json"
    chosen = [part for door in DOORS for part in (f"--{door}-port", (ports or {}).get(door, "0"))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", *chosen, "--ready-file", str(ready), *flags],
        stdout=subprocess.PIPE,
        text=True,
        env=environment | {f"PENSTOCK_{name.upper()}": value for name, value in settings.items()},
    )
    try:
        _await_ready(process)
        yield Server(process, {k: v for k, v in json.loads(ready.read_text()).items() if k != "pid"})
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    watch = threading.Timer(SECONDS, process.kill)
    watch.start()
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("Ready."):
                return
    finally:
        watch.cancel()
    raise AssertionError(f"the server did not start: {''.join(said)}")
