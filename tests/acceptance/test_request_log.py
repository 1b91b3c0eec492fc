"""The request log of a real server: one line for each request at every door, without secrets."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import pubsub_v1
from pyarrow import flight

from penstock.text import Client
from tests.server_process import SECONDS, ServerProcess

SECRET = "Tr0ub4dor"
TOPIC = "projects/cafe/topics/orders"
SUBSCRIPTION = "projects/cafe/subscriptions/kitchen"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield a server that logs requests. Its log level shows that the lines of requests do not depend on the level."""
    flags = ("--memory", "--log-requests", "--log-format", "json", "--log-level", "warning")
    with ServerProcess(tmp_path_factory.mktemp("server"), *flags) as served:
        yield served


class Lines:
    """The lines of requests since this object was created. No line may contain a body, a token or a signature."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._before = len(server.log())

    def requests(self, wanted: int) -> list[dict[str, Any]]:
        """Wait until there are `wanted` lines, and return all."""
        for _ in range(int(SECONDS * 50)):
            log = self._server.log()[self._before :]
            lines = [json.loads(line) for line in log.splitlines() if line.endswith("}")]
            requests = [line for line in lines if line["logger"] == "penstock.requests"]
            if len(requests) >= wanted:
                break
            threading.Event().wait(0.02)
        assert SECRET not in log
        for line in requests:
            assert line["microseconds"] >= 0
        return requests

    def summaries(self, wanted: int) -> list[tuple[str, ...]]:
        keys = ("door", "verb", "resource", "result")
        return [tuple(line[key] for key in keys) for line in self.requests(wanted)]


def ask(server: ServerProcess, door: str, method: str, path: str, body: bytes | None = None) -> int:
    asked = urllib.request.Request(f"http://{server.addresses[door]}{path}", method=method, data=body)
    asked.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_rest_calls_are_logged_by_the_names_of_their_methods(server: ServerProcess) -> None:
    lines, topic = Lines(server), "projects/cafe/topics/pastries"
    ask(server, "pubsub", "PUT", f"/v1/{topic}", b"{}")
    body = json.dumps({"messages": [{"data": "AAAA", "attributes": {"word": SECRET}}]}).encode()
    ask(server, "pubsub", "POST", f"/v1/{topic}:publish?access_token={SECRET}", body)
    ask(server, "pubsub", "GET", "/v1/projects/cafe/topics/absent")
    ask(server, "pubsub", "GET", "/nothing")
    assert lines.summaries(4) == [
        ("pubsub", "CreateTopic", topic, "200"),
        ("pubsub", "Publish", topic, "200"),
        ("pubsub", "GetTopic", "projects/cafe/topics/absent", "404"),
        ("pubsub", "GET", "/nothing", "404"),
    ]


def test_grpc_calls_have_a_line_each_and_streams_two(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(server, "pubsub", "PUT", f"/v1/{TOPIC}", b"{}")
    lines = Lines(server)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.addresses["pubsub"])
    with pubsub_v1.PublisherClient() as out, pubsub_v1.SubscriberClient() as back:
        back.create_subscription(name=SUBSCRIPTION, topic=TOPIC)
        out.publish(TOPIC, SECRET.encode()).result(SECONDS)
        with pytest.raises(Exception, match="not found"):
            back.get_subscription(subscription="projects/cafe/subscriptions/absent", retry=None)
        stream = back.streaming_pull(
            iter([pubsub_v1.types.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10)])
        )
        first = next(iter(stream))
        assert len(first.received_messages) == 1
        stream.cancel()
        found = lines.requests(5)
    assert [(line["verb"], line["resource"], line["result"]) for line in found] == [
        ("CreateSubscription", SUBSCRIPTION, "OK"),
        ("Publish", TOPIC, "OK"),
        ("GetSubscription", "projects/cafe/subscriptions/absent", "NOT_FOUND"),
        ("StreamingPull", SUBSCRIPTION, "begun"),
        ("StreamingPull", SUBSCRIPTION, found[-1]["result"]),
    ]
    assert found[-1]["result"] in ("OK", "CANCELLED")
    assert (found[-1]["messages"], found[-1]["acks"]) == (1, 0)


def test_azure_operations_are_logged_by_their_names_and_request_ids(server: ServerProcess) -> None:
    lines = Lines(server)
    ask(server, "azure", "PUT", "/queue/devstoreaccount1/bills")
    ask(server, "azure", "GET", f"/devstoreaccount1/bills/messages?sig={SECRET}&sv=2021-08-06")
    ask(server, "azure", "PATCH", "/devstoreaccount1/bills")
    made, refused, odd = lines.requests(3)
    assert (made["door"], made["verb"], made["resource"]) == ("azure", "CreateQueue", "devstoreaccount1/bills")
    assert (made["result"], "reason" in made) == ("201", False)
    assert len(made["request"]) == 36
    assert (refused["verb"], refused["result"], refused["reason"]) == ("GetMessages", "403", "AuthenticationFailed")
    assert (odd["verb"], odd["resource"], odd["result"]) == ("PATCH", "/devstoreaccount1/bills", odd["result"])


def test_frames_of_one_read_of_a_text_client_have_one_line_for_each_queue(server: ServerProcess) -> None:
    lines = Lines(server)
    with Client(server.addresses["text"], timeout_seconds=SECONDS) as client:
        assert len(list(client.send_many("to go", [SECRET.encode()] * 3))) == 3
        messages = client.consume("to go", window=7)
        next(messages).ack()
        messages.close()
    with socket.create_connection(server.place("text"), timeout=SECONDS) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n")
        assert stranger.recv(100) == b""
    found = lines.requests(5)
    sent = [line for line in found if line["verb"] == "send"]
    assert sum(line["messages"] for line in sent) == 3
    begun, *ends = [line for line in found if line["verb"] == "consume"]
    assert (begun["resource"], begun["result"], begun["window"]) == ("to go", "begun", 7)
    assert [(end["result"], end["messages"]) for end in ends] == [("ok", 3)]
    assert ("acknowledge", "to go", "ok", 1) in [
        (line["verb"], line["resource"], line["result"], line.get("messages")) for line in found
    ]
    assert ("-", "-", "malformed") in [(line["verb"], line["resource"], line["result"]) for line in found]


def test_flight_calls_have_lines_though_another_process_answers_them(server: ServerProcess) -> None:
    lines, topic = Lines(server), "projects/cafe/topics/beans"
    with flight.connect(f"grpc://{server.addresses['flight']}") as client:
        list(client.do_action(flight.Action("topic.ensure", json.dumps({"topic": topic}).encode())))
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"topic": topic}).encode())
        writer, answers = client.do_put(descriptor, pa.schema([("data", pa.binary())]))
        writer.write_batch(pa.record_batch([pa.array([b"a", SECRET.encode()])], names=["data"]))
        writer.done_writing()
        answers.read()
        writer.close()
        ticket = flight.Ticket(json.dumps({"topic": topic, "first": 0, "until": 2}).encode())
        assert client.do_get(ticket).read_all().num_rows == 2
        with pytest.raises(flight.FlightError):
            client.do_get(flight.Ticket(b'{"topic": "absent", "first": 0, "until": 1}')).read_all()
    found = lines.requests(6)
    assert [(line["verb"], line["resource"], line["result"]) for line in found] == [
        ("topic.ensure", topic, "ok"),
        ("do_put", topic, "begun"),
        ("do_put", topic, "ok"),
        ("do_get", topic, "begun"),
        ("do_get", topic, "ok"),
        ("do_get", "absent", "not_found"),
    ]
    assert (found[2]["batches"], found[2]["rows"], found[4]["rows"]) == (1, 2, 2)


def test_http_requests_are_logged_by_method_and_path(server: ServerProcess) -> None:
    lines = Lines(server)
    ask(server, "http", "GET", f"/health?token={SECRET}")
    ask(server, "http", "GET", "/absent")
    with socket.create_connection(server.place("http"), timeout=SECONDS) as stranger:
        stranger.sendall(b"nonsense\r\n\r\n")
        assert stranger.recv(100)
    assert lines.summaries(3) == [
        ("http", "GET", "/health", "200"),
        ("http", "GET", "/absent", "404"),
        ("http", "-", "-", "400"),
    ]


def test_without_the_setting_only_refusals_are_logged_at_debug_level(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", "--log-level", "debug") as served:
        ask(served, "http", "GET", f"/absent?token={SECRET}")
        ask(served, "pubsub", "GET", f"/v1/projects/cafe/topics/absent?access_token={SECRET}")
        ask(served, "azure", "GET", f"/devstoreaccount1/bills/messages?sig={SECRET}")
        with socket.create_connection(served.place("text"), timeout=SECONDS) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n")
            assert stranger.recv(100) == b""
        with flight.connect(f"grpc://{served.addresses['flight']}") as client, pytest.raises(flight.FlightError):
            client.do_get(flight.Ticket(b'{"topic": "absent", "first": 0, "until": 1}')).read_all()
        assert served.stop() == 0
        log = served.log()
    assert "penstock.requests" not in log
    assert SECRET not in log
    assert "DEBUG penstock.doors.http: refused GET /absent: 404" in log
    assert "DEBUG penstock.doors.google: refused /google.pubsub.v1.Publisher/GetTopic: NOT_FOUND" in log
    assert "DEBUG penstock.doors.azure: refused GET, request " in log
    assert "WARNING penstock.doors.text: 127.0.0.1: malformed: " in log
    assert "DEBUG penstock.doors.flight: refused do_get: not_found" in log
