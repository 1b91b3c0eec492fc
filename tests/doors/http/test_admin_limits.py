"""Limits of Pub/Sub that the admin API has, too: labels of resources, attributes of messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.broker.model import Draft, TopicOptions
from tests.doors.http.harness import Harness

TOPIC = "projects/penstock/topics/t"


@pytest.fixture
def admin() -> Iterator[Harness]:
    with Harness() as harness:
        harness.post("/topics", {"name": "t"})
        harness.post("/subscriptions", {"name": "s", "topic": "t"})
        yield harness


GOOD: list[dict[str, str]] = [
    {},
    {f"k{number}": "" for number in range(64)},
    {"k" * 63: "v" * 63},
    {"a_b-1": "1-_x", "ключ": "значение", "鍵": "値"},
]
CHARACTERS = "a key or value may have lowercase letters, digits, underscores and dashes only"
BAD: list[tuple[dict[str, str], str]] = [
    ({f"k{number}": "" for number in range(65)}, "A resource may have at most 64 labels, not 65"),
    ({"k" * 64: "v"}, f"Label {'k' * 63}: a key or value has at most 63 characters"),
    ({"k": "v" * 64}, "Label k: a key or value has at most 63 characters"),
    ({"": "v"}, "Label '': a key must begin with a lowercase letter"),
    ({"1k": "v"}, "Label '1k': a key must begin with a lowercase letter"),
    ({"K": "v"}, "Label 'K': a key must begin with a lowercase letter"),
    ({"kEy": "v"}, f"Label 'kEy': {CHARACTERS}"),
    ({"k": "V"}, f"Label 'k': {CHARACTERS}"),
    ({"k": "a b"}, f"Label 'k': {CHARACTERS}"),
    ({"k\x1b": "v"}, rf"Label 'k\x1b': {CHARACTERS}"),
]

WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "create a topic": ("POST", "/topics", {"name": "new"}),
    "change a topic": ("PATCH", "/topics/t", {}),
    "create a subscription": ("POST", "/subscriptions", {"name": "new", "topic": "t"}),
    "change a subscription": ("PATCH", "/subscriptions/s", {}),
    "create a snapshot": ("POST", "/snapshots", {"name": "new", "subscription": "s"}),
}


def with_labels(path: str, body: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    return body | ({"options": {"labels": labels}} if path.startswith("/subscriptions") else {"labels": labels})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("labels", "sentence"), BAD)
def test_labels_beyond_the_limits_are_refused(admin: Harness, way: str, labels: dict[str, str], sentence: str) -> None:
    method, path, body = WAYS[way]
    answer = admin.ask(method, path, with_labels(path, body, labels))
    assert (answer.status, answer.sentence) == (400, sentence)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("labels", GOOD)
def test_labels_within_the_limits_are_kept(admin: Harness, way: str, labels: dict[str, str]) -> None:
    method, path, body = WAYS[way]
    answer = admin.ask(method, path, with_labels(path, body, labels))
    assert answer.status in (200, 201), answer
    shown = answer.json
    assert (shown.get("labels") or shown.get("options", {}).get("labels") or {}) == labels


def test_a_topic_with_labels_from_before_the_limits_can_be_changed(admin: Harness) -> None:
    admin.do(lambda: admin.queue.change_topic(TOPIC, TopicOptions(0, 0, {"Old Label": "X"})))
    answer = admin.ask("PATCH", "/topics/t", {"retention_seconds": 60})
    assert (answer.status, answer.json["labels"]) == (200, {"Old Label": "X"})


def topology(kind: str, **more: Any) -> dict[str, Any]:
    return {kind: [{"name": "new", **({"topic": "t"} if kind == "subscriptions" else {}), **more}]}


@pytest.mark.parametrize("kind", ["topics", "subscriptions", "queues"])
@pytest.mark.parametrize(("labels", "sentence"), BAD)
def test_a_topology_has_the_limits_of_labels(admin: Harness, kind: str, labels: dict[str, str], sentence: str) -> None:
    refused = f"{kind}[0].labels: {sentence}"
    answer = admin.ask("POST", "/topology", topology(kind, labels=labels))
    assert (answer.status, answer.sentence) == (400, refused)
    assert admin.ask("POST", "/topology", topology(kind)).status == 200
    answer = admin.ask("POST", "/topology", {**topology(kind, labels=labels), "update": True})
    assert (answer.status, answer.sentence) == (400, refused)


def test_a_topology_may_repeat_labels_from_before_the_limits(admin: Harness) -> None:
    admin.do(lambda: admin.queue.change_topic(TOPIC, TopicOptions(0, 0, {"Old Label": "X"})))
    document = {"topics": [{"name": "t", "labels": {"Old Label": "X"}}]}
    assert [each["name"] for each in admin.post("/topology", document)["unchanged"]] == [TOPIC]


def publish(admin: Harness, attributes: dict[str, str], **more: Any) -> Any:
    return admin.ask("POST", "/topics/t/messages", {"messages": [{"data": "x", "attributes": attributes}], **more})


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({f"k{number}": "" for number in range(101)}, "messages[0] may have at most 100 attributes"),
        ({"k" * 257: ""}, "Attribute key exceeds maximum of 256 bytes"),
        ({"k": "v" * 1025}, "Attribute value exceeds maximum of 1024 bytes"),
        ({"": "v"}, "Attribute keys must not be empty"),
    ],
)
def test_attributes_beyond_the_limits_are_refused(admin: Harness, attributes: dict[str, str], sentence: str) -> None:
    answer = publish(admin, attributes)
    assert (answer.status, answer.sentence) == (400, sentence)
    assert admin.get("/topics/t")["published"] == 0


def test_first_messages_of_a_topology_have_the_limit_of_attributes(admin: Harness) -> None:
    message = {"data": "x", "attributes": {f"k{number}": "" for number in range(101)}}
    answer = admin.ask("POST", "/topology", topology("topics", messages=[message]))
    assert (answer.status, answer.sentence) == (
        400,
        "topics[0].messages[0]: A message may have at most 100 attributes",
    )


def test_attributes_within_the_limits_are_published(admin: Harness) -> None:
    attributes = {f"{number:0256}": "v" * 1024 for number in range(100)}
    assert publish(admin, attributes).status == 200
    assert admin.get("/topics/t/messages")["messages"][0]["attributes"] == attributes


def test_an_exported_message_may_have_more_attributes(admin: Harness) -> None:
    """A dead letter has the attributes of its publisher, at most 100, and others that name its origin."""
    many = {f"k{number}": "" for number in range(104)}
    admin.do(lambda: admin.queue.publish(TOPIC, [Draft(b"x", many)]))
    exported = admin.get("/topics/t/messages")["messages"][0]["attributes"]
    assert exported == many
    assert publish(admin, exported).status == 400
    assert publish(admin, exported, exported=True).status == 200
