"""Moves: dead letters return to their topic, messages go to another topic, and other messages stay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Draft, SubscriptionOptions
from penstock.broker.facts import Published
from penstock.broker.model import TopicOptions
from penstock.doors.google.dead_letters import source_attributes
from penstock.errors import UnavailableError
from penstock.services.moves import move as moving
from penstock.services.moves import scan
from tests.doors.http.harness import SECONDS, Harness

ORDERS, DEAD = "projects/penstock/topics/orders", "projects/penstock/topics/dead"
BILLING, LOOK = "projects/penstock/subscriptions/billing", "projects/penstock/subscriptions/look"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness(describe_source=source_attributes) as harness:
        for topic in (ORDERS, DEAD):
            kept = TopicOptions(retention_seconds=3600)
            harness.do(lambda topic=topic, kept=kept: harness.queue.create_topic(topic, kept))
        policy = SubscriptionOptions(dead_letter_topic=DEAD, max_delivery_attempts=1)
        harness.do(lambda: harness.queue.create_subscription(BILLING, ORDERS, policy))
        yield harness


def die(harness: Harness, count: int) -> list[str]:
    """Publish messages and nack them, so that they become dead letters. Return their bodies."""
    bodies = [f"order {number}" for number in range(count)]
    drafts = [Draft(body.encode(), {"n": str(number % 3)}) for number, body in enumerate(bodies)]
    harness.do(lambda: harness.queue.publish(ORDERS, drafts))
    deliveries = harness.do(lambda: harness.queue.pull(BILLING, count))
    harness.do(lambda: harness.queue.nack([each.receipt for each in deliveries]))
    return bodies


def looked_at(harness: Harness) -> None:
    harness.do(lambda: harness.queue.create_subscription(LOOK, DEAD))


def move(harness: Harness, **body: Any) -> Any:
    """Run a move to its end, and return its receipt."""
    started = harness.post("/moves", {"from": "look", **body})
    return ended(harness, started["id"])


def ended(harness: Harness, number: str) -> Any:
    async def wait() -> None:
        async with asyncio.timeout(SECONDS):
            while harness.services.moves.find(number).ended_at == 0:
                await asyncio.sleep(0.01)

    harness.run(wait())
    return harness.get(f"/moves/{number}")


def pulled(harness: Harness, subscription: str = BILLING) -> list[str]:
    return [each.message.data.decode() for each in harness.do(lambda: harness.queue.pull(subscription, 1000))]


def backlog(harness: Harness, subscription: str = LOOK) -> int:
    return int(harness.do(lambda: harness.queue.backlog(subscription)).messages)


def test_dead_letters_go_back_to_the_topic_they_came_from(harness: Harness) -> None:
    looked_at(harness)
    bodies = die(harness, 600)
    receipt = move(harness)
    assert receipt["state"] == "done"
    assert (receipt["moved"], receipt["left"], receipt["unknown"], receipt["total"]) == (600, 0, 0, 600)
    assert receipt["ended_at"] >= receipt["started_at"]
    deliveries = harness.do(lambda: harness.queue.pull(BILLING, 1000))
    assert [each.message.data.decode() for each in deliveries] == bodies
    assert deliveries[0].message.attributes == {"n": "0"}, "as it was published, without dead-letter attributes"
    assert backlog(harness) == 0


def story(harness: Harness, topic: str, offset: int) -> list[tuple[str, str | None, str]]:
    events = harness.get(f"/topics/{topic}/messages/{offset}/story")["events"]
    return [(each["kind"], each["other"], each["sentence"]) for each in events]


def test_the_story_of_a_message_that_was_moved_says_where_it_went_and_where_it_came_from(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 2)
    assert move(harness, filter='attributes.n = "1"')["moved"] == 1
    assert story(harness, "dead", 1) == [
        ("published", BILLING, "Published, moved here from billing."),
        ("moved", ORDERS, "Moved from look to orders."),
    ]
    assert len(story(harness, "dead", 0)) == 1
    assert story(harness, "orders", 0)[-1] == ("dead-letter", DEAD, "Moved by billing to its dead letter topic dead.")
    assert story(harness, "orders", 2) == [("published", LOOK, "Published, moved here from look.")]
    [delivery] = harness.do(lambda: harness.queue.pull(LOOK, 1))
    harness.do(lambda: harness.queue.ack([delivery.receipt]))
    assert [kind for kind, _, _ in story(harness, "dead", 0)] == ["published", "delivered", "acked"]


def test_the_story_of_a_message_that_was_moved_from_a_topic_without_a_subscription(harness: Harness) -> None:
    """The subscription that was created for the move is deleted, and the topic of the move may be deleted, too."""
    die(harness, 1)
    assert move(harness, **{"from": DEAD})["moved"] == 1
    assert story(harness, "dead", 0)[1:] == [("moved", ORDERS, "Moved to orders.")]
    assert story(harness, "orders", 1) == [("published", DEAD, "Published, moved here from dead.")]
    harness.do(lambda: harness.queue.delete_topic(ORDERS))
    assert story(harness, "dead", 0)[1:] == [("moved", None, "Moved to a deleted topic.")]


def test_a_dry_run_counts_messages_and_changes_nothing(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 30)
    harness.do(lambda: harness.queue.publish(DEAD, [Draft(b"no dead letter")]))
    answer = harness.ask("POST", "/moves", {"from": "look", "dry_run": True, "filter": 'attributes.n = "1"'})
    assert answer.status == 200
    assert answer.json == {
        "would_move": 10,
        "would_leave": 21,
        "by_topic": {ORDERS: 10},
        "reasons": {"not chosen": 21},
        "complete": True,
    }
    assert backlog(harness) == 31
    assert harness.get("/moves")["moves"] == []


def test_a_dry_run_does_not_count_settled_or_leased_messages(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 3)
    first, _ = (harness.do(lambda: harness.queue.pull(LOOK, 1)) for _ in range(2))
    harness.do(lambda: harness.queue.ack([each.receipt for each in first]))
    ids = [each["id"] for each in harness.get("/topics/dead/messages")["messages"]]
    preview = harness.ask("POST", "/moves", {"from": "look", "ids": ids, "dry_run": True}).json
    assert (preview["would_move"], preview["would_leave"]) == (1, 2)
    receipt = move(harness, ids=ids)
    assert (receipt["moved"], receipt["left"], receipt["reasons"]) == (1, 2, preview["reasons"])


def test_messages_that_are_not_selected_stay_without_an_attempt(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 30)
    receipt = move(harness, filter='attributes.n = "1"', text="order 1")
    chosen = [f"order {n}" for n in range(30) if n % 3 == 1 and str(n).startswith("1")]
    assert pulled(harness) == chosen
    assert (receipt["moved"], receipt["left"]) == (len(chosen), 30 - len(chosen))
    assert receipt["reasons"] == {"not chosen": 30 - len(chosen)}
    rest = harness.do(lambda: harness.queue.pull(LOOK, 100))
    assert {each.attempt for each in rest} == {1}
    assert len(rest) == 30 - len(chosen)


RATE_TOO_SMALL = "rate must be 0, which means no limit, or at least 0.01 messages a second"


@pytest.mark.parametrize(("chosen", "left"), [({}, 27), ({"filter": 'attributes.n = "1"'}, 27)])
def test_messages_beyond_the_maximum_stay_as_in_the_dry_run(
    harness: Harness, chosen: dict[str, str], left: int
) -> None:
    looked_at(harness)
    die(harness, 30)
    preview = harness.ask("POST", "/moves", {"from": "look", "max": 3, "dry_run": True, **chosen}).json
    receipt = move(harness, max=3, **chosen)
    assert (receipt["moved"], receipt["left"], receipt["total"], receipt["max"]) == (3, left, 30, 3)
    assert receipt["reasons"] == preview["reasons"] == {"not chosen": left}
    assert backlog(harness) == left


def test_large_messages_are_moved_in_more_steps(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH_BYTES", 300)
    looked_at(harness)
    bodies = die(harness, 40)
    ids = [each.id for each in harness.do(lambda: harness.queue.pull(LOOK, 40))]
    harness.do(lambda: harness.queue.seek_to_offset(LOOK, 0))
    assert move(harness, ids=[*ids[:5], *ids[20:25], "7"])["moved"] == 10
    receipt = move(harness)
    assert (receipt["moved"], receipt["left"]) == (30, 0)
    assert sorted(pulled(harness)) == sorted(bodies)


def test_by_a_place_in_their_json(harness: Harness) -> None:
    looked_at(harness)
    harness.do(lambda: harness.queue.publish(DEAD, [Draft(b'{"a": 1}'), Draft(b'{"a": 2}'), Draft(b"a")]))
    assert move(harness, to="orders", json="$.a=2")["moved"] == 1
    assert pulled(harness) == ['{"a": 2}']


def test_single_messages_by_id(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 10)
    ids = [each.id for each in harness.do(lambda: harness.queue.pull(LOOK, 10))]
    harness.do(lambda: harness.queue.seek_to_offset(LOOK, 0))
    receipt = move(harness, ids=[ids[7], ids[2], "1"])
    assert (receipt["moved"], receipt["left"], receipt["total"]) == (2, 1, 3)
    assert receipt["reasons"] == {"no such message": 1}
    assert pulled(harness) == ["order 2", "order 7"]


def test_to_another_topic_attributes_and_all(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 3)
    harness.post("/topics", {"name": "repair"})
    harness.do(
        lambda: harness.queue.create_subscription(
            "projects/penstock/subscriptions/r", "projects/penstock/topics/repair"
        )
    )
    assert move(harness, to="repair", max=2)["moved"] == 2
    deliveries = harness.do(lambda: harness.queue.pull("projects/penstock/subscriptions/r", 10))
    assert [each.message.data for each in deliveries] == [b"order 0", b"order 1"]
    assert deliveries[0].message.attributes["CloudPubSubDeadLetterSourceSubscription"] == "billing"
    assert backlog(harness) == 1


def test_why_messages_are_left(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 3)
    harness.do(lambda: harness.queue.publish(DEAD, [Draft(b"no dead letter")]))
    taken = harness.do(lambda: harness.queue.pull(LOOK, 1))
    receipt = move(harness)
    assert receipt["moved"] == 2
    assert receipt["reasons"] == {
        "not a dead letter: its original topic is unknown": 1,
        "leased by a consumer, or already settled": 1,
    }
    harness.do(lambda: harness.queue.nack([taken[0].receipt]))
    harness.do(lambda: harness.queue.delete_subscription(BILLING))
    assert f"its original subscription was deleted: {BILLING}" in move(harness)["reasons"]


def test_a_deleted_topic_and_a_full_queue(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 2)
    harness.do(lambda: harness.queue.delete_topic(ORDERS))
    assert move(harness)["reasons"] == {f"its original topic was deleted: {ORDERS}": 2}
    assert backlog(harness) == 2


def test_to_the_topic_it_came_from_it_ends_all_the_same(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 40)
    receipt = move(harness, to="dead")
    assert receipt["moved"] == 40
    assert backlog(harness) == 40
    assert sorted(pulled(harness, LOOK)) == sorted(f"order {n}" for n in range(40))


def test_with_a_rate_it_takes_its_time_and_can_be_stopped(harness: Harness) -> None:
    looked_at(harness)
    die(harness, 50)
    started = harness.post("/moves", {"from": "look", "rate": 1})
    assert started["state"] == "running"
    refused = harness.ask("POST", "/moves", {"from": "look"})
    assert (refused.status, refused.sentence) == (412, "Move 1 from this subscription is running")
    stopped = harness.ask("DELETE", f"/moves/{started['id']}").json
    assert stopped["state"] == "stopped"
    assert stopped["moved"] in (1, 2)
    assert stopped["reasons"] == {"not reached: the move stopped": 50 - stopped["moved"]}
    assert backlog(harness) == stopped["left"] == 50 - stopped["moved"]
    assert move(harness)["moved"] == 50 - stopped["moved"]
    assert len(pulled(harness)) == 50


def test_a_server_that_stops_begins_no_move(harness: Harness) -> None:
    looked_at(harness)
    harness.run(harness.services.moves.stop())
    answer = harness.ask("POST", "/moves", {"from": "look"})
    assert (answer.status, answer.sentence) == (503, "The server is stopping")


def test_messages_published_before_a_kill_are_not_published_again(harness: Harness) -> None:
    """The test starts from the state after a kill between the publish and the ack."""
    looked_at(harness)
    bodies = die(harness, 20)
    queue = harness.context.queue
    real = queue.ack
    harness.do(lambda: _set(queue, "ack", _lost))
    first = move(harness)
    assert (first["state"], first["reason"], first["moved"], first["unknown"]) == ("failed", "gone", 0, 20)
    harness.do(lambda: _set(queue, "ack", real))
    assert harness.do(lambda: queue.leases(LOOK, 0, 100)) == [], "a move that ended leaves nothing behind"
    second = move(harness)
    assert (second["state"], second["moved"], second["unknown"]) == ("done", 20, 0)
    assert pulled(harness) == bodies
    topic = harness.queue.engine.broker.state.topic(ORDERS)
    assert topic.producers == {}, "its publish-once keys are forgotten"


def _lost(*arguments: Any, **named: Any) -> Any:
    raise UnavailableError("gone")


async def _set(queue: Any, name: str, value: Any) -> None:
    setattr(queue, name, value)


def test_another_move_does_not_forget_an_interrupted_one(harness: Harness) -> None:
    looked_at(harness)
    bodies = die(harness, 20)
    broken_off = {"filter": 'attributes.n = "1"'}
    queue = harness.context.queue
    real = queue.ack
    harness.do(lambda: _set(queue, "ack", _lost))
    assert move(harness, **broken_off)["unknown"] == 7
    harness.do(lambda: _set(queue, "ack", real))
    assert move(harness, filter='attributes.n = "2"')["moved"] == 6
    assert move(harness, **broken_off)["moved"] == 7
    assert move(harness)["moved"] == 7
    assert sorted(pulled(harness)) == sorted(bodies)
    assert harness.queue.engine.broker.state.topic(ORDERS).producers == {}


def test_publish_once_keys_are_forgotten_on_the_way(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "BLOCK", 10)
    monkeypatch.setattr(moving, "BATCH_MESSAGES", 8)
    looked_at(harness)
    bodies = die(harness, 100)
    most = 0
    topic = harness.queue.engine.broker.state.topic(ORDERS)

    def watch(fact: Any) -> None:
        nonlocal most
        most = max(most, sum(len(each.answers) for each in topic.producers.values()))

    harness.do(lambda: _on(harness, [Published], watch))
    assert move(harness)["moved"] == 100
    assert 8 <= most <= 20
    assert pulled(harness) == bodies
    assert topic.producers == {}


async def _on(harness: Harness, kinds: Any, listener: Any) -> None:
    harness.queue.engine.on(kinds, listener)


# ---------------------------------------------------------------------- topics without a subscription


def test_from_a_topic_without_a_subscription(harness: Harness) -> None:
    bodies = die(harness, 25)  # kept only by retention
    preview = harness.post("/moves", {"from": "dead", "dry_run": True})
    assert preview["would_move"] == 25
    assert len(harness.do(lambda: harness.queue.subscriptions())) == 1
    receipt = move(harness, **{"from": "dead"})
    assert (receipt["moved"], receipt["from"]) == (25, "projects/penstock/subscriptions/dead-move")
    assert pulled(harness) == bodies
    assert len(harness.do(lambda: harness.queue.subscriptions())) == 1, "the subscription of the move is removed"
    assert move(harness, **{"from": "dead"})["moved"] == 0, "moved messages are not moved again"


def test_a_move_with_messages_left_keeps_its_subscription(harness: Harness) -> None:
    die(harness, 6)
    receipt = move(harness, **{"from": "dead", "filter": 'attributes.n = "0"'})
    assert (receipt["moved"], receipt["left"]) == (2, 4)
    assert "stays" in receipt["reason"]
    assert move(harness, **{"from": "dead"})["moved"] == 4
    assert len(pulled(harness)) == 6


def test_a_topic_with_subscriptions_names_them(harness: Harness) -> None:
    looked_at(harness)
    answer = harness.ask("POST", "/moves", {"from": "dead"})
    assert (answer.status, answer.sentence) == (412, f"Name a subscription of {DEAD} to move from: {LOOK}")


# ---------------------------------------------------------------------- invalid input


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 400, "The field from is missing"),
        ({"from": ""}, 400, "from must name a subscription, or a topic without subscriptions"),
        ({"from": "nobody"}, 404, "There is neither a subscription nor a topic nobody"),
        ({"from": "look", "to": "nowhere"}, 404, "Topic not found: projects/penstock/topics/nowhere"),
        ({"from": "look", "ids": ["x"]}, 400, "ids are message ids: decimal numbers, as text"),
        ({"from": "look", "rate": -1}, 400, "rate must be a number, at least 0"),
        ({"from": "look", "rate": 1e-300}, 400, RATE_TOO_SMALL),
        ({"from": "look", "rate": 0.009}, 400, RATE_TOO_SMALL),
        ({"from": "look", "unknown": 1}, 400, "Unknown field: unknown"),
        ({"from": "ordered"}, 412, ("Messages cannot be moved from a subscription with message "
         "ordering: projects/penstock/subscriptions/ordered. Move from another subscription of its topic")),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(harness: Harness, body: dict[str, Any], status: int, sentence: str) -> None:
    looked_at(harness)
    ordered = "projects/penstock/subscriptions/ordered"
    harness.do(lambda: harness.queue.create_subscription(ordered, DEAD, SubscriptionOptions(ordering=True)))
    answer = harness.ask("POST", "/moves", body)
    assert (answer.status, answer.sentence) == (status, sentence)


def test_a_wrong_filter_is_refused_before_anything_happens(harness: Harness) -> None:
    looked_at(harness)
    answer = harness.ask("POST", "/moves", {"from": "look", "filter": "attributes.n ="})
    assert answer.status == 400
    assert harness.get("/moves")["total"] == 0
