"""Downloads that are not read: their memory is bounded, they are ended in time, and they hold up no other client."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from tests.doors.flight.flight_server import FlightServer, Refused, refusals, talking, until

ROW_BYTES, ROWS = 1_000, 40_000
CLIENTS = 40
MIB = 1 << 20


def fill(server: FlightServer) -> None:
    with talking(server) as client:
        client.act("topic.ensure", topic="large")
        batch = pa.record_batch({"data": pa.array([os.urandom(ROW_BYTES)] * 4_000, pa.binary())})
        client.put({"topic": "large"}, [batch] * (ROWS // 4_000))


@contextmanager
def unread(server: FlightServer) -> Iterator[flight.FlightStreamReader]:
    """Start a download on a separate connection, and read nothing from it."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    with flight.FlightClient(f"grpc://{server.address}", generic_options=own) as client:
        ticket = json.dumps({"topic": "large", "first": 0, "until": ROWS}).encode()
        stream = client.do_get(flight.Ticket(ticket))
        try:
            yield stream
        finally:
            stream.cancel()


def test_clients_that_do_not_read_hold_bounded_memory_and_give_it_back(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data"), "--flight-read-bytes-max", str(32 * MIB)) as server:
        fill(server)
        with talking(server) as client:
            assert client.get(topic="large", first=0, until=ROWS).num_rows == ROWS
        reader = server.reader()
        before = reader.memory_info().rss
        most = before
        with ExitStack() as stack:
            streams = [stack.enter_context(unread(server)) for _ in range(CLIENTS)]
            first = [stream.read_chunk().data.num_rows for stream in streams]  # each has begun
            with talking(server) as client:
                assert client.get(topic="large", first=0, until=ROWS).num_rows == ROWS
            most = reader.memory_info().rss
            assert most - before < 200 * MIB, f"{(most - before) / MIB:.0f} MiB for {CLIENTS} unread downloads"
            # A download whose working set was evicted continues where it was.
            for stream, rows in zip(streams[:2], first, strict=False):
                assert rows + sum(chunk.data.num_rows for chunk in stream) == ROWS
        until(lambda: reader.memory_info().rss < before + 32 * MIB, "the memory coming back")


def test_a_download_that_is_not_read_in_time_is_ended_with_a_sentence(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data"), "--flight-read-timeout", "1") as server:
        fill(server)
        with unread(server) as stream:
            rows = stream.read_chunk().data.num_rows
            until(lambda: "did not read it" in server.log(), "the end of the download")
            with (
                pytest.raises(Refused, match=r"^unavailable: The download was not read for 1 s and was ended"),
                refusals(),
            ):
                rows += sum(chunk.data.num_rows for chunk in stream)
            assert rows < ROWS
        with talking(server) as client:
            assert client.get(topic="large", first=0, until=ROWS).num_rows == ROWS
