"""The topology as one document in the admin API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.doors.http.options import HttpOptions
from tests.doors.http.harness import Harness

SEED = {
    "project": "demo",
    "topics": [{"name": "orders", "retention_seconds": 60, "messages": ["one"]}],
    "subscriptions": [{"name": "billing", "topic": "orders", "ack_deadline_seconds": 30}],
    "queues": [{"name": "jobs", "azure": {"metadata": {"a": "b"}}}],
}


@pytest.fixture
def admin() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


def test_missing_resources_are_created_and_shown_as_in_the_document(admin: Harness) -> None:
    planned = admin.ask("POST", "/topology", {**SEED, "dry_run": True})
    assert (planned.status, planned.json["dry_run"], planned.json["messages"]) == (200, True, 1)
    assert admin.get("/topology") == {"project": "penstock"}
    made = admin.ask("POST", "/topology", SEED).json
    assert made["created"] == planned.json["created"]
    assert [each["kind"] for each in made["created"]] == ["topic", "queue", "subscription"]
    assert made["created"][2] == {"kind": "subscription", "name": "projects/demo/subscriptions/billing"}
    again = admin.ask("POST", "/topology", SEED).json
    assert (again["created"], again["unchanged"], again["messages"]) == ([], made["created"], 0)
    shown = admin.get("/topology", project="demo")
    assert shown == {**SEED, "topics": [{"name": "orders", "retention_seconds": 60}]}
    everything = admin.get("/topology")
    assert everything["topics"] == [{"name": "orders", "project": "demo", "retention_seconds": 60}]


def test_differences_are_kept_or_updated(admin: Harness) -> None:
    admin.post("/topology", SEED)
    other = {**SEED, "subscriptions": [{"name": "billing", "topic": "orders", "ack_deadline_seconds": 40}]}
    (conflict,) = admin.ask("POST", "/topology", other).json["conflicts"]
    name = "projects/demo/subscriptions/billing"
    assert conflict == {"kind": "subscription", "name": name, "reason": "ack_deadline_seconds"}
    changed = admin.ask("POST", "/topology", {**other, "update": True}).json
    assert (changed["changed"], changed["conflicts"]) == ([conflict], [])
    assert admin.get("/topology", project="demo")["subscriptions"][0]["ack_deadline_seconds"] == 40


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"tpoics": []}, "Unknown field: tpoics"),
        ({"topics": [5]}, "topics[0] must be an object"),
        (
            {"topics": [{"name": "ok"}, {"name": "x", "colour": 1}]},
            "topics[1].colour: Unknown option of a topic: colour",
        ),
        ({"topics": [{"name": "ok"}], "queues": [{}]}, "queues[0]: name must be a non-empty string"),
        (
            {"topics": [{"name": "t", "pubsub": {}}]},
            "topics[0].pubsub: Schemas and options of the Pub/Sub API need",
        ),
        ({"schemas": [{"name": "s"}]}, "schemas[0]: Schemas and options of the Pub/Sub API need its packages"),
        ({"update": 5}, "update must be true or false"),
    ],
)
def test_a_wrong_document_changes_nothing(admin: Harness, body: dict[str, object], sentence: str) -> None:
    answer = admin.ask("POST", "/topology", body)
    assert (answer.status, answer.sentence[: len(sentence)]) == (400, sentence)
    assert admin.get("/topology") == {"project": "penstock"}


def test_an_invalid_project(admin: Harness) -> None:
    assert admin.ask("GET", "/topology?project=a/b").sentence == "A project is a name without slashes"


def test_a_read_token_gets_the_document_and_cannot_change_it() -> None:
    with Harness(HttpOptions(tokens=("all",), read_tokens=("some",))) as admin:
        reading = {"Authorization": "Bearer some"}
        assert admin.ask("GET", "/topology", headers=reading).status == 200
        assert admin.ask("POST", "/topology", SEED, headers=reading).status == 403
