"""A real server process with Arrow Flight, and an ordinary Flight client."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.flight as flight

from tests.server_process import SECONDS, ServerProcess

MAP = pa.map_(pa.string(), pa.string())


class Refused(Exception):  # noqa: N818 - it reads as what happened
    def __init__(self, error: flight.FlightError) -> None:
        self.details = json.loads(error.extra_info)
        self.code = self.details["code"]
        self.message = self.details["message"]
        self.kind = type(error)
        super().__init__(f"{self.code}: {self.message}")


class Client:
    def __init__(self, address: str, *, token: str = "", **options: Any) -> None:
        scheme = "grpc+tls" if options else "grpc"
        self._client = flight.connect(f"{scheme}://{address}", **options)
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self._options = flight.FlightCallOptions(timeout=SECONDS, headers=headers)

    def act(self, kind: str, /, **body: Any) -> Any:
        return json.loads(self.raw(kind, json.dumps(body).encode()))

    def raw(self, kind: str, body: bytes) -> bytes:
        with refusals():
            (result,) = self._client.do_action(flight.Action(kind, body), self._options)
            return bytes(result.body.to_pybytes())

    def get(self, **ticket: Any) -> pa.Table:
        return self.get_raw(json.dumps(ticket).encode())

    def get_raw(self, ticket: bytes) -> pa.Table:
        with refusals():
            return self._client.do_get(flight.Ticket(ticket), self._options).read_all()

    def scan(self, **ticket: Any) -> Any:
        """Return a stream that the caller reads."""
        return self._client.do_get(flight.Ticket(json.dumps(ticket).encode()), self._options)

    def put(
        self,
        command: dict[str, Any] | bytes,
        batches: Sequence[pa.RecordBatch],
        sequences: Sequence[int] = (),
        *,
        together: bool = False,
    ) -> list[dict[str, Any]]:
        """Send batches one after the other, or all before the first answer is read. Return the answers."""
        body = command if isinstance(command, bytes) else json.dumps(command).encode()
        with refusals():
            writer, reader = self._client.do_put(
                flight.FlightDescriptor.for_command(body), batches[0].schema, self._options
            )
            answers: list[Any] = []
            try:
                for index, batch in enumerate(batches):
                    if sequences:
                        writer.write_with_metadata(batch, json.dumps({"sequence": sequences[index]}).encode())
                    else:
                        writer.write_batch(batch)
                    if not together:
                        answers.append(reader.read())
                writer.done_writing()
                if together:
                    answers += [reader.read() for _ in batches]
            finally:
                writer.close()
            return [json.loads(answer.to_pybytes()) for answer in answers if answer is not None]

    def bounds(self, topic: str) -> dict[str, int]:
        found: dict[str, int] = next(iter(self.act("bounds", topics=[topic])["topics"].values()))
        return found

    def fill(self, topic: str, rows: int, *, start: int = 0, per_batch: int = 100) -> None:
        """Publish messages m0, m1, ... in many stored batches."""
        self.act("topic.ensure", topic=topic)
        batches = [
            messages(range(first, min(first + per_batch, start + rows)))
            for first in range(start, start + rows, per_batch)
        ]
        self.put({"topic": topic}, batches)

    def close(self) -> None:
        self._client.close()

    @property
    def client(self) -> flight.FlightClient:
        return self._client


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except flight.FlightError as error:
        if error.extra_info:
            raise Refused(error) from error
        raise


def messages(numbers: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch({"data": pa.array([f"m{number}".encode() for number in numbers], pa.binary())})


class FlightServer(ServerProcess):
    ends_clean = True

    def __init__(self, folder: Path, *arguments: str, **options: Any) -> None:
        super().__init__(folder, *arguments, doors=["flight", "pubsub", "http"], **options)

    @property
    def address(self) -> str:
        return self.addresses["flight"]

    @property
    def port(self) -> int:
        return self.place("flight")[1]

    def reader(self) -> psutil.Process:
        """Return the reader process. It starts with the first client."""
        if not self.readers():
            with talking(self) as client:
                client.act("bounds")
        (child,) = self.readers()
        return child

    def readers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def client(self, **options: Any) -> Client:
        return Client(self.address, **options)

    def metrics(self) -> str:
        return self.fetch("http", "/metrics").decode()

    def put(self, path: str, body: Any) -> None:
        """Create a resource through the Pub/Sub API."""
        self.fetch("pubsub", path, body, "PUT")

    def fetch(self, door: str, path: str, body: Any = None, method: str | None = None) -> bytes:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://{self.addresses[door]}{path}", data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            found: bytes = response.read()
            return found


@contextmanager
def talking(server: FlightServer, **options: Any) -> Iterator[Client]:
    client = server.client(**options)
    try:
        yield client
    finally:
        client.close()


def until(happens: Callable[[], bool], what: str) -> None:
    """Wait until a condition without an event is true."""
    end = time.monotonic() + SECONDS
    while not happens():
        assert time.monotonic() < end, f"{what} did not happen within {SECONDS} s"
        time.sleep(0.01)
