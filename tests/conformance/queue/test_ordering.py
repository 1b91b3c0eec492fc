"""Ordering keys: publish order within a key, with windows, returns, deadlines and dead letters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock import Draft, InternalMessage, MessageQueue, SubscriptionOptions
from tests.conformance.queue.harness import Harness


def ordered(harness: Harness, window: int = 1, **options: Any) -> MessageQueue:
    harness.queue.register_topic("topic")
    chosen = SubscriptionOptions(ordering=True, ordering_window=window, **options)
    harness.queue.register_subscription("sub", "topic", chosen)
    return harness.queue


def texts(messages: list[InternalMessage]) -> list[str]:
    return [message.data.decode() for message in messages]


def test_a_window_limits_the_leased_messages_of_a_key(harness: Harness) -> None:
    queue = ordered(harness, window=3)
    harness.publish("a0", "a1", "a2", "a3", "a4", key="a")
    harness.publish("b0", key="b")
    first = queue.pull("sub", 10)
    assert texts(first) == ["a0", "a1", "a2", "b0"]
    queue.ack(first[1].ack_id)
    assert harness.pull("sub") == ["a3"]
    assert harness.pull("sub") == []


@pytest.mark.parametrize("by", ["nack", "deadline"])
def test_a_return_brings_back_the_later_ones_of_the_key(harness: Harness, by: str) -> None:
    """Later messages are redelivered in order, and their receipts become invalid.

    Earlier ones and other keys are not affected.
    """
    queue = ordered(harness, window=3)
    harness.publish("a0", "a1", "a2", "a3", key="a")
    harness.publish("b0", key="b")
    a0, a1, a2, b0 = queue.pull("sub", 10)
    if by == "nack":
        queue.nack(a1.ack_id)
    else:
        for message in (a0, a2, b0):
            queue.modify_ack_deadline(message.ack_id, 60)
        harness.clock.advance(10)
    again = queue.pull("sub", 10)
    assert texts(again) == ["a1", "a2"]
    assert queue.ack_many([a2.ack_id]).stale == [a2.ack_id]
    for message in (a0, b0, *again):
        queue.ack(message.ack_id)
    assert harness.drain("sub") == ["a3"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_a_backoff_holds_back_the_whole_key_and_no_other(harness: Harness) -> None:
    queue = ordered(harness, window=2, retry_minimum_seconds=10, retry_maximum_seconds=10)
    harness.publish("a0", "a1", key="a")
    a0, _ = queue.pull("sub", 10)
    queue.nack(a0.ack_id)
    harness.publish("a2", key="a")
    harness.publish("b0", key="b")
    harness.publish("free")
    assert harness.drain("sub") == ["b0", "free"]
    harness.clock.advance(10)
    assert harness.drain("sub") == ["a0", "a1", "a2"]


def test_a_dead_letter_unblocks_its_key(harness: Harness) -> None:
    harness.topic_with("letters", topic="dead")
    queue = ordered(harness, dead_letter_topic="dead", max_delivery_attempts=2)
    harness.publish("a0", "a1", key="a")
    for _ in range(2):
        message = harness.take("sub")
        assert message.data == b"a0"
        queue.nack(message.ack_id)
    assert harness.drain("sub") == ["a1"]
    assert harness.drain("letters") == ["a0"]


def test_thousands_of_keys_flow_while_one_is_stuck(harness: Harness) -> None:
    queue = ordered(harness)
    harness.publish("stuck-0", "stuck-1", key="stuck")
    harness.take("sub")
    queue.publish("topic", [Draft(b"%d" % number, {}, f"key-{number}") for number in range(2000)])
    seen = [each.data for each in queue.pull("sub", 3000)]
    assert seen == [b"%d" % number for number in range(2000)]


def test_a_subscription_without_ordering_ignores_keys(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    harness.publish("a0", "a1", key="a")
    assert harness.pull("sub") == ["a0", "a1"]


def test_repeated_peeks_use_no_memory(harness: Harness) -> None:
    """A peek looks ahead in the lane. A thousand peeks must not fill the index."""
    queue = ordered(harness, window=5)
    harness.publish("a0", "a1", "a2", key="a")
    queue.nack(harness.take("sub").ack_id)
    for _ in range(1000):
        assert len(queue.peek("sub", 1)) == 1
    assert len(queue.engine.broker.state.subscription("sub").lane_ready) < 200
    assert harness.drain("sub") == ["a0", "a1", "a2"]


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_no_schedule_of_failures_breaks_the_order(harness: Harness, window: int, seed: int) -> None:
    """After any acks, nacks and extensions, a message is acked only after all earlier messages of its key."""
    queue, chance = ordered(harness, window=window), random.Random(seed)
    published = [(f"k{chance.randrange(3)}", number) for number in range(60)]
    for key, number in published:
        queue.publish("topic", [Draft(b"%d" % number, {}, key)])
    acked: list[int] = []
    while len(acked) < len(published):
        for message in queue.pull("sub", chance.randrange(1, 6)):
            number, choice = int(message.data), chance.random()
            before = [n for key, n in published if key == message.ordering_key and n < number]
            if choice < 0.5 and set(before) <= set(acked):
                assert queue.ack_many([message.ack_id]).stale == []
                acked.append(number)
            elif choice < 0.8:
                queue.nack_many([message.ack_id])
        if chance.random() < 0.2:
            harness.clock.advance(11)
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert queue.engine.broker.state.subscription("sub").lanes == {}
