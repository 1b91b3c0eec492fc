"""Peers that send half of a request and then wait or disappear: the server's memory stays within its budget.

The bound is the budget and a margin for the rest of the process. Each attack sends many times the budget, and clients
with complete requests are served meanwhile. The test covers every door.
"""

from __future__ import annotations

import http.client
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.text import Client
from tests.server_process import SECONDS, ServerProcess

MIB = 1 << 20
BUDGET = 8 * MIB
MARGIN = 40 * MIB  # connections, and freed memory that the C library keeps
TOKEN = "a-token"

Peer = Callable[[tuple[str, int]], socket.socket]


class Server(ServerProcess):
    ends_clean = True

    def __init__(self, folder: Path, **settings: str) -> None:
        doors = ["pubsub", "azure", "text", "http"]
        super().__init__(folder, "--memory", f"--buffer-bytes-max={BUDGET}", doors=doors, **settings)
        self.idle_bytes = self.resident_bytes()

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://{self.addresses['http']}/metrics", timeout=SECONDS) as answer:
            text = answer.read().decode()
        return sum(
            each.value
            for family in text_string_to_metric_families(text)
            for each in family.samples
            if each.name == name
        )


@pytest.fixture(scope="module", params=["without tokens", "with tokens"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = {"pubsub_tokens": TOKEN} if request.param == "with tokens" else {}
    with Server(tmp_path_factory.mktemp("memory"), **tokens) as server:
        yield server


def half_of_a_body(path: str, size: int) -> Peer:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size + 1}\r\n\r\n".encode()
    return lambda place: sent(place, head + bytes(size))


def half_of_a_call(place: tuple[str, int]) -> socket.socket:
    headers = [(":method", "POST"), (":scheme", "http"), (":path", "/google.pubsub.v1.Publisher/Publish")]
    headers += [(":authority", "localhost"), ("content-type", "application/grpc"), ("te", "trailers")]
    data = h2.PREFACE + h2.settings({}) + h2.frame(h2.HEADERS, h2.END_HEADERS, 1, hpack.encode(headers))
    data += h2.frame(h2.DATA, 0, 1, b"\0" + (5 * MIB).to_bytes(4, "big"))
    return sent(place, data + b"".join(h2.frame(h2.DATA, 0, 1, bytes(16_000)) for _ in range(4 * MIB // 16_000)))


def half_of_a_frame(place: tuple[str, int]) -> socket.socket:
    return sent(place, b"H0200102P01" + b"%033d" % 5 + b"notesP02" + b"%033d" % (5 * MIB) + bytes(4 * MIB))


def sent(place: tuple[str, int], data: bytes) -> socket.socket:
    """Send as much as the server accepts."""
    peer = socket.create_connection(place, SECONDS)
    with suppress(ConnectionError):  # the server has refused the request and closed the connection
        peer.sendall(data)
    return peer


ATTACKS = {
    "a gRPC call": ("pubsub", half_of_a_call, 4 * MIB),
    "a REST body": ("pubsub", half_of_a_body("/v1/projects/p/topics/t:publish", 4 * MIB), 4 * MIB),
    "an Azure body": ("azure", half_of_a_body("/devstoreaccount1/orders/messages", 90_000), 90_000),
    "a text frame": ("text", half_of_a_frame, 4 * MIB),
    "an HTTP body": ("http", half_of_a_body("/health", 60_000), 60_000),
}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_halves_of_requests_fill_no_more_than_the_budget(server: Server, name: str) -> None:
    door, attack, size = ATTACKS[name]
    with ExitStack() as stack:
        for number in range(min(900, 30 * BUDGET // size)):
            peer = stack.enter_context(attack(server.place(door)))
            if number % 10 == 9:
                peer.close()
        assert server.metric("penstock_buffer_bytes") <= BUDGET
        assert server.resident_bytes() - server.idle_bytes < BUDGET + MARGIN
        serve_honest_clients(server)
    while server.metric("penstock_buffer_bytes"):
        serve_honest_clients(server)  # until the server has released all memory of the attack
    assert server.resident_bytes() - server.idle_bytes < BUDGET + MARGIN


def serve_honest_clients(server: Server) -> None:
    """Check that small requests succeed while an attack fills the budget."""
    with urllib.request.urlopen(f"http://{server.addresses['http']}/health", timeout=SECONDS) as answer:
        assert answer.status == 200
    with Client(server.addresses["text"]) as client:
        client.send("honest", b"small")
    rest = http.client.HTTPConnection(*server.place("pubsub"), timeout=SECONDS)
    rest.request("PUT", "/v1/projects/p/topics/honest", "{}", {"Authorization": f"Bearer {TOKEN}"})
    assert rest.getresponse().status in (200, 409)
    rest.close()
