"""The budget, the turns and the time limit of downloads, on a clock that is moved by hand."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from penstock.doors.flight import downloads
from penstock.doors.flight.downloads import Download, Downloads, Place, disconnect

ROWS = 6


class Harness:
    def __init__(self, bytes_max: int = 0, unread_seconds: float = 0) -> None:
        self.now = 100.0
        self.disconnected: list[str] = []
        self.begun: list[int] = []  # the offsets where scans began
        self.downloads = Downloads(bytes_max, unread_seconds, clock=lambda: self.now, hang_up=self._hang_up)
        self.open: dict[str, Download] = {}

    def _hang_up(self, peer: str) -> None:
        """End the call of a client that has disconnected."""
        self.disconnected.append(peer)
        self.open[peer].close()

    def download(self, peer: str = "client") -> Download:
        self.open[peer] = self.downloads.open(self.scan, peer)
        return self.open[peer]

    def scan(self, place: Place, batch_bytes: Callable[[], int]) -> Iterator[tuple[pa.RecordBatch, Place]]:
        first = place.offset or 0
        self.begun.append(first)
        for offset in range(first, ROWS):
            yield pa.record_batch({"offset": pa.array([offset], pa.int64())}), Place(0, offset + 1)


def offsets(download: Download) -> list[int]:
    return [batch.column("offset")[0].as_py() for batch in download]


def test_a_download_that_waits_for_its_client_makes_way_and_continues_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "TURNS_MAX", 1)
    harness = Harness()
    slow, quick = harness.download("slow"), harness.download("quick")
    first = next(slow)
    harness.now += 1
    assert offsets(quick) == list(range(ROWS))
    quick.close()
    assert [first.column("offset")[0].as_py(), *offsets(slow)] == list(range(ROWS))
    assert harness.begun == [0, 0, 1]


def test_the_batch_being_written_is_charged_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(bytes_max=1 << 20)
    download = harness.download()
    whole = harness.downloads.batch_bytes()
    held = next(download).nbytes
    assert harness.downloads.in_use_bytes == held
    monkeypatch.setattr(downloads, "BATCH_BYTES_MIN", 1)
    harness.downloads.charge(1 << 19)
    assert harness.downloads.batch_bytes() < whole
    harness.downloads.charge(-(1 << 19))
    download.close()
    assert harness.downloads.in_use_bytes == 0


def test_when_memory_is_short_the_client_that_waits_longest_is_disconnected() -> None:
    harness = Harness(bytes_max=8)  # one batch
    longest, newcomer = harness.download("longest"), harness.download("newcomer")
    next(longest)
    harness.now += downloads.HOLD_SECONDS + 1
    assert offsets(newcomer) == list(range(ROWS))
    assert harness.disconnected == ["longest"]


def test_without_any_to_make_way_a_download_is_refused() -> None:
    harness = Harness(bytes_max=8)
    harness.downloads.charge(8)
    download = harness.download()
    ticks = iter(range(1000))
    harness.downloads.clock = lambda: float(next(ticks))
    with pytest.raises(flight.FlightUnavailableError, match="too many downloads are not being read; try again later"):
        next(download)


def test_an_unread_download_is_ended_then_disconnected() -> None:
    harness = Harness(unread_seconds=60)
    read, unread = harness.download("read"), harness.download("unread")
    next(unread)
    harness.now += 59
    next(read)
    assert harness.downloads.end_unread() == []
    harness.now += 1
    assert harness.downloads.end_unread() == ["unread"]
    assert harness.downloads.end_unread() == []  # reported once
    assert offsets(read) == list(range(1, ROWS))
    with pytest.raises(flight.FlightUnavailableError, match="was not read for 60 s and was ended"):
        next(unread)
    silent = harness.download("silent")
    next(silent)
    harness.now += 60 + downloads.LINGER_SECONDS
    harness.downloads.end_unread()
    assert harness.disconnected == ["silent"]


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_client_is_disconnected_by_its_address(family: socket.AddressFamily, host: str) -> None:
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener, socket.create_connection(listener.getsockname()[:2]) as client, listener.accept()[0] as server:
        port = client.getsockname()[1]
        disconnect(f"ipv4:{host}:{port}" if family == socket.AF_INET else f"ipv6:%5B{host}%5D:{port}")
        assert client.recv(1) == b""
        assert server.recv(1) == b""


def test_a_client_of_a_real_server_is_disconnected_in_the_middle_of_a_call() -> None:
    begun: queue.SimpleQueue[str] = queue.SimpleQueue()
    ended = threading.Event()

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            begun.put(context.peer())
            with suppress(StopIteration):
                reader.read_chunk()
            ended.set()

    schema = pa.schema({"data": pa.binary()})
    with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        upload, _ = client.do_put(flight.FlightDescriptor.for_command(b""), schema)
        peer = begun.get(timeout=60)
        before = len(list(Path("/dev/fd").iterdir()))
        disconnect(peer)
        assert ended.wait(60), "the call has not ended"
        assert len(list(Path("/dev/fd").iterdir())) <= before, "file descriptors were left open"
        with pytest.raises(flight.FlightError):
            upload.close()
