"""Subscriptions, queues and snapshots in the admin API: messages are pulled, settled and restored."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import ManualClock
from penstock.broker.log import Sizes
from penstock.broker.model import SECOND, Draft
from penstock.doors.http.options import HttpOptions
from tests.doors.http.harness import Harness

TOPIC = "projects/penstock/topics/orders"
SUBSCRIPTION = "projects/penstock/subscriptions/s"
START = int(datetime(2026, 11, 15, 10, tzinfo=UTC).timestamp()) * SECOND


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def admin(clock: ManualClock) -> Iterator[Harness]:
    with Harness(clock=clock, sizes=Sizes(cache_bytes=1, chunk_messages=3)) as harness:
        harness.post("/topics", {"name": "orders", "retention_seconds": 86400})
        yield harness


def publish(admin: Harness, count: int, **attributes: str) -> None:
    drafts = [Draft(b"%d" % number, attributes) for number in range(count)]
    admin.do(lambda: admin.queue.publish(TOPIC, drafts))


def pull(admin: Harness, count: int = 1000, **body: Any) -> list[Any]:
    """Pull up to `count` messages. One call may return fewer, because the cache is tiny."""
    found: list[Any] = []
    while len(found) < count:
        more = admin.post("/subscriptions/s/pull", {"max_messages": count - len(found), **body})["deliveries"]
        if not more:
            break
        found += more
    return found


def receipts(deliveries: list[Any]) -> dict[str, list[str]]:
    return {"receipts": [each["receipt"] for each in deliveries]}


def test_a_subscription_is_made_shown_changed_and_deleted(admin: Harness) -> None:
    for topic in ("dead", "other"):
        admin.post("/topics", {"name": topic})
    options = {
        "ack_deadline_seconds": 30,
        "filter": 'attributes.a = "b"',
        "dead_letter_policy": {"dead_letter_topic": "dead", "max_delivery_attempts": 7},
        "labels": {"team": "x"},
    }
    made = admin.ask("POST", "/subscriptions", {"name": "s", "topic": "orders", "options": options})
    assert made.status == 201
    record = made.json
    assert (record["name"], record["topic"], record["kind"]) == (SUBSCRIPTION, TOPIC, "pull")
    assert record["created_at"] == "2026-11-15T10:00:00Z"
    shown = record["options"]
    assert shown["ack_deadline_seconds"] == 30
    assert shown["dead_letter_policy"] == {
        "dead_letter_topic": "projects/penstock/topics/dead",
        "max_delivery_attempts": 7,
    }
    assert (shown["ordering_window"], shown["expired_topic"]) == (1, "")

    changed = admin.ask("PATCH", "/subscriptions/s", {"options": {"ack_deadline_seconds": 60}})
    assert changed.status == 200
    shown = admin.get("/subscriptions/s")["options"]
    assert (shown["ack_deadline_seconds"], shown["filter"]) == (60, 'attributes.a = "b"')

    changed = admin.ask("PATCH", "/subscriptions/s", {"options": {"ack_deadline_seconds": {"seconds": 50}}})
    assert (changed.status, changed.json["options"]["ack_deadline_seconds"]) == (200, 50)

    policies = {"retry_policy": {"minimum_backoff": 1, "maximum_backoff": 20}}
    admin.ask("PATCH", "/subscriptions/s", {"options": policies})
    one_part = {"retry_policy": {"minimum_backoff": 2}, "dead_letter_policy": {"dead_letter_topic": "other"}}
    shown = admin.ask("PATCH", "/subscriptions/s", {"options": one_part}).json["options"]
    assert shown["retry_policy"] == {"minimum_backoff": 2, "maximum_backoff": 20}
    assert shown["dead_letter_policy"] == {
        "dead_letter_topic": "projects/penstock/topics/other",
        "max_delivery_attempts": 7,
    }

    assert admin.ask("DELETE", "/subscriptions/s").status == 204
    gone = admin.ask("GET", "/subscriptions/s")
    assert (gone.status, gone.sentence) == (404, f"Subscription not found: {SUBSCRIPTION}")


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"name": "s", "topic": "none"}, 404, "Topic not found: projects/penstock/topics/none"),
        ({"name": "s"}, 400, "The field topic is missing"),
        ({"name": "s", "topic": "orders", "options": {"colour": 1}}, 400, "Unknown subscription option: colour"),
        ({"name": "s", "topic": "orders", "options": {"strict_receipts": False}}, 400, "Unknown subscription option"),
        ({"name": "s", "topic": "orders", "options": {"filter": "x"}}, 400, "Invalid filter"),
        (
            {"name": "s", "topic": "orders", "options": {"ack_deadline_seconds": 0}},
            400,
            "Ack deadline must be between 1 and 600 seconds",
        ),
        (
            {"name": "s", "topic": "orders", "options": {"flow_control": {"max_messages": 10**30}}},
            400,
            "flow_control.max_messages must be a whole number, at least 1 and at most 9223372036854775807",
        ),
        ({"name": "s", "topic": "orders", "start": -1}, 400, "start must not be negative"),
        ({"name": "s", "topic": "orders", "start": "soon"}, 400, "start must be an instant"),
        ({"name": "s", "topic": "orders", "start": 1.5}, 400, "start must be a whole number or text"),
        ({"name": "s", "topic": "orders", "options": {"dead_letter_policy": 5}}, 400, "dead_letter_policy must be"),
        ({"name": "s", "topic": "orders", "options": {"labels": []}}, 400, "labels must be"),
        ({"name": "s", "topic": "orders", "options": {"filter": 5}}, 400, "filter must be text"),
        (
            {"name": "s", "topic": "orders", "options": {"dead_letter_policy": {"dead_letter_topic": "nope"}}},
            404,
            "Dead letter topic not found: projects/penstock/topics/nope",
        ),
        (
            {"name": "s", "topic": "orders", "options": {"dead_letter_policy": {"max_delivery_attempts": 3}}},
            400,
            "dead_letter_policy needs a dead_letter_topic",
        ),
    ],
)
def test_a_wrong_subscription_gets_one_sentence(admin: Harness, body: Any, status: int, sentence: str) -> None:
    answer = admin.ask("POST", "/subscriptions", body)
    assert (answer.status, answer.sentence[: len(sentence)]) == (status, sentence)
    assert admin.ask("GET", "/subscriptions/s").status == 404


def test_a_body_may_be_nested_deeply_and_is_refused(admin: Harness) -> None:
    body = b'{"name": "s", "topic": "orders", "options": {"labels": %s}}' % (b"[" * 100_000)
    answer = admin.ask("POST", "/subscriptions", body, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.sentence in ("The body is nested too deeply", "The body is not JSON")


@pytest.mark.parametrize(
    ("start", "backlog"),
    [("end", 0), ("beginning", 3), (2, 1), (99, 0), ("2026-11-15T10:00:01Z", 2), ("-1s", 1), (None, 0)],
)
def test_a_subscription_begins_at_the_given_position(
    admin: Harness, clock: ManualClock, start: Any, backlog: int
) -> None:
    for _ in range(3):
        publish(admin, 1)
        admin.call(clock.advance, 1)
    body = {"name": "s", "topic": "orders"} | ({} if start is None else {"start": start})
    assert admin.post("/subscriptions", body)["backlog_messages"] == backlog


def test_lists_can_be_narrowed_and_sorted(admin: Harness, clock: ManualClock) -> None:
    admin.post("/topics", {"name": "other", "project": "p"})
    for name in ("a1", "a2", "b1"):
        admin.post("/subscriptions", {"name": name, "topic": "orders"})
        publish(admin, 1)
        admin.call(clock.advance, 1)
    admin.post("/subscriptions", {"name": "c", "topic": "other", "project": "p"})

    def listed(**query: Any) -> list[str]:
        return [each["id"] for each in admin.get("/subscriptions", **query)["subscriptions"]]

    assert listed() == ["c", "a1", "a2", "b1"], "with its full name"
    assert listed(search="/a") == ["a1", "a2"]
    assert listed(project="p") == ["c"]
    assert listed(topic="orders") == ["a1", "a2", "b1"]
    assert listed(sort="-backlog") == ["a1", "a2", "b1", "c"]
    assert listed(sort="oldest")[0] == "c"
    assert listed(sort="-name") == ["b1", "a2", "a1", "c"]
    assert listed(sort="rate", page_size=2) == ["c", "a1"]
    assert listed(sort="topic") == ["c", "a1", "a2", "b1"]
    admin.post("/subscriptions/b1/pull", {"max_messages": 1})
    assert listed(sort="-in_flight")[0] == "b1"
    for sort in ("-acks", "-dead_letters"):
        assert len(listed(sort=sort)) == 4
    assert admin.ask("GET", "/subscriptions", topic="none").status == 404


def test_counts_match_the_deliveries(admin: Harness, clock: ManualClock) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    publish(admin, 10)
    admin.call(clock.advance, 5)
    first = pull(admin, 4)
    admin.post("/subscriptions/s/ack", receipts(first[:1]))
    admin.post("/subscriptions/s/nack", receipts(first[1:2]))
    record = admin.get("/subscriptions/s")
    assert (record["backlog_messages"], record["in_flight_messages"]) == (9, 2)
    assert (record["delivered"], record["acked"], record["returned"]) == (4, 1, 1)
    assert record["oldest_age_seconds"] == 5
    assert record["due_age_seconds"] == 5
    assert (record["last_used_at"], record["now"]) == ("2026-11-15T10:00:05Z", "2026-11-15T10:00:05Z")


def test_a_delayed_message_is_not_due_until_then(admin: Harness, clock: ManualClock) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    admin.post("/topics/orders/messages", {"messages": [{"data": "later", "delay_seconds": 60}]})

    def ages() -> tuple[float, float]:
        record = admin.get("/subscriptions/s")
        return record["oldest_age_seconds"], record["due_age_seconds"]

    admin.call(clock.advance, 50)
    assert ages() == (50, 0)
    publish(admin, 1)
    admin.call(clock.advance, 4)
    assert ages() == (54, 4), "another message may be delivered"
    admin.post("/subscriptions/s/nack", receipts(pull(admin, 1)))
    assert ages() == (54, 4)
    admin.post("/subscriptions/s/ack", receipts(pull(admin, 1)))
    assert ages() == (54, 0)
    admin.call(clock.advance, 16)
    assert ages() == (70, 10)


def test_a_message_between_delayed_ones_is_due(admin: Harness, clock: ManualClock) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    delays = (600, 600, 0, 600)
    admin.post("/topics/orders/messages", {"messages": [{"data": "x", "delay_seconds": each} for each in delays]})
    admin.call(clock.advance, 90)
    assert admin.get("/subscriptions/s")["due_age_seconds"] == 90


def test_a_peek_shows_the_next_messages_of_a_pull(admin: Harness) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    publish(admin, 5)
    taken = pull(admin, 2)
    shown = admin.get("/subscriptions/s/messages", max=2)["messages"]
    assert [each["offset"] for each in shown] == [2, 3]
    assert [each["data"] for each in shown] == ["2", "3"]
    assert admin.get("/subscriptions/s/messages", max=2)["messages"] == shown
    admin.post("/subscriptions/s/nack", receipts(taken))
    assert len(admin.get("/subscriptions/s/messages")["messages"]) == 5
    assert admin.ask("GET", "/subscriptions/s/messages", max=1001).sentence == (
        "max must be a whole number, at most 1000"
    )


def test_deliveries_are_leased_extended_and_settled(admin: Harness, clock: ManualClock) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders", "options": {"ack_deadline_seconds": 20}})
    publish(admin, 3)
    (one,) = pull(admin, 1)
    assert one["message"]["data"] == "0"
    assert (one["attempt"], one["deadline"]) == (1, "2026-11-15T10:00:20Z")
    (two,) = pull(admin, 1, lease_seconds=100)
    assert two["deadline"] == "2026-11-15T10:01:40Z"
    assert admin.post("/subscriptions/s/extend", {**receipts([one]), "seconds": 50}) == {
        "settled": 1,
        "stale": [],
        "malformed": [],
    }
    admin.call(clock.advance, 40)
    settled = admin.post("/subscriptions/s/ack", {"receipts": [one["receipt"], one["receipt"], "nonsense", "99-0-1"]})
    assert settled == {"settled": 1, "stale": [], "malformed": ["nonsense", "99-0-1"]}
    again = admin.post("/subscriptions/s/ack", receipts([one]))
    assert again == {"settled": 0, "stale": [one["receipt"]], "malformed": []}
    assert admin.post("/subscriptions/s/nack", {**receipts([two]), "delay_seconds": 30})["settled"] == 1
    assert [each["message"]["offset"] for each in pull(admin)] == [2]
    admin.call(clock.advance, 31)
    back = pull(admin)
    assert (1, 2) in [(each["message"]["offset"], each["attempt"]) for each in back]


def test_a_receipt_of_another_subscription_is_not_settled(admin: Harness) -> None:
    for name in ("s", "other"):
        admin.post("/subscriptions", {"name": name, "topic": "orders"})
    publish(admin, 1)
    (one,) = pull(admin)
    answer = admin.post("/subscriptions/other/ack", receipts([one]))
    assert answer["malformed"] == [one["receipt"]]
    assert admin.post("/subscriptions/s/ack", receipts([one]))["settled"] == 1


@pytest.mark.parametrize(
    ("verb", "body", "sentence"),
    [
        ("pull", {"max_messages": 0}, "max_messages must be a whole number, at least 1"),
        ("pull", {"max_messages": 1001}, "max_messages must be a whole number, at most 1000"),
        ("pull", {"wait_seconds": 61}, "wait_seconds must be a number, at most 60"),
        ("ack", {}, "The field receipts is missing"),
        ("ack", {"receipts": []}, "receipts must be a list of at least 1"),
        ("ack", {"receipts": ["x"] * 10_001}, "receipts must be a list of at most 10000"),
        ("extend", {"receipts": ["x"]}, "The field seconds is missing"),
        ("nack", {"receipts": ["x"], "seconds": 1}, "Unknown field: seconds"),
        ("seek", {}, "Give one of offset, time, snapshot and to"),
        ("seek", {"offset": 1, "to": "end"}, "Give one of offset, time, snapshot and to"),
        ("seek", {"to": "middle"}, "to must be beginning or end"),
        ("seek", {"time": "noon"}, "time must be an instant such as 2026-11-15T10:00:00Z, or -10m"),
        ("purge", {"dry_run": 1}, "dry_run must be true or false"),
    ],
)
def test_a_wrong_call_gets_one_sentence(admin: Harness, verb: str, body: Any, sentence: str) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    answer = admin.ask("POST", f"/subscriptions/s/{verb}", body)
    assert (answer.status, answer.sentence) == (400, sentence)


def test_a_pull_waits_for_a_message(admin: Harness) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=20)
    body = json.dumps({"wait_seconds": 60})
    path = "/admin/v1/subscriptions/s/pull"
    connection.request("POST", path, body, {"Host": "localhost", "Content-Type": "application/json"})
    publish(admin, 1)
    assert len(json.loads(connection.getresponse().read())["deliveries"]) == 1
    connection.close()


def test_a_client_that_disconnects_while_it_waits_leases_nothing(admin: Harness) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=20)
    headers = {"Host": "localhost", "Content-Type": "application/json"}
    connection.request("POST", "/admin/v1/subscriptions/s/pull", json.dumps({"wait_seconds": 60}), headers)
    connection.close()
    while list(admin.door._server.connections):
        admin.run(asyncio.sleep(0))
    publish(admin, 1)
    (one,) = pull(admin)
    assert one["attempt"] == 1


# ---------------------------------------------------------------------- seeks


def test_a_seek_counts_restored_and_skipped_messages(admin: Harness, clock: ManualClock) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    for _ in range(10):
        publish(admin, 1)
        admin.call(clock.advance, 1)
    taken = pull(admin, 6)
    admin.post("/subscriptions/s/ack", receipts(taken[:2] + taken[4:6]))  # 2 and 3 stay in flight, 6 to 9 unread
    expected = {
        0: (10, 4, 0),
        1: (9, 3, 0),
        3: (7, 2, 1),
        4: (6, 2, 2),
        7: (3, 0, 3),
        10: (0, 0, 6),
        99: (0, 0, 6),
    }
    for offset, (after, back, skipped) in expected.items():
        answer = admin.post("/subscriptions/s/seek", {"offset": offset, "dry_run": True})
        assert answer == {
            "backlog_before": 6,
            "backlog_after": after,
            "come_back": back,
            "skipped": skipped,
            "exact": True,
        }, offset
    assert admin.get("/subscriptions/s")["backlog_messages"] == 6, "a dry run changes nothing"
    same = admin.post("/subscriptions/s/seek", {"time": "2026-11-15T10:00:03Z", "dry_run": True})
    assert same["backlog_after"] == 7
    assert admin.post("/subscriptions/s/seek", {"to": "beginning"})["come_back"] == 4
    assert admin.get("/subscriptions/s")["backlog_messages"] == 10
    assert [each["message"]["offset"] for each in pull(admin)] == list(range(10))
    assert admin.post("/subscriptions/s/seek", {"to": "end"})["skipped"] == 10
    assert pull(admin) == []


def test_a_filter_makes_the_numbers_an_upper_bound(admin: Harness) -> None:
    options = {"filter": 'attributes.a = "b"'}
    admin.post("/subscriptions", {"name": "s", "topic": "orders", "options": options})
    publish(admin, 2, a="b")
    publish(admin, 2)
    answer = admin.post("/subscriptions/s/seek", {"to": "beginning", "dry_run": True})
    assert (answer["backlog_after"], answer["exact"]) == (4, False)


def test_a_snapshot_restores_unacked_messages(admin: Harness) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    publish(admin, 6)
    taken = pull(admin, 4)
    admin.post("/subscriptions/s/ack", receipts(taken[1:3]))
    made = admin.ask("POST", "/snapshots", {"name": "before", "subscription": "s", "labels": {"a": "b"}})
    assert made.status == 201
    assert made.json["name"] == "projects/penstock/snapshots/before"
    assert (made.json["topic"], made.json["labels"]) == (TOPIC, {"a": "b"})
    admin.post("/subscriptions/s/ack", receipts([taken[0], taken[3]]))
    publish(admin, 1)
    answer = admin.post("/subscriptions/s/seek", {"snapshot": "before", "dry_run": True})
    assert (answer["backlog_before"], answer["backlog_after"]) == (3, 5)
    assert (answer["come_back"], answer["skipped"]) == (2, 0)
    admin.post("/subscriptions/s/seek", {"snapshot": "before"})
    assert [each["message"]["offset"] for each in pull(admin)] == [0, 3, 4, 5, 6]

    assert [each["id"] for each in admin.get("/snapshots")["snapshots"]] == ["before"]
    assert admin.get("/snapshots/before")["id"] == "before"
    assert admin.ask("POST", "/snapshots", {"name": "before", "subscription": "s"}).status == 409
    refused = admin.ask("POST", "/topics/orders/purge")
    assert (refused.status, refused.sentence) == (
        412,
        f"Snapshots need the messages of this topic, delete them first: {TOPIC}",
    )
    assert admin.ask("DELETE", "/snapshots/before").status == 204
    assert admin.ask("GET", "/snapshots/before").sentence == "Snapshot not found: projects/penstock/snapshots/before"
    assert admin.ask("POST", "/subscriptions/s/seek", {"snapshot": "before"}).status == 404


def test_a_purge_settles_waiting_messages(admin: Harness) -> None:
    for name in ("s", "other"):
        admin.post("/subscriptions", {"name": name, "topic": "orders"})
    publish(admin, 5)
    pull(admin, 2)
    assert admin.post("/subscriptions/s/purge", {"dry_run": True}) == {"messages": 5}
    assert admin.get("/subscriptions/s")["backlog_messages"] == 5
    assert admin.post("/subscriptions/s/purge") == {"messages": 5}
    assert admin.get("/subscriptions/s")["backlog_messages"] == 0
    assert admin.get("/subscriptions/other")["backlog_messages"] == 5


def test_a_purged_topic_is_empty_for_all_subscriptions(admin: Harness) -> None:
    for name in ("s", "other"):
        admin.post("/subscriptions", {"name": name, "topic": "orders"})
    publish(admin, 5)
    (one,) = pull(admin, 1)
    assert admin.post("/topics/orders/purge", {"dry_run": True}) == {"messages": 5}
    assert admin.get("/topics/orders")["messages"] == 5
    assert admin.post("/topics/orders/purge", {}) == {"messages": 5}
    topic = admin.get("/topics/orders")
    assert (topic["messages"], topic["first_offset"], topic["next_offset"], topic["bytes"]) == (0, 5, 5, 0)
    assert admin.get("/subscriptions/other")["backlog_messages"] == 0
    assert admin.post("/subscriptions/s/ack", receipts([one]))["stale"] == [one["receipt"]]
    publish(admin, 1)
    assert [each["message"]["offset"] for each in pull(admin)] == [5]


def test_a_detached_subscription_says_so(admin: Harness) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders"})
    admin.ask("DELETE", "/topics/orders")
    assert admin.get("/subscriptions/s")["detached"] is True
    for method, verb in [("GET", "messages"), ("POST", "pull"), ("POST", "purge")]:
        answer = admin.ask(method, f"/subscriptions/s/{verb}")
        assert (answer.status, answer.sentence) == (412, f"Subscription is detached: {SUBSCRIPTION}")
    assert admin.ask("POST", "/subscriptions/s/seek", {"to": "end"}).status == 412


# ---------------------------------------------------------------------- queues


def test_a_queue_is_made_and_removed_in_one_step(admin: Harness) -> None:
    made = admin.ask("POST", "/queues", {"name": "jobs"})
    assert made.status == 201
    record = made.json
    assert (record["name"], record["project"]) == ("jobs", "penstock")
    assert (record["topic"], record["subscription"]) == (
        "projects/penstock/topics/jobs",
        "projects/penstock/subscriptions/jobs",
    )
    assert record["names"]["python"] == "jobs"
    assert admin.get("/subscriptions/jobs")["kind"] == "queue"
    again = admin.ask("POST", "/queues", {"name": "jobs"})
    assert (again.status, again.sentence) == (409, "Queue already exists: jobs")
    admin.post("/topics/jobs/messages", {"messages": [{"data": "x"}]})
    assert admin.get("/queues/jobs")["backlog_messages"] == 1
    admin.post("/queues", {"name": "more", "project": "p"})
    assert [each["name"] for each in admin.get("/queues")["queues"]] == ["more", "jobs"]
    assert [each["name"] for each in admin.get("/queues", project="p")["queues"]] == ["more"]
    assert admin.get("/queues", search="job")["total"] == 1
    assert [each["name"] for each in admin.get("/queues", sort="-backlog", recent=5)["queues"]] == ["jobs", "more"]
    assert admin.get("/subscriptions/jobs")["names"] == admin.get("/queues/jobs")["names"]
    assert admin.get("/subscriptions/more", project="p")["names"]["python"] == "projects/p/subscriptions/more"
    assert admin.ask("DELETE", "/queues/jobs").status == 204
    assert admin.ask("GET", "/topics/jobs").status == 404
    assert admin.ask("GET", "/queues/jobs").sentence == "Queue not found: jobs"
    assert admin.ask("DELETE", "/queues/jobs").status == 404


def test_a_subscription_that_is_pushed_says_so() -> None:
    with Harness(HttpOptions()) as harness:
        harness.context.is_pushed = lambda one: one.name.endswith("/pushed")
        harness.post("/topics", {"name": "t"})
        assert harness.post("/subscriptions", {"name": "pushed", "topic": "t"})["kind"] == "push"
