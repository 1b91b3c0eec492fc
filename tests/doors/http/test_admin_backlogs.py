"""The backlog of a subscription and the stories of messages in the admin API."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import ManualClock
from penstock.broker.log import Sizes
from penstock.broker.model import SECOND, Draft
from penstock.services import backlogs
from tests.doors.http.harness import PREFIX, SECONDS, Harness

TOPIC = "projects/penstock/topics/orders"
START = int(datetime(2026, 11, 15, 10, tzinfo=UTC).timestamp()) * SECOND
BACKLOG = "/subscriptions/s/backlog"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def admin(clock: ManualClock) -> Iterator[Harness]:
    with Harness(clock=clock, sizes=Sizes(cache_bytes=1, chunk_messages=3)) as harness:
        harness.post("/topics", {"name": "orders", "retention_seconds": 86400})
        yield harness


def subscribe(admin: Harness, **options: Any) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders", "options": options})


def publish(admin: Harness, count: int, **attributes: str) -> None:
    drafts = [Draft(b"%d" % number, attributes) for number in range(count)]
    admin.do(lambda: admin.queue.publish(TOPIC, drafts))


def pull(admin: Harness) -> list[str]:
    """Pull one message at a time, because the cache is tiny."""
    return [each["receipt"] for each in admin.post("/subscriptions/s/pull", {"max_messages": 1})["deliveries"]]


def stages(admin: Harness, **query: Any) -> list[tuple[int, str, str | None]]:
    found = admin.get(BACKLOG, **query)["messages"]
    return [(each["message"]["offset"], each["stage"], each["until"] and each["until"][11:19]) for each in found]


def test_each_message_has_the_reason_why_it_waits(admin: Harness) -> None:
    subscribe(admin, ack_deadline_seconds=30, retry_policy={"minimum_backoff": 100, "maximum_backoff": 100})
    assert admin.get(BACKLOG) == {"messages": [], "complete": True}
    publish(admin, 4)
    acked, failed, _ = pull(admin) + pull(admin) + pull(admin)
    admin.post("/subscriptions/s/ack", {"receipts": [acked]})
    admin.post("/subscriptions/s/nack", {"receipts": [failed]})
    assert stages(admin) == [(1, "waiting", "10:01:40"), (2, "leased", "10:00:30"), (3, "unread", None)]
    leased = admin.get(BACKLOG)["messages"][1]
    assert (leased["attempts"], leased["door"], leased["message"]["data"]) == (1, "http", "2")
    assert leased["holder"].startswith("pull-")


def test_messages_behind_many_leases_are_listed_without_the_leases(
    admin: Harness, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlogs, "PAGE_MESSAGES", 2)
    subscribe(admin, ack_deadline_seconds=30)
    publish(admin, 8)
    for _ in range(5):
        pull(admin)
    assert stages(admin, leased="false") == [(offset, "unread", None) for offset in (5, 6, 7)]
    listed = admin.get(BACKLOG, leased="false", max=2)
    assert ([each["message"]["offset"] for each in listed["messages"]], listed["complete"]) == ([5, 6], False)
    clock.advance(31)
    assert stages(admin, leased="false", max=1) == [(0, "waiting", "10:00:30")]


def test_time_that_has_passed_has_passed(admin: Harness, clock: ManualClock) -> None:
    subscribe(admin, ack_deadline_seconds=30)
    publish(admin, 1)
    pull(admin)
    clock.advance(31)
    assert stages(admin) == [(0, "waiting", "10:00:30")]


def test_messages_behind_a_failed_one_of_their_key_are_held(admin: Harness) -> None:
    subscribe(admin, enable_message_ordering=True, retry_policy={"minimum_backoff": 100, "maximum_backoff": 100})
    drafts = [Draft(b"%d" % number, ordering_key="k") for number in range(2)]
    admin.do(lambda: admin.queue.publish(TOPIC, drafts))
    admin.post("/subscriptions/s/nack", {"receipts": pull(admin)})
    assert pull(admin) == []
    assert stages(admin) == [(0, "waiting", "10:01:40"), (1, "held", None)]


def test_a_long_backlog_is_cut_and_leaves_out_filtered_messages(admin: Harness) -> None:
    subscribe(admin, filter='attributes.kind = "new"')
    publish(admin, 2500, kind="old")
    assert admin.get(BACKLOG) == {"messages": [], "complete": True}
    publish(admin, 3, kind="new")
    assert [offset for offset, _, _ in stages(admin)] == [2500, 2501, 2502]
    cut = admin.get(BACKLOG, max=2)
    assert (len(cut["messages"]), cut["complete"]) == (2, False)


def test_lives_that_are_over_are_no_part_of_it(admin: Harness, clock: ManualClock) -> None:
    subscribe(admin)
    drafts = [Draft(b"short", ttl_seconds=10), Draft(b"long")]
    admin.do(lambda: admin.queue.publish(TOPIC, drafts))
    clock.advance(10)
    assert stages(admin) == [(1, "unread", None)]


def test_a_wait_ends_with_the_last_ack(admin: Harness) -> None:
    subscribe(admin)
    publish(admin, 1)
    receipts, answers = pull(admin), list[Any]()
    before = listeners(admin)
    waiting = threading.Thread(target=lambda: answers.append(admin.get(BACKLOG, wait_seconds=60)))
    waiting.start()
    while listeners(admin) == before:
        admin.get("/topics/orders")
    admin.post("/subscriptions/s/ack", {"receipts": receipts})
    waiting.join(SECONDS)
    assert answers == [{"messages": [], "complete": True}]


def test_a_wait_that_times_out_returns_the_remaining_messages(admin: Harness) -> None:
    subscribe(admin)
    publish(admin, 1)
    assert [offset for offset, _, _ in stages(admin, wait_seconds=0.05)] == [0]


def test_a_client_that_disconnects_leaves_no_listener(admin: Harness) -> None:
    subscribe(admin)
    publish(admin, 1)
    before = listeners(admin)
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=SECONDS)
    connection.request("GET", f"{PREFIX}{BACKLOG}?wait_seconds=60", headers={"Host": "localhost"})
    while listeners(admin) == before:
        admin.get("/topics/orders")
    connection.close()
    while listeners(admin) > before:
        admin.get("/topics/orders")


def listeners(admin: Harness) -> int:
    """Return the number of listeners to facts. A request that waits for a backlog is one."""
    return sum(map(len, admin.queue.engine._listeners.values()))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"max": 0}, "max must be a whole number, at least 1"),
        ({"max": 1001}, "max must be a whole number, at most 1000"),
        ({"wait_seconds": 61}, "wait_seconds must be a number, at most 60"),
        ({"wait": 1}, "Unknown parameter: wait"),
    ],
)
def test_wrong_questions(admin: Harness, query: dict[str, int], sentence: str) -> None:
    subscribe(admin)
    answer = admin.ask("GET", BACKLOG, **query)
    assert (answer.status, answer.sentence[: len(sentence)]) == (400, sentence)


def test_a_missing_subscription(admin: Harness) -> None:
    assert admin.ask("GET", "/subscriptions/nobody/backlog").status == 404
    assert admin.ask("GET", "/topics/nowhere/stories").status == 404


def test_stories_come_in_pages(admin: Harness) -> None:
    subscribe(admin)
    publish(admin, 3)
    admin.post("/subscriptions/s/ack", {"receipts": pull(admin)})
    first = admin.get("/topics/orders/stories", max=2)
    told = [[event["kind"] for event in each["events"]] for each in first["stories"]]
    assert told == [["published", "delivered", "acked"], ["published"]]
    assert (first["next_offset"], first["complete"]) == (2, False)
    rest = admin.get("/topics/orders/stories", **{"from": 2})
    assert ([each["offset"] for each in rest["stories"]], rest["next_offset"], rest["complete"]) == ([2], 3, True)
    assert admin.get("/topics/orders/stories", **{"from": 9})["stories"] == []
    message = admin.get("/topics/orders/messages/2")
    assert rest["stories"][0]["id"] == message["id"]


def test_a_story_whose_beginning_is_forgotten_says_so(admin: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.services.stories.KEPT", 3)
    subscribe(admin)
    publish(admin, 1)
    pull(admin)
    publish(admin, 1)
    old, new = admin.get("/topics/orders/stories")["stories"]
    assert ([each["kind"] for each in old["events"]], old["complete"]) == (["delivered"], False)
    assert new["complete"]
    assert admin.get("/topics/orders/messages/0/story")["complete"] is False
