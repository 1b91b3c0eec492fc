"""The REST API: JSON, errors, web pages of this machine and of other hosts, tokens and TLS."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from penstock.doors.google import messages as m
from penstock.doors.google import rest as rest_door
from penstock.doors.google.options import GoogleOptions
from penstock.engine import lookups
from tests.doors.google.harness import SECONDS, Client, Harness, eventually, opened, rest

TOPIC = "/v1/projects/rest/topics/one"


@pytest.fixture(scope="module", autouse=True)
def topic(harness: Harness) -> str:
    assert rest(harness.address, "PUT", TOPIC, {})[0] == 200
    return TOPIC


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "name"),
    [
        ("GET", "/v1/projects/rest/topics/missing", None, 404, "NOT_FOUND"),
        ("PUT", TOPIC, {}, 409, "ALREADY_EXISTS"),
        ("PUT", "/v1/projects/rest/topics/x", {}, 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1/projects/rest/topics/new", b"{", 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1/projects/rest/topics/new", b"[]", 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1/projects/rest/topics/new", b"\xff", 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1/projects/rest/topics/new", {"nothing": 1}, 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1/projects/rest/topics/new", {"labels": 1}, 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1/projects/rest/topics/new", b"[" * 100_000, 400, "INVALID_ARGUMENT"),
        ("POST", f"{TOPIC}:publish", {"messages": [{"data": "!"}]}, 400, "INVALID_ARGUMENT"),
        ("POST", f"{TOPIC}:publish", {"messages": []}, 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/projects/rest/topics?pageSize=x", None, 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/projects/rest/topics?nothing=1", None, 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/projects/rest/nothing", None, 404, "NOT_FOUND"),
        ("POST", f"{TOPIC}:nothing", {}, 404, "NOT_FOUND"),
        ("GET", "/v2/projects/rest/topics", None, 404, "NOT_FOUND"),
        ("GET", "/nothing", None, 404, "NOT_FOUND"),
        ("POST", "/", {}, 404, "NOT_FOUND"),
    ],
)
def test_an_error_has_a_status_a_name_and_a_text(
    harness: Harness, verb: str, path: str, body: Any, status: int, name: str
) -> None:
    got, answer = rest(harness.address, verb, path, body)
    assert (got, answer["error"]["code"], answer["error"]["status"]) == (status, status, name)
    assert answer["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            f"{TOPIC}:publish",
            {"messages": [{"data": "hello world!"}]},
            "Invalid value at 'messages[0].data' (TYPE_BYTES)",
        ),
        (
            f"{TOPIC}:publish",
            {"messages": [{}, {"data": '{"a": 1}'}]},
            "Invalid value at 'messages[1].data' (TYPE_BYTES)",
        ),
        (f"{TOPIC}:publish", {"messages": [{"data": 5}]}, "Base64 decoding failed for 5"),
        (f"{TOPIC}:publish", {"messages": [{"attributes": {"a": 5}}]}, "'messages[0].attributes[a]' (TYPE_STRING), 5"),
        (f"{TOPIC}:publish", {"messages": [{"attributes": {"a": None}}]}, "'messages[0].attributes[a]'"),
        (f"{TOPIC}:publish", {"messages": "x"}, "Invalid value at 'messages' (list)"),
        (f"{TOPIC}:publish", {"nothing": 5}, 'Unknown name "nothing": Cannot find field.'),
        (f"{TOPIC}:publish", {"messages": [{"publishTime": 5}]}, "google.protobuf.Timestamp"),
        (
            "/v1/projects/rest/schemas:validateMessage",
            {"schema": {"compiledProtoSchema": {"compiledBytes": "no good"}}},
            "'schema.compiled_proto_schema.compiled_bytes' (TYPE_BYTES), Base64",
        ),
        ("/v1/projects/rest/schemas:validateMessage", {"message": "no good"}, "'message' (TYPE_BYTES), Base64"),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused_by_name(
    harness: Harness, path: str, body: Any, message: str
) -> None:
    status, answer = rest(harness.address, "POST", path, body)
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert message in answer["error"]["message"]


def test_a_large_body_does_not_hold_up_other_callers(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of 13 MB with 4 million values took 13 seconds in which the server answered no one."""
    parse, begun, may_end = rest_door.request_message, threading.Event(), threading.Event()

    def parse_slowly(kind: Any, matched: Any, body: bytes, parameters: Any) -> Any:
        if len(body) > rest_door.INLINE_BYTES:
            begun.set()
            assert may_end.wait(SECONDS), "no other request was answered"
        return parse(kind, matched, body, parameters)

    monkeypatch.setattr(rest_door, "request_message", parse_slowly)
    large = {"messages": [{"data": "QUJD" * 100_000}]}
    with ThreadPoolExecutor() as pool:
        publish = pool.submit(rest, harness.address, "POST", f"{TOPIC}:publish", large)
        assert begun.wait(SECONDS)
        status, _ = rest(harness.address, "GET", TOPIC)
        may_end.set()
        assert (status, publish.result(SECONDS)[0]) == (200, 200)


