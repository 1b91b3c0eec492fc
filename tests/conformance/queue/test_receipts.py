"""Strict and lenient receipts, and messages whose body is replaced by their consumer."""

from __future__ import annotations

import pytest

from penstock import InvalidArgumentError, MessageQueue
from penstock.broker.log import Sizes
from tests.conformance.queue.harness import Harness


@pytest.fixture
def two(harness: Harness) -> Harness:
    """Create a topic with two subscriptions."""
    harness.topic_with("sub", "other")
    return harness


def put_receipt(queue: MessageQueue, offset: int, name: str = "sub") -> str:
    """Return the receipt of a message that was published and never delivered."""
    subscription = queue.get_subscription(name)
    assert subscription is not None
    return queue.engine.broker.publisher_receipt(subscription.number, offset)


def test_a_lenient_receipt_is_good_until_the_next_delivery(two: Harness) -> None:
    queue = two.queue
    two.publish("a", "b")
    a, b = queue.pull("sub", 2)
    two.clock.advance(100)
    two.lenient.ack(a.ack_id)
    assert queue.backlog("sub").messages == 1
    again = two.take("sub")
    assert (again.data, again.delivery_attempt) == (b"b", 2)
    with pytest.raises(InvalidArgumentError):
        two.lenient.ack(b.ack_id)
    two.lenient.ack(again.ack_id)


def test_a_lenient_receipt_may_extend_a_lapsed_lease(two: Harness) -> None:
    queue = two.queue
    two.publish("a")
    a = two.take("sub")
    two.clock.advance(100)
    queue.peek("sub", 1)  # the lease is settled as lapsed
    two.lenient.modify_ack_deadline(a.ack_id, 30)
    two.clock.advance(29)
    assert two.pull("sub") == []
    two.clock.advance(1)
    assert two.pull("sub") == ["a"]


def test_a_message_handed_back_has_no_holder(two: Harness) -> None:
    two.publish("a")
    a = two.take("sub")
    two.lenient.nack(a.ack_id)
    assert two.lenient.ack_many([a.ack_id]).stale == [a.ack_id]


@pytest.mark.parametrize("cache_bytes", [1, 10**6])
def test_a_publisher_can_delete_its_message(harness: Harness, cache_bytes: int) -> None:
    """The receipt is valid before any pull, in any order, and only once."""
    queue = harness.again(sizes=Sizes(cache_bytes=cache_bytes))
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    for body in "abcde":
        queue.publish("topic", [body.encode()] + [b"-"] * 600)
    places = [601 * number for number in range(5)]
    assert harness.lenient.ack_many([put_receipt(queue, places[3]), put_receipt(queue, places[1])]).stale == []
    assert queue.backlog("sub").messages == 5 * 601 - 2
    assert harness.lenient.ack_many([put_receipt(queue, places[3])]).stale == [put_receipt(queue, places[3])]
    assert [body for body in harness.drain("sub") if body != "-"] == ["a", "c", "e"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_the_publishers_receipt_dies_with_the_first_delivery(two: Harness) -> None:
    queue = two.queue
    two.publish("a")
    two.take("sub")
    assert two.lenient.ack_many([put_receipt(queue, 0)]).stale == [put_receipt(queue, 0)]
    assert two.lenient.ack_many([put_receipt(queue, 7)]).stale == [put_receipt(queue, 7)]  # never published
    assert queue.backlog("sub").messages == 1


def test_the_publishers_receipt_stays_dead_after_the_message_was_handed_back(two: Harness) -> None:
    queue = two.queue
    two.publish("a")
    two.lenient.nack(queue.pull("sub", 1)[0].ack_id)
    assert two.lenient.ack_many([put_receipt(queue, 0)]).stale == [put_receipt(queue, 0)]
    assert two.pull("sub") == ["a"]


def test_a_strict_caller_has_no_publishers_receipts(two: Harness) -> None:
    two.publish("a")
    old = put_receipt(two.queue, 0)
    assert two.queue.ack_many([old]).stale == [old]
    assert two.pull("sub") == ["a"]


def test_strictness_depends_on_the_caller_and_not_on_the_subscription(two: Harness) -> None:
    """Section 5 of the design: after the deadline the in-process queue refuses a receipt that the vendors' doors
    accept.
    """
    two.publish("a", "b")
    a, b = two.queue.pull("sub", 2)
    two.clock.advance(100)
    assert two.queue.ack_many([a.ack_id, b.ack_id]).stale == [a.ack_id, b.ack_id]
    with pytest.raises(InvalidArgumentError):
        two.queue.modify_ack_deadline(b.ack_id, 10)
    two.lenient.modify_ack_deadline(b.ack_id, 10)
    two.queue.ack(b.ack_id)
    two.lenient.ack(a.ack_id)
    assert two.queue.backlog("sub").messages == 0


def test_a_publisher_can_change_its_message(two: Harness) -> None:
    """A new body, and a time before which the message is not delivered."""
    queue = two.queue
    two.publish("a", "b")
    renewed = two.lenient.replace_body(put_receipt(queue, 0), b"changed", 30)
    assert two.drain("sub") == ["b"]
    two.clock.advance(30)
    changed = two.take("sub")
    assert (changed.data, changed.delivery_attempt) == (b"changed", 1)
    assert two.lenient.ack_many([renewed]).stale == [renewed]


def test_a_replaced_body_is_seen_by_this_subscription_only(two: Harness) -> None:
    queue = two.queue
    two.publish("original")
    first = two.take("sub")
    renewed = two.lenient.replace_body(first.ack_id, b"replaced", 5)
    with pytest.raises(InvalidArgumentError, match="Invalid ack ID"):
        two.lenient.replace_body(first.ack_id, b"too late", 5)
    assert two.pull("sub") == []
    two.clock.advance(5)
    assert [message.data for message in queue.peek("sub", 1)] == [b"replaced"]
    again = two.take("sub")
    assert (again.data, again.delivery_attempt) == (b"replaced", 2)
    assert two.lenient.ack_many([renewed]).stale == [renewed]
    assert two.pull("other") == ["original"]
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
    assert harness.lenient.ack_many([first.ack_id]).stale == [first.ack_id]
    second = harness.take("sub")
    assert queue.ack_many([first.ack_id, second.ack_id]).stale == [first.ack_id]
    assert queue.ack_many([second.ack_id]).stale == [second.ack_id]


def test_each_receipt_of_many_is_judged_by_itself(two: Harness) -> None:
    queue = two.queue
    two.publish("a", "b")
    a, b = queue.pull("other", 2)
    settled = queue.ack_many([a.ack_id, "nonsense", a.ack_id, "9-9-9", b.ack_id])
    assert (settled.stale, settled.malformed) == ([a.ack_id, "9-9-9"], ["nonsense"])
    assert queue.backlog("other").messages == 0
