"""Snapshots of a whole project: all subscriptions at once, and their restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Draft, ManualClock, SubscriptionOptions
from penstock.broker.model import TopicOptions
from penstock.names import NEW_NAME_RULE
from tests.doors.http.harness import Harness

DAY = 86400
TOPICS = {name: f"projects/shop/topics/{name}" for name in ("orders", "mails")}
SUBSCRIPTIONS = {name: f"projects/shop/subscriptions/{name}" for name in ("billing", "stock", "sender")}


@pytest.fixture
def harness() -> Iterator[Harness]:
    """Yield a server with two topics and three subscriptions. Each has five messages, of which two are acked."""
    with Harness(clock=ManualClock()) as harness:
        for name in TOPICS.values():
            harness.do(lambda name=name: harness.queue.create_topic(name, TopicOptions(retention_seconds=DAY)))
        for name, topic in (("billing", "orders"), ("stock", "orders"), ("sender", "mails")):
            read = (SUBSCRIPTIONS[name], TOPICS[topic], SubscriptionOptions(lease_seconds=42, retain_acked=True))
            harness.do(lambda read=read: harness.queue.create_subscription(*read))
        for name in TOPICS.values():
            harness.do(lambda name=name: harness.queue.publish(name, [Draft(str(n).encode()) for n in range(5)]))
        for name in SUBSCRIPTIONS.values():
            drain(harness, name, 2)
        yield harness


def drain(harness: Harness, name: str, most: int = 100) -> list[int]:
    """Pull and ack messages, and return their bodies."""
    deliveries = harness.do(lambda: harness.queue.pull(name, most))
    harness.do(lambda: harness.queue.ack([each.receipt for each in deliveries]))
    return [int(each.message.data) for each in deliveries]


def restore(harness: Harness, name: str = "before", **body: Any) -> Any:
    return harness.post(f"/projects/shop/snapshots/{name}/restore", body)


def test_all_subscriptions_go_back_to_where_they_were(harness: Harness) -> None:
    made = harness.ask("POST", "/projects/shop/snapshots", {"name": "before"})
    assert made.status == 201
    assert (made.json["topics"], made.json["subscriptions"], made.json["without"]) == (2, 3, [])
    assert made.json["expires_at"] > made.json["created_at"]
    for name in SUBSCRIPTIONS.values():
        assert drain(harness, name) == [2, 3, 4]
    answer = restore(harness)
    assert (answer["restored"], answer["made_again"], answer["missing"]) == (3, 0, 0)
    for name in SUBSCRIPTIONS.values():
        assert drain(harness, name) == [2, 3, 4]


def test_a_deleted_subscription_is_made_again_with_its_options(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    harness.do(lambda: harness.queue.delete_subscription(SUBSCRIPTIONS["stock"]))
    preview = restore(harness, dry_run=True)
    assert (preview["restored"], preview["made_again"]) == (2, 1)
    assert harness.do(lambda: harness.queue.find_subscription(SUBSCRIPTIONS["stock"])) is None
    answer = restore(harness)
    outcomes = {each["name"]: each["outcome"] for each in answer["subscriptions"]}
    assert outcomes[SUBSCRIPTIONS["stock"]] == "made again"
    assert drain(harness, SUBSCRIPTIONS["stock"]) == [2, 3, 4]
    again = harness.do(lambda: harness.queue.find_subscription(SUBSCRIPTIONS["stock"]))
    assert again.options.lease_seconds == 42


def test_messages_of_a_deleted_topic_are_reported_as_lost(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    harness.do(lambda: harness.queue.delete_topic(TOPICS["mails"]))
    answer = restore(harness)
    (sender,) = [each for each in answer["subscriptions"] if each["name"] == SUBSCRIPTIONS["sender"]]
    assert sender["outcome"] == "made again"
    assert sender["reason"] == "without its unacked messages: its topic was deleted, and its messages with it"
    assert drain(harness, SUBSCRIPTIONS["sender"]) == []
    harness.do(lambda: harness.queue.publish(TOPICS["mails"], [Draft(b"7")]))
    assert drain(harness, SUBSCRIPTIONS["sender"]) == [7]
    assert drain(harness, SUBSCRIPTIONS["billing"]) == [2, 3, 4]


def test_a_topic_made_again_meanwhile_is_left_as_it_is(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    harness.do(lambda: harness.queue.delete_topic(TOPICS["mails"]))
    harness.do(lambda: harness.queue.delete_subscription(SUBSCRIPTIONS["sender"]))
    harness.do(lambda: harness.queue.create_topic(TOPICS["mails"]))
    harness.do(lambda: harness.queue.create_subscription(SUBSCRIPTIONS["sender"], TOPICS["mails"]))
    harness.do(lambda: harness.queue.publish(TOPICS["mails"], [Draft(b"9")]))
    answer = restore(harness)
    assert (answer["restored"], answer["missing"]) == (2, 1)
    assert drain(harness, SUBSCRIPTIONS["sender"]) == [9]


def test_later_subscriptions_are_not_changed(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    late = "projects/shop/subscriptions/late"
    harness.do(lambda: harness.queue.create_subscription(late, TOPICS["orders"]))
    assert restore(harness)["untouched"] == [late]


def test_an_expired_snapshot_says_so(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    for each in harness.do(lambda: harness.queue.snapshots()):
        harness.do(lambda each=each: harness.queue.delete_snapshot(each.name))
    shown = harness.get("/projects/shop/snapshots/before")
    assert shown["expires_at"] is None
    assert {each["reason"] for each in shown["without"]} == {"its snapshot has expired"}
    assert restore(harness)["missing"] == 3


def test_a_detached_subscription_is_named(harness: Harness) -> None:
    harness.do(lambda: harness.queue.detach_subscription(SUBSCRIPTIONS["stock"]))
    made = harness.post("/projects/shop/snapshots", {"name": "before"})
    (without,) = made["without"]
    assert (without["name"], without["reason"]) == (
        SUBSCRIPTIONS["stock"],
        f"Subscription is detached: {SUBSCRIPTIONS['stock']}",
    )


def test_listed_shown_and_deleted(harness: Harness) -> None:
    for name in ("a", "b"):
        harness.post("/projects/shop/snapshots", {"name": name})
    page = harness.get("/projects/shop/snapshots", page_size=1)
    assert ([each["name"] for each in page["snapshots"]], page["total"]) == (["a"], 2)
    assert harness.get("/projects/other/snapshots")["snapshots"] == []
    assert harness.ask("DELETE", "/projects/shop/snapshots/a").status == 204
    assert harness.ask("GET", "/projects/shop/snapshots/a").status == 404
    assert len(harness.do(lambda: harness.queue.snapshots())) == 3, "the snapshots of b"


def test_a_snapshot_with_a_name_of_an_earlier_server_is_shown_and_deleted(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    state = harness.do(lambda: harness.queue.document("project-snapshots", "shop/before"))
    harness.do(lambda: harness.queue.put_document("project-snapshots", "shop/ led by a space", state))
    path = "/projects/shop/snapshots/%20led%20by%20a%20space"
    assert harness.get(path)["name"] == " led by a space"
    assert harness.ask("DELETE", path).status == 204


def test_an_interrupted_snapshot_is_taken_again(harness: Harness) -> None:
    harness.post("/projects/shop/snapshots", {"name": "before"})
    harness.do(lambda: harness.queue.remove_document("project-snapshots", "shop/before"))
    assert harness.post("/projects/shop/snapshots", {"name": "before"})["without"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/projects/nothing/snapshots", {"name": "x"}, 404, "Project not found: nothing"),
        *[("POST", "/projects/shop/snapshots", {"name": name}, 400,
         f"{NEW_NAME_RULE}. A snapshot of a project has at most 100, and no ~")
          for name in ("", "a~b", "a/b", "..", " led", "a\u3164b", "x" * 101)],
        ("POST", "/projects/shop/snapshots", {"name": "there"}, 409, "Snapshot already exists: there"),
        ("POST", "/projects/shop/snapshots/nobody/restore", {}, 404, "Snapshot not found: nobody"),
        ("DELETE", "/projects/shop/snapshots/nobody", None, 404, "Snapshot not found: nobody"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    harness: Harness, method: str, path: str, body: Any, status: int, sentence: str
) -> None:
    harness.post("/projects/shop/snapshots", {"name": "there"})
    answer = harness.ask(method, path, body)
    assert (answer.status, answer.sentence) == (status, sentence)
