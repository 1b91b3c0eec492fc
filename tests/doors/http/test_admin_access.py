"""Access to the admin API, and requests that are refused before they are parsed."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from penstock.doors.http.admin.access import FOREIGN_PAGE, NO_TOKENS, Access
from penstock.doors.http.options import HttpOptions
from penstock.doors.http.server import PROBES
from penstock.wire.http1 import Request
from tests.doors.http.harness import SECONDS, Harness

ADMIN, READER = {"Authorization": "Bearer secret-a"}, {"Authorization": "bearer secret-r"}


@pytest.fixture
def admin() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


@pytest.fixture
def guarded() -> Iterator[Harness]:
    with Harness(HttpOptions(tokens=("secret-a", "secret-b"), read_tokens=("secret-r",))) as harness:
        yield harness


def test_without_tokens_this_machine_may_do_everything(admin: Harness) -> None:
    assert not admin.door.guarded
    assert admin.ask("POST", "/topics", {"name": "t"}).status == 201


def request_from(peer: str, **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in {"host": "localhost:8090", **headers}.items()}
    return Request("GET", "/admin/v1/topics", "", list(named.items()), b"", peer, named)


@pytest.mark.parametrize(
    "request_",
    [
        request_from("192.0.2.7"),
        request_from("127.0.0.1", host="broker.example:8090"),  # a name that was made to point to this machine
        request_from("127.0.0.1", x_forwarded_for="192.0.2.7"),
        *(
            request_from("127.0.0.1", **{name: "192.0.2.7"})
            for name in ("forwarded", "via", "x_real_ip", "x_forwarded_host", "x_forwarded_proto", "x_forwarded_port")
        ),
    ],
)
def test_without_tokens_other_machines_are_refused(request_: Request) -> None:
    refused = Access(HttpOptions()).refusal(request_)
    assert refused is not None
    assert refused.status == 403
    assert NO_TOKENS.encode() in refused.body


def test_with_tokens_every_client_needs_one(guarded: Harness) -> None:
    assert guarded.door.guarded
    none = guarded.ask("GET", "/topics")
    assert (none.status, none.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert none.sentence == (
        "A token is required. Send the header Authorization: Bearer TOKEN, or give the command --token."
    )
    for wrong in ("Bearer secret", "Bearer ", "Basic secret-a", "secret-a", "Bearer séc"):
        answer = guarded.ask("GET", "/topics", headers={"Authorization": wrong})
        assert (answer.status, answer.sentence[:14]) == (401, "Unknown token."), wrong
    assert guarded.ask("GET", "/topics", headers=ADMIN).status == 200
    assert guarded.ask("POST", "/topics", {"name": "t"}, headers={"Authorization": "Bearer secret-b"}).status == 201


def test_a_reader_may_look_and_change_nothing(guarded: Harness) -> None:
    assert guarded.ask("GET", "/topics", headers=READER).status == 200
    assert guarded.ask("HEAD", "/topics", headers=READER).status == 200
    for method, path in [("POST", "/topics"), ("DELETE", "/topics/t"), ("PATCH", "/topics/t"), ("PUT", "/nowhere")]:
        answer = guarded.ask(method, path, headers=READER)
        assert (answer.status, answer.sentence) == (403, "This token may only read.")


def test_probes_need_no_token(guarded: Harness) -> None:
    for path in ("/health", "/ready", "/metrics", "/"):
        assert guarded.ask("GET", f"/../..{path}").status in (404, 401), "no path around the prefix"
    connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=10)
    for path in ("/health", "/ready", "/metrics", "/"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()


def test_a_foreign_host_is_refused(admin: Harness) -> None:
    answer = admin.ask("GET", "/topics", headers={"Host": "evil.example"})
    assert answer.status == 403
    assert "http_allowed_hosts" in answer.sentence


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost.evil"])
def test_a_page_of_another_origin_is_refused(admin: Harness, origin: str) -> None:
    host = f"localhost:{admin.port}"
    answer = admin.ask("POST", "/topics", {"name": "t"}, headers={"Host": host, "Origin": origin})
    assert (answer.status, answer.sentence) == (403, FOREIGN_PAGE)
    assert admin.ask("GET", "/topics/t").status == 404


def test_a_page_of_its_own_is_answered(admin: Harness) -> None:
    host = f"localhost:{admin.port}"
    own = {"Host": host, "Origin": f"http://{host}"}
    assert admin.ask("POST", "/topics", {"name": "t"}, headers=own).status == 201
    assert admin.ask("GET", "/topics", headers={"Host": "localhost", "Origin": "http://localhost"}).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_body_must_say_that_it_is_json(admin: Harness, kind: str) -> None:
    answer = admin.ask("POST", "/topics", b'{"name": "t"}', headers={"Content-Type": kind})
    assert (answer.status, answer.sentence) == (415, "A body must have Content-Type: application/json.")
    good = admin.ask("POST", "/topics", b'{"name": "t"}', headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert good.status == 201


def test_a_body_may_be_large_here_and_nowhere_else(admin: Harness) -> None:
    large = {"messages": [{"data": "x" * (1 << 20)}]}
    admin.post("/topics", {"name": "t"})
    assert admin.ask("POST", "/topics/t/messages", large).status == 200
    answer = admin.ask("POST", "/topics", b"x" * (16 << 20) + b"x", headers={"Content-Type": "application/json"})
    assert (answer.status, answer.headers["Connection"]) == (413, "close")


def test_unknown_paths_and_methods(admin: Harness) -> None:
    answer = admin.ask("GET", "/nowhere")
    assert (answer.status, answer.sentence) == (
        404,
        "Not found. GET /admin/v1/openapi.json describes the admin API.",
    )
    answer = admin.ask("PUT", "/topics")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST")
    assert admin.ask("DELETE", "/topics/t", {"a": 1}).sentence == "This request takes no body"
    assert admin.ask("GET", "/topics?search=%FF").sentence == "The query is not UTF-8"
    assert admin.ask("GET", "/topics?search=a&search=b").sentence == "The parameter search is given twice"
    many = "&".join(f"a{n}=1" for n in range(200))
    assert admin.ask("GET", f"/topics?{many}").sentence == "A query has at most 100 parameters"


def test_health_and_readiness_answer_beside_too_many_idle_connections(
    admin: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probes may share their address with other clients, as behind a NAT."""
    monkeypatch.setattr(admin.door._server.connections, "_per_address_max", 3)
    idle = [socket.create_connection(("127.0.0.1", admin.port)) for _ in range(PROBES + 10)]
    try:
        for path, status in (("/health", 200), ("/ready", 200), ("/health", 200), ("/metrics", 503), ("/", 503)):
            connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=SECONDS)
            connection.request("GET", path, headers={"Host": "localhost"})
            assert connection.getresponse().status == status, path
            connection.close()
    finally:
        for opened in idle:
            opened.close()
