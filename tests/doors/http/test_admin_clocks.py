"""The clock of a project in the admin API: permission to move it, its values, and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Draft, ManualClock, SubscriptionOptions
from penstock.broker.model import SECOND
from penstock.doors.resources import project_of
from penstock.services.faults.faults import Faults
from tests.doors.http.harness import Harness

CLOCK = "/projects/shop/clock"
TOPIC, SUBSCRIPTION = "projects/shop/topics/orders", "projects/shop/subscriptions/billing"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness(clock=ManualClock(1_800_000_000 * SECOND), namespace_of=project_of) as harness:
        harness.context.faults = harness.call(Faults, harness.queue.clock.now)  # like a server for tests
        harness.do(lambda: harness.queue.create_topic(TOPIC))
        harness.do(lambda: harness.queue.create_subscription(SUBSCRIPTION, TOPIC, SubscriptionOptions(lease_seconds=9)))
        yield harness


def test_a_project_has_the_servers_time_until_its_clock_is_moved(harness: Harness) -> None:
    assert harness.get(CLOCK) == {
        "project": "shop",
        "now": "2027-01-15T08:00:00Z",
        "mode": "shared",
        "ahead_seconds": 0.0,
        "next_due": None,
    }


def test_a_clock_is_frozen_moved_and_released(harness: Harness) -> None:
    assert harness.post(f"{CLOCK}/freeze", {})["mode"] == "frozen"
    moved = harness.post(f"{CLOCK}/advance", {"seconds": 86400.5})
    assert (moved["now"], moved["ahead_seconds"], moved["mode"]) == ("2027-01-16T08:00:00.500000Z", 86400.5, "frozen")
    assert harness.post(f"{CLOCK}/advance", {"to": "2027-02-01T00:00:00Z"})["now"] == "2027-02-01T00:00:00Z"
    assert harness.post(f"{CLOCK}/automatic", {})["mode"] == "automatic"
    assert harness.post(f"{CLOCK}/release", {})["mode"] == "running"
    assert harness.get("/projects/other/clock")["mode"] == "shared"


def test_answers_have_the_time_of_the_project(harness: Harness) -> None:
    harness.post(f"{CLOCK}/freeze", {"at": "2100-01-01T00:00:00Z"})
    harness.do(lambda: harness.queue.publish(TOPIC, [Draft(b"one")]))
    shop = {"project": "shop"}
    (delivery,) = harness.post("/subscriptions/billing/pull", {"max_messages": 1}, **shop)["deliveries"]
    assert delivery["deadline"] == "2100-01-01T00:00:09Z"
    assert harness.get("/subscriptions/billing/leases", **shop)["leases"][0]["leased_at"] == "2100-01-01T00:00:00Z"
    harness.post(f"{CLOCK}/advance", {"seconds": 60})
    record = harness.get("/subscriptions/billing", **shop)
    assert (record["oldest_age_seconds"], record["now"]) == (60, "2100-01-01T00:01:00Z")
    assert harness.get("/topics/orders", **shop)["now"] == "2100-01-01T00:01:00Z"
    harness.post("/snapshots", {"name": "kept", "subscription": "billing", "project": "shop"})
    assert harness.get("/snapshots/kept", **shop)["now"] == "2100-01-01T00:01:00Z"
    harness.call(harness.context.services.samples.take)
    assert harness.get("/statistics")["oldest_age_seconds"] == 60, "of the project, not of the server"
    ago = harness.get("/topics/orders/messages", at="-61s", **shop)
    assert [each["data"] for each in ago["messages"]] == ["one"]


def test_only_a_server_for_tests_allows_its_clock_to_be_moved(harness: Harness) -> None:
    harness.context.faults = None
    for method, path, body in (
        ("POST", f"{CLOCK}/freeze", {}),
        ("POST", f"{CLOCK}/advance", {"seconds": 1}),
        ("POST", f"{CLOCK}/release", {}),
        ("POST", f"{CLOCK}/automatic", {}),
        ("DELETE", "/projects/shop", None),
    ):
        answer = harness.ask(method, path, body)
        assert (answer.status, answer.sentence) == (
            412,
            "This works only on a server started with --testing",
        )
    assert harness.get(CLOCK)["mode"] == "shared"


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("advance", {}, 400, "Give either seconds or to"),
        ("advance", {"seconds": 1, "to": "2030-01-01T00:00:00Z"}, 400, "Give either seconds or to"),
        ("advance", {"seconds": -1}, 400, "seconds must be a number, at least 0"),
        ("advance", {"minutes": 1}, 400, "Unknown field: minutes"),
        ("advance", {"to": "tomorrow"}, 400, "to must be an instant such as 2026-11-15T10:00:00Z, or -10m"),
        (
            "advance",
            {"to": "2027-01-15T07:59:00Z"},
            412,
            "Time does not go back: shop is 60.000 seconds ahead of that",
        ),
        (
            "freeze",
            {"at": "2027-01-15T07:59:00Z"},
            412,
            "Time does not go back: shop is 60.000 seconds ahead of that",
        ),
        (
            "advance",
            {"to": "2000-01-01T00:00:00Z"},
            412,
            "Time does not go back: shop is 853,315,200.000 seconds ahead of that",
        ),
        ("automatic", {"idle_seconds": 0}, 400, "idle_seconds must be a number, more than 0"),
    ],
)
def test_an_impossible_time_is_refused(
    harness: Harness, path: str, body: dict[str, object], status: int, sentence: str
) -> None:
    answer = harness.ask("POST", f"{CLOCK}/{path}", body)
    assert (answer.status, answer.sentence) == (status, sentence)
    assert harness.get(CLOCK)["mode"] == "shared", "a refused request changes nothing"


def test_a_project_is_removed_with_its_time(harness: Harness) -> None:
    harness.do(lambda: harness.queue.create_topic("projects/other/topics/orders"))
    harness.post(f"{CLOCK}/advance", {"seconds": 60})
    assert harness.ask("DELETE", "/projects/shop").status == 204
    assert [each.name for each in harness.do(harness.queue.topics)] == ["projects/other/topics/orders"]
    assert harness.do(harness.queue.subscriptions) == []
    assert harness.get(CLOCK)["mode"] == "shared"
    assert harness.do(lambda: harness.queue.documents("clocks")) == {}
