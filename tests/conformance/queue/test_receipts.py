"""Receipts, strict and lenient: who may still ack, after what; and bodies that their holder replaces."""

from __future__ import annotations

import pytest

from penstock import InvalidArgumentError, MessageQueue, SubscriptionOptions
from penstock.broker.log import Sizes
from tests.conformance.queue.harness import Harness

LENIENT = SubscriptionOptions(lease_seconds=10, strict_receipts=False)


@pytest.fixture
def lenient(harness: Harness) -> Harness:
    """A topic with one lenient subscription and one strict one."""
    harness.queue.register_topic("topic")
    harness.queue.register_subscription("sub", "topic", LENIENT)
    harness.queue.register_subscription("strict", "topic")
    return harness


def put_receipt(queue: MessageQueue, offset: int, name: str = "sub") -> str:
    """The receipt of a message that only its publisher has seen."""
    subscription = queue.get_subscription(name)
    assert subscription is not None
    return queue.engine.broker.publisher_receipt(subscription.number, offset)


def test_a_lenient_receipt_is_good_until_the_next_delivery(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a", "b")
    a, b = queue.pull("sub", 2)
    lenient.clock.advance(100)
    queue.ack(a.ack_id)
    assert queue.backlog("sub").messages == 1
    again = lenient.take("sub")
    assert (again.data, again.delivery_attempt) == (b"b", 2)
    with pytest.raises(InvalidArgumentError):
        queue.ack(b.ack_id)
    queue.ack(again.ack_id)


def test_a_lenient_receipt_may_extend_what_has_lapsed(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a")
    a = lenient.take("sub")
    lenient.clock.advance(100)
    queue.peek("sub", 1)  # the lease is settled as lapsed
    queue.modify_ack_deadline(a.ack_id, 30)
    lenient.clock.advance(29)
    assert lenient.pull("sub") == []
    lenient.clock.advance(1)
    assert lenient.pull("sub") == ["a"]


def test_a_message_handed_back_has_no_holder(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a")
    a = lenient.take("sub")
    queue.nack(a.ack_id)
    assert queue.ack_many([a.ack_id]).stale == [a.ack_id]


@pytest.mark.parametrize("cache_bytes", [1, 10**6])
def test_what_was_put_can_be_deleted_by_its_publisher(harness: Harness, cache_bytes: int) -> None:
    """Before anybody pulls, in any order, and never twice."""
    queue = harness.again(sizes=Sizes(cache_bytes=cache_bytes))
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic", LENIENT)
    for body in "abcde":
        queue.publish("topic", [body.encode()] + [b"-"] * 600)
    places = [601 * number for number in range(5)]
    assert queue.ack_many([put_receipt(queue, places[3]), put_receipt(queue, places[1])]).stale == []
    assert queue.backlog("sub").messages == 5 * 601 - 2
    assert queue.ack_many([put_receipt(queue, places[3])]).stale == [put_receipt(queue, places[3])]
    assert [body for body in harness.drain("sub") if body != "-"] == ["a", "c", "e"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_the_publishers_receipt_dies_with_the_first_delivery(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a")
    lenient.take("sub")
    assert queue.ack_many([put_receipt(queue, 0)]).stale == [put_receipt(queue, 0)]
    assert queue.ack_many([put_receipt(queue, 7)]).stale == [put_receipt(queue, 7)]  # never published
    assert queue.backlog("sub").messages == 1


def test_the_publishers_receipt_stays_dead_after_the_message_was_handed_back(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a")
    queue.nack(queue.pull("sub", 1)[0].ack_id)
    assert queue.ack_many([put_receipt(queue, 0)]).stale == [put_receipt(queue, 0)]
    assert lenient.pull("sub") == ["a"]


def test_a_strict_subscription_knows_no_publishers_receipts(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a")
    old = put_receipt(queue, 0, "strict")
    assert queue.ack_many([old]).stale == [old]
    assert lenient.pull("strict") == ["a"]


def test_the_publisher_may_change_what_it_put(lenient: Harness) -> None:
    """A new body and a time before which nobody sees it."""
    queue = lenient.queue
    lenient.publish("a", "b")
    renewed = queue.replace_body(put_receipt(queue, 0), b"changed", 30)
    assert lenient.drain("sub") == ["b"]
    lenient.clock.advance(30)
    changed = lenient.take("sub")
    assert (changed.data, changed.delivery_attempt) == (b"changed", 1)
    assert queue.ack_many([renewed]).stale == [renewed]


def test_a_replaced_body_is_seen_by_this_subscription_only(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("original")
    first = lenient.take("sub")
    renewed = queue.replace_body(first.ack_id, b"replaced", 5)
    with pytest.raises(InvalidArgumentError, match="Invalid ack ID"):
        queue.replace_body(first.ack_id, b"too late", 5)
    assert lenient.pull("sub") == []
    lenient.clock.advance(5)
    assert [message.data for message in queue.peek("sub", 1)] == [b"replaced"]
    again = lenient.take("sub")
    assert (again.data, again.delivery_attempt) == (b"replaced", 2)
    assert queue.ack_many([renewed]).stale == [renewed]
    assert lenient.pull("strict") == ["original"]
    assert [message.data for message in queue.read("topic", 0, 1)] == [b"original"]


def test_a_replaced_body_moves_to_the_dead_letters(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy={"dead_letter_topic": "dead", "max_delivery_attempts": 1})
    harness.publish("original")
    queue.nack(queue.replace_body(harness.take("sub").ack_id, b"replaced", 10))
    assert harness.drain("letters") == ["replaced"]


def test_exactly_once_is_strict(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", enable_exactly_once_delivery=True)
    harness.publish("a")
    first = harness.take("sub")
    harness.clock.advance(10)
    assert queue.ack_many([first.ack_id]).stale == [first.ack_id]
    second = harness.take("sub")
    assert queue.ack_many([first.ack_id, second.ack_id]).stale == [first.ack_id]
    assert queue.ack_many([second.ack_id]).stale == [second.ack_id]


def test_each_receipt_of_many_is_judged_by_itself(lenient: Harness) -> None:
    queue = lenient.queue
    lenient.publish("a", "b")
    a, b = queue.pull("strict", 2)
    settled = queue.ack_many([a.ack_id, "nonsense", a.ack_id, "9-9-9", b.ack_id])
    assert (settled.stale, settled.malformed) == ([a.ack_id, "9-9-9"], ["nonsense"])
    assert queue.backlog("strict").messages == 0
