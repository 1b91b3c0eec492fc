"""The life of the Flight server: its start, its reader process and its replacement, and its stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.flight as flight
import pytest
import trustme

from tests.doors.flight.flight_server import Client, FlightServer, Refused, messages, talking, until
from tests.server_process import SECONDS, refused

# size of an HTTP/2 frame; the server may send one byte more
WINDOW_UPDATE = bytes([0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1])
OTHERS_CLOSED = ("--pubsub-port=off", "--azure-port=off", "--text-port=off", "--http-port=off")


def answers(server: FlightServer) -> bool:
    """Send a request with a new client, because a refused client waits longer before each retry."""
    try:
        with talking(server) as client:
            client.act("bounds")
    except (flight.FlightError, Refused):
        return False
    return True


def test_a_killed_reader_process_is_replaced_at_the_same_address(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        with talking(server) as client:
            client.fill("stays", 100)
        for _ in range(2):
            before = server.reader().pid
            server.reader().kill()
            assert server.fetch("http", "/health")  # the other calls continue
            assert server.fetch("pubsub", "/v1/projects/penstock/topics")
            until(lambda: answers(server), "the door coming back")
            assert server.reader().pid != before
            with talking(server) as client:
                assert client.get(topic="stays", first=0, until=100).num_rows == 100
        assert "the reader process ended (exit code -9)" in server.log()


def test_there_is_no_reader_process_before_the_first_client(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        assert json.loads(server.fetch("http", "/ready"))["ready"] is True
        assert server.readers() == []
        with talking(server) as first, talking(server) as second:
            first.fill("early", 1000)
            assert len(server.readers()) == 1
            for client in (first, second):  # the first call may come before the reader process has started
                assert client.get(topic="early", first=0, until=1000).num_rows == 1000


def test_clients_that_connect_at_once_are_served(folder: Path) -> None:
    with FlightServer(folder, "--memory") as server, ThreadPoolExecutor(20) as crowd:
        for visit in [crowd.submit(until, lambda: answers(server), "an answer") for _ in range(20)]:
            visit.result()
        assert len(server.readers()) == 1


def test_a_server_that_saw_no_client_stops_and_leaves_its_port(folder: Path) -> None:
    with FlightServer(folder, "--memory") as server:
        port = server.port
        assert server.stop() == 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_a_client_that_says_nothing_and_leaves(folder: Path) -> None:
    with FlightServer(folder, "--memory") as server:
        socket.create_connection(("127.0.0.1", server.port)).close()
        until(lambda: answers(server), "the door answering")
        assert server.stop() == 0


def test_a_server_is_stopped_while_its_reader_process_starts(folder: Path) -> None:
    with FlightServer(folder, "--memory") as server, socket.create_connection(("127.0.0.1", server.port)):
        until(lambda: len(server.readers()) == 1, "the reader process")
        assert server.stop() == 0
        assert "did not finish" not in server.log()


def test_other_doors_serve_while_the_reader_process_is_stopped(memory: FlightServer) -> None:
    with talking(memory) as client:
        client.fill("busy", 10)
        reader = memory.reader()
        reader.suspend()
        try:
            path = "/v1/projects/penstock/topics/busy:publish"
            found = json.loads(memory.fetch("pubsub", path, {"messages": [{"data": "aGk="}]}))
        finally:
            reader.resume()
        assert len(found["messageIds"]) == 1
        assert client.bounds("busy")["tail"] == 11


def test_a_killed_server_leaves_nothing_behind(folder: Path) -> None:
    server = FlightServer(folder, "--data", str(folder / "data"))
    reader = server.reader()
    server.kill()
    gone, alive = psutil.wait_procs([reader], timeout=5)
    assert gone
    assert not alive
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", server.port))
        probe.listen()


def test_two_servers_do_not_share_a_port(memory: FlightServer) -> None:
    code, said = refused("serve", "--memory", *OTHERS_CLOSED, f"--flight-port={memory.port}")
    assert code == 1
    expected = f"penstock: cannot open flight: another program listens on 127.0.0.1:{memory.port}; "
    assert said.strip().splitlines()[-1].startswith(expected)
    assert answers(memory)


def test_a_fixed_port_is_taken_again_after_a_restart(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        with talking(server) as client:
            client.fill("again", 5)
        port = server.port
        server.stop()
        server.start()
        assert server.port == port
        with talking(server) as client:
            assert client.get(topic="again", first=0, until=5).num_rows == 5


@pytest.mark.parametrize("comes_first", [True, False], ids=["before the reader process", "after it"])
def test_streams_are_finished_before_the_server_stops(folder: Path, *, comes_first: bool) -> None:
    """A client on a slow link gets all bytes that the server has written."""
    with FlightServer(folder, "--data", str(folder / "data")) as server, ThreadPoolExecutor(1) as pool:
        if not comes_first:
            server.reader()
        link = Link(server.place("flight"), stops_at=19_700_000)
        client = Client(link.address)
        client.act("topic.ensure", topic="long")
        body = pa.record_batch({"data": pa.array([b"x" * 20_000] * 250, pa.binary())})
        client.put({"topic": "long"}, [body] * 4)
        reader, process = client.scan(topic="long", first=0, until=1000), server.reader()
        rows = reader.read_chunk().data.num_rows
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in server.log(), "the end")
        others = pool.submit(lambda: sum(chunk.data.num_rows for chunk in reader))
        assert link.stopped.wait(SECONDS)
        psutil.wait_procs([process], timeout=0.5)  # a reader process that stopped too early would end here
        link.goes_on.set()
        assert rows + others.result() == 1000
        assert server.wait() == 0
        assert "did not finish" not in server.log()


class Link:
    """A proxy for one client that stops once, both ways, after a number of bytes of answers."""

    def __init__(self, place: tuple[str, int], *, stops_at: int) -> None:
        self._place, self._stops_at = place, stops_at
        self.stopped, self.goes_on = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with self._listener, self._listener.accept()[0] as client, socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # the received bytes are at the sender
            server.connect(self._place)
            requests = threading.Thread(target=self._carry, args=(client, server), daemon=True)
            requests.start()
            self._carry(server, client, answers=True)
            requests.join(SECONDS)

    def _carry(self, source: socket.socket, target: socket.socket, *, answers: bool = False) -> None:
        with suppress(OSError):
            carried = 0
            while piece := source.recv(1 << 16):
                carried += len(piece)
                if answers and carried >= self._stops_at and not self.stopped.is_set():
                    self.stopped.set()
                    self.goes_on.wait(SECONDS)
                    source.sendall(WINDOW_UPDATE)  # a client that reads sends window updates
                if self.stopped.is_set():
                    self.goes_on.wait(SECONDS)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)


def test_scans_that_were_broken_off_do_not_hold_up_the_end(folder: Path) -> None:
    with FlightServer(folder, "--memory") as server, talking(server) as client:
        client.fill("left", 50_000, per_batch=10_000)
        for chunks in (0, 1):
            reader = client.scan(topic="left", first=0, until=50_000)
            for _ in range(chunks):
                reader.read_chunk()
            reader.cancel()
        assert server.stop() == 0
        assert "did not finish" not in server.log()


def test_a_long_poll_does_not_hold_up_the_end(folder: Path) -> None:
    with FlightServer(folder, "--memory") as server, talking(server) as client:
        client.fill("wait", 1)
        polling = threading.Thread(
            target=lambda: client.act("bounds", topics=["wait"], after={"wait": 1}, wait_seconds=30)
        )
        polling.start()
        polling.join(0.3)
        assert server.stop() == 0
        polling.join(SECONDS)
        assert "did not finish in time" not in server.log()


def test_a_signal_to_the_process_group_does_not_end_the_reader_process(memory: FlightServer) -> None:
    reader = memory.reader()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(reader.pid, number)
    with talking(memory) as client:
        client.fill("calm", 3)
    assert memory.reader().pid == reader.pid
    assert os.getsid(reader.pid) != os.getsid(memory.process.pid)


def test_the_server_does_not_load_arrow(memory: FlightServer) -> None:
    assert "libarrow" not in Path(f"/proc/{memory.process.pid}/maps").read_text()
    assert "libarrow" in Path(f"/proc/{memory.reader().pid}/maps").read_text()


# ---------------------------------------------------------------------- access


def test_tokens_are_asked_for(folder: Path) -> None:
    with FlightServer(folder, "--memory", flight_tokens="first,second") as server:
        for token in ("first", "second"):
            with talking(server, token=token) as client:
                client.fill("guarded", 3)
                assert client.get(topic="guarded", first=0, until=3).num_rows == 3
        for token in ("", "third", "firs"):
            with talking(server, token=token) as client:
                for call in (
                    lambda: client.act("bounds"),
                    lambda: client.get(topic="guarded", first=0, until=3),
                    lambda: client.put({"topic": "guarded"}, [messages([1])]),
                ):
                    with pytest.raises(Refused, match="unauthenticated: A bearer token is needed") as caught:
                        call()
                    assert caught.value.kind is flight.FlightUnauthenticatedError
        command = psutil.Process(server.reader().pid).cmdline()
        assert "first" not in " ".join(command)


def test_tls(folder: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    certificate, key, root = folder / "cert.pem", folder / "key.pem", folder / "root.pem"
    issued.private_key_pem.write_to_path(key)
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(root)
    tls = {"flight_tls_cert": str(certificate), "flight_tls_key": str(key)}
    with FlightServer(folder, "--memory", **tls) as server:
        with talking(server, tls_root_certs=root.read_bytes()) as client:
            client.fill("secret", 3)
            assert client.get(topic="secret", first=0, until=3).num_rows == 3
        assert not answers(server)  # it calls without TLS


def test_a_certificate_that_cannot_be_used(folder: Path) -> None:
    (folder / "cert.pem").write_text("not a certificate")
    flags = ["--memory", *OTHERS_CLOSED, "--flight-port=0"]
    code, said = refused("serve", *flags, flight_tls_cert=str(folder / "cert.pem"))
    assert code == 1
    assert "cannot open flight: flight_tls_cert and flight_tls_key cannot be used" in said