def test_a_body_of_too_many_values_is_refused_unread(harness: Harness) -> None:
    body = b'{"messages": [%s]}' % b",".join([b"{}"] * (rest_door.COMMAS_MAX + 2))
    status, answer = rest(harness.address, "POST", f"{TOPIC}:publish", body)
    assert (status, answer["error"]["message"][-38:]) == (400, "The body has more than 500,000 values.")


def test_a_body_may_repeat_what_the_path_says(harness: Harness) -> None:
    body = {"name": "projects/rest/topics/two", "labels": {"a": "b"}}
    status, answer = rest(harness.address, "PUT", "/v1/projects/rest/topics/two", body)
    assert (status, answer["name"], answer["labels"]) == (200, body["name"], {"a": "b"})


@pytest.mark.parametrize(
    "query",
    [
        "alt=json&prettyPrint=false&key=x&$.xgafv=1",
        "$alt=json&$prettyPrint=true&$key=x&$fields=topics.name&$callback=f&$quotaUser=u&$userProject=p",
        "%24alt=json%3Benum-encoding%3Dint&%24.xgafv=2",
        "fields=*&callback=&quotaUser=u&access_token=t&oauth_token=t&upload_protocol=raw&uploadType=media",
    ],
)
def test_parameters_of_every_google_api_are_ignored(harness: Harness, query: str) -> None:
    assert rest(harness.address, "GET", f"/v1/projects/rest/topics?{query}&pageSize=1")[0] == 200


def test_fields_choose_a_part_of_the_answer_and_a_wrong_one_changes_nothing(harness: Harness) -> None:
    path = "/v1/projects/rest/topics/partial"
    assert rest(harness.address, "PUT", f"{path}?fields=absent", {"labels": {"a": "b"}})[0] == 400
    assert rest(harness.address, "GET", path)[0] == 404
    status, answer = rest(harness.address, "PUT", f"{path}?fields=name,labels/a", {"labels": {"a": "b", "c": "d"}})
    assert (status, answer) == (200, {"name": "projects/rest/topics/partial", "labels": {"a": "b"}})


@pytest.mark.parametrize("query", ["$nothing=1", "$alt=proto", "alt=media", "$alt=json;enum-encoding=x"])
def test_an_unsupported_system_parameter_is_refused(harness: Harness, query: str) -> None:
    assert rest(harness.address, "GET", f"/v1/projects/rest/topics?{query}")[0] == 400


def test_enums_are_numbers_where_the_caller_asks_for_them(harness: Harness) -> None:
    assert rest(harness.address, "GET", TOPIC)[1]["state"] == "ACTIVE"
    for query in ("$alt=json;enum-encoding=int", "alt=json%3Benum-encoding=int"):
        assert rest(harness.address, "GET", f"{TOPIC}?{query}")[1]["state"] == 1


@pytest.mark.parametrize("mask", ["messageRetentionDuration", "message_retention_duration"])
@pytest.mark.parametrize("field", ["updateMask", "update_mask"])
def test_an_update_mask_is_read_in_both_spellings(harness: Harness, field: str, mask: str) -> None:
    path = "/v1/projects/rest/topics/masked"
    rest(harness.address, "PUT", path, {})
    for seconds in ("600s", "1200s"):
        body = {"topic": {"messageRetentionDuration": seconds}, field: f"labels,{mask}"}
        status, answer = rest(harness.address, "PATCH", path, body)
        assert (status, answer.get("messageRetentionDuration")) == (200, seconds)


@pytest.mark.parametrize("mask", [5, "labels_", "_labels", ["labels"], {"paths": ["labels"]}])
def test_an_invalid_update_mask_is_refused(harness: Harness, mask: Any) -> None:
    assert rest(harness.address, "PATCH", TOPIC, {"topic": {}, "updateMask": mask})[0] == 400


def test_escapes_in_a_path_are_undone(harness: Harness) -> None:
    assert rest(harness.address, "PUT", "/v1/projects/rest/topics/plus%2Bpercent%25", {})[1]["name"] == (
        "projects/rest/topics/plus+percent%"
    )


def test_a_name_may_be_escaped_as_a_whole_and_its_action_with_it(harness: Harness) -> None:
    name = "projects%2Frest%2Ftopics%2Fescaped"
    assert rest(harness.address, "PUT", f"/v1/{name}", {})[1]["name"] == "projects/rest/topics/escaped"
    for colon in (":", "%3A", "%3a"):
        status, answer = rest(harness.address, "POST", f"/v1/{name}{colon}publish", {"messages": [{"data": "eA=="}]})
        assert (status, len(answer["messageIds"])) == (200, 1)


def test_exactly_once_details_are_returned(harness: Harness, client: Client) -> None:
    name = client.subscription("projects/rest/topics/one", enable_exactly_once_delivery=True)
    number = lookups.subscription(harness.queue.engine, name).number
    status, answer = rest(harness.address, "POST", f"/v1/{name}:acknowledge", {"ackIds": [f"{number}-9-9"]})
    (details,) = answer["error"]["details"]
    assert (status, details["reason"]) == (400, "EXACTLY_ONCE_ACKID_FAILURE")
    assert details["metadata"] == {f"{number}-9-9": "PERMANENT_FAILURE_INVALID_ACK_ID"}


