"""The client of the admin API, against a real door and against other servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock import errors
from penstock.admin.client import Client, UnreachableError, error_of, path_of
from penstock.doors.http.errors import STATUSES
from penstock.doors.http.options import HttpOptions
from tests.doors.http.harness import Harness


@pytest.fixture
def admin() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


@pytest.fixture
def client(admin: Harness) -> Iterator[Client]:
    with Client(admin.door.address) as client:
        yield client


def test_calls_return_the_answers_of_the_server(client: Client) -> None:
    made = client.post("/topics", {"name": "orders"})
    assert made["id"] == "orders"
    assert client.patch("/topics/orders", {"retention_seconds": 5})["retention_seconds"] == 5
    assert client.get(path_of("topics", "projects/penstock/topics/orders"))["id"] == "orders"
    assert client.delete("/topics/orders") is None
    with pytest.raises(errors.NotFoundError, match=r"^Topic not found: projects/penstock/topics/orders$"):
        client.get("/topics/orders")
    assert client.get("/topics", search=None)["topics"] == [], "arguments that are None are not sent"


def test_threads_share_a_client(client: Client) -> None:
    """Each call uses a connection of its own, and none is left open, since Python would print a warning."""
    client.post("/topics", {"name": "t"})
    client.post("/subscriptions", {"name": "s", "topic": "t"})
    together, seen = threading.Barrier(4), list[int]()

    def call() -> None:
        together.wait(60)
        for _ in range(20):
            client.post("/subscriptions/s/pull", {"wait_seconds": 0.001})
            seen.append(len(client.get("/topics")["topics"]))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert seen == [1] * 80


def test_pages_give_every_item_of_a_list(client: Client) -> None:
    for number in range(7):
        client.post("/topics", {"name": f"t{number}"})
    assert [each["id"] for each in client.pages("/topics", "topics", page_size=3)] == [f"t{n}" for n in range(7)]


def test_errors_have_their_classes(client: Client) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"^page_size must be a whole number, at most 1000$"):
        client.get("/topics", page_size=10_000)
    client.post("/topics", {"name": "t"})
    with pytest.raises(errors.AlreadyExistsError):
        client.post("/topics", {"name": "t"})
    for kind, status in STATUSES.items():
        if status not in (500,):
            assert type(error_of(status, "why")) is kind
    assert type(error_of(500, "")) is errors.InternalError
    assert type(error_of(418, "tea")) is errors.InvalidArgumentError


def test_a_token_is_shown_and_a_wrong_one_is_refused() -> None:
    with Harness(HttpOptions(tokens=("good",), read_tokens=("r",))) as harness:
        with Client(harness.door.address, "good") as client:
            client.post("/topics", {"name": "t"})
        with Client(harness.door.address, "r") as client:
            assert client.get("/topics")["total"] == 1
            with pytest.raises(errors.PermissionDeniedError, match=r"^This token may only read\.$"):
                client.delete("/topics/t")
        with (
            Client(harness.door.address) as client,
            pytest.raises(errors.PermissionDeniedError, match="token is required"),
        ):
            client.get("/topics")


def test_one_connection_serves_all_calls(admin: Harness, client: Client) -> None:
    for _ in range(3):
        client.get("/topics")
        with pytest.raises(errors.NotFoundError):
            client.get("/topics/none")
    assert len(list(admin.door._server.connections)) == 1


@pytest.mark.parametrize("address", ["", "ftp://host", "host:port", "http://", "http://h/path", "http://h?x=1"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"^Invalid address"):
        Client(address)


@pytest.mark.parametrize("token", ["a\nb", "é"])
def test_an_invalid_token_is_refused(token: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"^A token must be printable ASCII text"):
        Client("127.0.0.1:8090", token)


def test_a_missing_server_is_reported() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(UnreachableError, match=f"^Cannot reach the server at http://{address}: connection refused$"):
        Client(address).get("/topics")


@pytest.mark.parametrize(
    ("sends", "sentence"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "is not the HTTP port of a Penstock server$"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "is not the HTTP port of a Penstock server$"),
        (b"HTTP/1.1 502 X\r\nContent-Length: 2\r\n\r\nno", "is not the HTTP port .*: it answered 502$"),
        (b'HTTP/1.1 404 X\r\nContent-Length: 9\r\n\r\n{"a": 1} ', "is not the HTTP port .*: it answered 404$"),
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "closed the connection without an answer"),
    ],
)
def test_another_server_at_the_address_is_reported(sends: bytes, sentence: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(sends)

        thread = threading.Thread(target=serve)
        thread.start()
        with Client(f"127.0.0.1:{server.getsockname()[1]}") as client, pytest.raises(UnreachableError, match=sentence):
            client.get("/topics")
        thread.join()
