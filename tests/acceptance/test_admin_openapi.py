"""The OpenAPI document of the admin API is valid, complete, and matches the answers of a real server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests.server_process import ServerProcess

BASE = "/admin/v1"
SECONDS = 30


class Harness:
    """A client that checks each answer of a server against the document."""

    def __init__(self, address: str, folder: Path) -> None:
        host, _, port = address.rpartition(":")
        self._place = host, int(port)
        self.folder = folder
        self.document = self._ask("GET", "/openapi.json", None)[2]
        self.answered: set[tuple[str, str]] = set()

    def __call__(self, method: str, path: str, body: object = None, *, status: int = 0, **words: Any) -> Any:
        """Call an operation. `words` are the path parameters of the operation and its query."""
        operation = self.document["paths"][path][method.lower()]
        named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        filled = path.format(**{name: quote(str(words[name]), safe="") for name in named})
        query = {name: value for name, value in words.items() if name not in named}
        found, kind, answer = self._ask(method, f"{filled}{'?' + urlencode(query) if query else ''}", body)
        declared = [int(each) for each in operation["responses"] if each != "default"]
        assert found in ([status] if status else declared), answer
        response = operation["responses"].get(str(found)) or self.document["components"]["responses"]["Error"]
        if found == 204:
            assert answer is None
        else:
            schema = response["content"][kind]["schema"]
            for each in answer if kind != "application/json" else [answer]:
                self._check(each, schema)
        if found < 400:
            self.answered.add((method, path))
        return answer

    def _check(self, answer: Any, schema: dict[str, Any]) -> None:
        whole = {**schema, "components": self.document["components"]}
        Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(answer)

    def _ask(self, method: str, target: str, body: object) -> tuple[int, str, Any]:
        connection = http.client.HTTPConnection(*self._place, timeout=SECONDS)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, f"{BASE}{target}", None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            kind = response.headers.get("Content-Type", "").partition(";")[0]
            if kind == "text/event-stream":  # an event stream has no end
                lines = [response.readline() for _ in range(6)]
                return response.status, kind, [json.loads(line[5:]) for line in lines if line.startswith(b"data:")]
            text = response.read()
            if kind == "application/x-ndjson":
                return response.status, kind, [json.loads(line) for line in text.splitlines()]
            return response.status, kind, json.loads(text) if text else None
        finally:
            connection.close()


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("openapi")
    with ServerProcess(folder, f"--data={folder / 'data'}", "--testing", doors=["http", "text", "azure"]) as server:
        yield Harness(server.addresses["http"], folder)


def test_the_document_is_valid(ask: Harness) -> None:
    assert ask.document["openapi"].startswith("3.1")
    validate(ask.document)


def test_every_operation_says_what_it_does(ask: Harness) -> None:
    operations = [each for path in ask.document["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names))
    for each in operations:
        assert each["summary"].endswith("."), each
        assert each["responses"]["default"]


def test_every_route_answers_what_it_declares(ask: Harness) -> None:
    topics(ask)
    subscriptions(ask)
    queues_and_snapshots(ask)
    projects(ask)
    clocks(ask)
    moves(ask)
    the_server(ask)
    faults(ask)
    errors(ask)
    ask("DELETE", "/subscriptions/{subscription}", subscription="s")
    ask("DELETE", "/topics/{topic}", topic="t")
    declared = {(method.upper(), path) for path, each in ask.document["paths"].items() for method in each}
    assert declared - ask.answered == set()


def topics(ask: Harness) -> None:
    ask("POST", "/topics", {"name": "t", "labels": {"a": "b"}, "retention_seconds": 3600})
    ask("POST", "/topics", {"name": "dead"})
    ask("POST", "/topics", {"name": "old"})
    ask("GET", "/topics", page_size=1, sort="-messages")
    ask("GET", "/topics/{topic}", topic="projects/penstock/topics/t")
    ask("PATCH", "/topics/{topic}", {"labels": {}}, topic="t")
    messages = [{"data": f"{n}", "attributes": {"n": str(n)}, "ordering_key": "k", "ttl_seconds": 60} for n in range(5)]
    ask("POST", "/topics/{topic}/messages", {"messages": [*messages, {"data_base64": "/w=="}]}, topic="t")
    ask("GET", "/topics/{topic}/messages", topic="t", text="1")
    ask("GET", "/topics/{topic}/messages/{offset}", topic="t", offset=5, decode="true", body_bytes=1)
    story = ask("GET", "/topics/{topic}/messages/{offset}/story", topic="t", offset=5)
    assert [each["sentence"] for each in story["events"]] == ["Published."]
    stories = ask("GET", "/topics/{topic}/stories", topic="t", max=2)
    assert [(each["offset"], each["complete"]) for each in stories["stories"]] == [(0, True), (1, True)]
    ask("GET", "/topics/{topic}/stream", topic="t")
    ask("POST", "/topics/{topic}/purge", topic="old")


def subscriptions(ask: Harness) -> None:
    options = {"dead_letter_policy": {"dead_letter_topic": "dead"}, "retry_policy": {"minimum_backoff": 1}}
    ask("POST", "/subscriptions", {"name": "s", "topic": "t", "options": options, "start": "beginning"})
    ask("POST", "/subscriptions", {"name": "d", "topic": "dead"})
    ask("GET", "/subscriptions", topic="t", sort="oldest")
    ask("GET", "/subscriptions/{subscription}", subscription="s")
    ask("PATCH", "/subscriptions/{subscription}", {"options": {"ack_deadline_seconds": 20}}, subscription="s")
    ask("GET", "/subscriptions/{subscription}/messages", subscription="s")
    backlog = ask("GET", "/subscriptions/{subscription}/backlog", subscription="s", max=1)
    assert (backlog["messages"][0]["stage"], backlog["complete"]) == ("unread", False)
    pulled = ask("POST", "/subscriptions/{subscription}/pull", {"max_messages": 3}, subscription="s")
    one, two, three = (each["receipt"] for each in pulled["deliveries"])
    ask("GET", "/subscriptions/{subscription}/leases", subscription="s")
    assert ask("GET", "/subscriptions/{subscription}/consumers", subscription="s")["total"] == 1
    ask("GET", "/cursors", topic="t")
    ask("POST", "/subscriptions/{subscription}/extend", {"receipts": [one], "seconds": 60}, subscription="s")
    ask("POST", "/subscriptions/{subscription}/ack", {"receipts": [one, two, "x"]}, subscription="s")
    ask("POST", "/subscriptions/{subscription}/nack", {"receipts": [three, one]}, subscription="s")
    ask("POST", "/subscriptions/{subscription}/seek", {"to": "beginning", "dry_run": True}, subscription="s")
    ask("POST", "/subscriptions/{subscription}/purge", {"dry_run": True}, subscription="s")


def queues_and_snapshots(ask: Harness) -> None:
    ask("POST", "/queues", {"name": "jobs"})
    ask("GET", "/queues")
    ask("GET", "/queues/{queue}", queue="jobs")
    ask("DELETE", "/queues/{queue}", queue="jobs")
    ask("POST", "/snapshots", {"name": "now", "subscription": "s"})
    ask("GET", "/snapshots")
    ask("GET", "/snapshots/{snapshot}", snapshot="now")
    ask("DELETE", "/snapshots/{snapshot}", snapshot="now")


def projects(ask: Harness) -> None:
    path = "/projects/{project}/snapshots"
    ask("GET", "/projects")
    ask("POST", path, {"name": "monday"}, project="penstock")
    ask("GET", path, project="penstock")
    ask("GET", f"{path}/{{name}}", project="penstock", name="monday")
    ask("POST", f"{path}/{{name}}/restore", project="penstock", name="monday")
    ask("DELETE", f"{path}/{{name}}", project="penstock", name="monday")


def clocks(ask: Harness) -> None:
    path = "/projects/{project}/clock"
    ask("GET", path, project="other")
    ask("POST", f"{path}/freeze", {"at": "2001-01-01T00:00:00Z"}, project="other")
    ask("POST", f"{path}/advance", {"seconds": 60, "patience_seconds": 0}, project="other")
    ask("POST", f"{path}/advance", {"to": "2000-01-01T00:00:00Z"}, project="other", status=412)
    ask("POST", f"{path}/advance", {}, project="other", status=400)
    ask("POST", f"{path}/automatic", {"idle_seconds": 1}, project="other")
    ask("POST", f"{path}/release", {"catch_up": True}, project="other")
    ask("DELETE", "/projects/{project}", project="other")


def moves(ask: Harness) -> None:
    ask("POST", "/moves", {"from": "s", "to": "dead", "dry_run": True})
    move = ask("POST", "/moves", {"from": "s", "to": "dead", "max": 1})
    ask("GET", "/moves")
    ask("GET", "/moves/{id}", id=move["id"])
    ask("DELETE", "/moves/{id}", id=move["id"])


def the_server(ask: Harness) -> None:
    for path in ("/server", "/settings", "/statistics", "/openapi.json"):
        ask("GET", path)
    ask("GET", "/samples", what="server", seconds=10)
    ask("GET", "/events", topics="t")
    ask("POST", "/backup", {"folder": str(ask.folder / "backup")})
    if "/topology" in ask.document["paths"]:
        topology = ask("GET", "/topology")
        ask("POST", "/topology", topology)


def faults(ask: Harness) -> None:
    fault = ask("POST", "/faults", {"effect": "error", "error": "unavailable", "door": "http", "verb": "peek"})["id"]
    ask("GET", "/subscriptions/{subscription}/messages", subscription="s", status=503)
    ask("GET", "/faults", project="")
    ask("GET", "/faults/{fault}", fault=fault)
    assert len(ask("GET", "/faults/{fault}/hits", fault=fault, at_least=1, wait_seconds=1)["hits"]) == 1
    ask("DELETE", "/faults/{fault}", fault=fault)
    ask("DELETE", "/faults")


def errors(ask: Harness) -> None:
    """The document declares errors, too."""
    ask("GET", "/topics/{topic}", topic="none", status=404)
    ask("POST", "/topics", {"name": "t"}, status=409)
    ask("POST", "/topics", {}, status=400)
    ask("GET", "/topics", page_size=0, status=400)