def test_a_pull_whose_caller_disconnected_leases_nothing(harness: Harness, client: Client) -> None:
    """Such a lease would hide the message until its deadline, and count one attempt more."""
    topic = client.topic()
    name = client.subscription(topic)
    body = b'{"maxMessages": 1}'
    head = f"POST /v1/{name}:pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    host, _, port = harness.address.rpartition(":")
    with socket.create_connection((host, int(port)), SECONDS) as caller:
        caller.sendall(head + body)
        eventually(lambda: harness.queue.loop.wakeups._waiting)
    eventually(lambda: not harness.queue.loop.wakeups._waiting)
    client.publish(topic, b"x")
    assert [each.message.data for each in client.pull(name)] == [b"x"]


# ---------------------------------------------------------------------- browsers


def cors(address: str, verb: str, origin: str, host: str = "") -> tuple[int, dict[str, str]]:
    name, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(name, int(port), timeout=SECONDS)
    headers = {"Origin": origin, "Access-Control-Request-Headers": "x-mine", **({"Host": host} if host else {})}
    connection.request(verb, TOPIC, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, {key.lower(): value for key, value in response.headers.items()}


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8080", "https://ui.localhost"])
def test_pages_of_this_machine_are_allowed(harness: Harness, origin: str) -> None:
    status, headers = cors(harness.address, "OPTIONS", origin)
    assert (status, headers["access-control-allow-origin"]) == (204, origin)
    assert "PATCH" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "x-mine"
    assert cors(harness.address, "GET", origin)[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example"])
def test_pages_of_other_hosts_are_refused(harness: Harness, origin: str) -> None:
    status, headers = cors(harness.address, "GET", origin)
    assert status == 403
    assert "access-control-allow-origin" not in headers


def test_a_foreign_host_header_is_refused(harness: Harness) -> None:
    assert cors(harness.address, "GET", "http://localhost", host="evil.example")[0] == 403


def test_the_operator_may_allow_other_pages() -> None:
    with opened(GoogleOptions(cors_origins=("https://ui.example",))) as harness:
        rest(harness.address, "PUT", TOPIC, {})
        assert cors(harness.address, "GET", "https://ui.example")[0] == 200
        assert cors(harness.address, "GET", "https://evil.example")[0] == 403
        assert rest(harness.address, "POST", "/reset")[0] == 404  # not allowed here


# ---------------------------------------------------------------------- tokens and TLS


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, bytes]]:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    options = GoogleOptions(
        tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem"), tokens=("secret", "other")
    )
    with opened(options) as harness:
        yield harness, authority.cert_pem.bytes()


def secure_call(harness: Harness, trusted: bytes, *metadata: tuple[str, str]) -> str:
    method = harness.kinds["google.pubsub.v1.Publisher/ListTopics"]
    with grpc.secure_channel(harness.address, grpc.ssl_channel_credentials(trusted)) as channel:
        stub = channel.unary_unary(method.path, lambda each: each.SerializeToString(), method.response.FromString)
        try:
            stub(method.request(project="projects/p"), timeout=SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Bearer secret", "OK"),
        ("bearer other", "OK"),
        ("Bearer wrong", "UNAUTHENTICATED"),
        ("Basic secret", "UNAUTHENTICATED"),
        ("", "UNAUTHENTICATED"),
    ],
)
def test_grpc_over_tls_with_a_token(secured: tuple[Harness, bytes], header: str, code: str) -> None:
    harness, trusted = secured
    assert secure_call(harness, trusted, *([("authorization", header)] if header else [])) == code


@pytest.mark.parametrize(("header", "status"), [("Bearer secret", 200), ("Bearer wrong", 401), ("", 401)])
def test_rest_over_tls_with_a_token(secured: tuple[Harness, bytes], header: str, status: int) -> None:
    harness, trusted = secured
    context = ssl.create_default_context(cadata=trusted.decode())
    host, _, port = harness.address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=SECONDS, context=context)
    connection.request("GET", "/v1/projects/p/topics", headers={"Authorization": header} if header else {})
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == status


def test_health_needs_no_token(secured: tuple[Harness, bytes]) -> None:
    harness, trusted = secured
    request, kind = (m.message(f"grpc.health.v1.HealthCheck{end}") for end in ("Request", "Response"))
    with grpc.secure_channel(harness.address, grpc.ssl_channel_credentials(trusted)) as channel:
        stub = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, kind.FromString)
        assert stub(request().SerializeToString(), timeout=SECONDS).status == 1


def test_plain_text_is_refused_on_a_tls_port(secured: tuple[Harness, bytes]) -> None:
    harness, _ = secured
    with pytest.raises((http.client.HTTPException, OSError)):
        rest(harness.address, "GET", "/")
