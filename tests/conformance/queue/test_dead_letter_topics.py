"""Dead letters without a topic, or with a topic that has no subscription: no loss, no loop, and a warning."""

from __future__ import annotations

import logging

import pytest

from penstock import MessageQueue, SubscriptionOptions
from tests.conformance.queue.harness import Harness

POLICY = {"dead_letter_topic": "dead", "max_delivery_attempts": 2}


def failures(queue: MessageQueue) -> tuple[int, int, int]:
    (sub,) = [each for each in queue.statistics().subscriptions if each.subscription == "sub"]
    return sub.counts.dead_lettered, sub.counts.dead_letter_failures, sub.counts.dead_letters_unread


def fail(harness: Harness) -> None:
    harness.queue.nack(harness.take("sub").ack_id)


def test_a_message_without_its_dead_letter_topic_comes_again_after_growing_delays(
    harness: Harness, queue: MessageQueue
) -> None:
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a")
    fail(harness)
    fail(harness)
    for attempt, seconds in enumerate([1, 2, 4, 8, 16, 32, 60, 60], 3):
        assert harness.pull("sub") == [], "the message waits"
        harness.clock.advance(seconds - 0.001)
        assert harness.pull("sub") == []
        harness.clock.advance(0.001)
        message = harness.take("sub")
        assert message.delivery_attempt == attempt
        queue.nack(message.ack_id)
    assert failures(queue) == (0, 9, 0)
    assert queue.backlog("sub").messages == 1


def test_a_lease_that_ends_has_waited_enough_and_counts_as_well(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a")
    for _ in range(2):
        harness.take("sub")
        harness.clock.advance(10)
    assert harness.pull("sub") == ["a"]
    assert failures(queue) == (0, 1, 0)


def test_a_retry_policy_that_waits_longer_counts(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", dead_letter_policy=POLICY, retry_policy={"minimum_backoff": 30, "maximum_backoff": 30})
    harness.publish("a")
    fail(harness)
    harness.clock.advance(30)
    fail(harness)
    harness.clock.advance(29)
    assert harness.pull("sub") == []
    harness.clock.advance(1)
    assert harness.pull("sub") == ["a"]


def test_the_dead_letter_moves_once_its_topic_exists(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a")
    fail(harness)
    fail(harness)
    harness.topic_with("letters", topic="dead")
    harness.clock.advance(1)
    fail(harness)
    assert (harness.pull("letters"), queue.backlog("sub").messages) == (["a"], 0)
    assert failures(queue) == (1, 1, 0)


def test_a_dead_letter_topic_that_was_deleted_loses_nothing(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a")
    fail(harness)
    queue.unregister_topic("dead")
    fail(harness)
    assert (harness.pull("sub"), queue.backlog("sub").messages) == ([], 1)
    assert failures(queue) == (0, 1, 0)


def test_an_ordered_message_without_its_dead_letter_topic_holds_its_key(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", dead_letter_policy=POLICY, enable_message_ordering=True)
    harness.publish("a", "b", key="k")
    fail(harness)
    fail(harness)
    assert harness.pull("sub") == []
    harness.clock.advance(1)
    assert harness.pull("sub") == ["a"]


def test_the_log_says_it_and_is_not_filled(
    harness: Harness, queue: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "penstock")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    assert caplog.messages == ["Subscription sub has a dead letter topic that does not exist: dead"]
    caplog.clear()
    harness.publish("a", "b")
    for _ in range(2):
        for message in queue.pull("sub", 2):
            queue.nack(message.ack_id)
    assert caplog.messages == ["A message of sub cannot be dead-lettered, there is no topic dead (1 so far)"]
    caplog.clear()
    harness.clock.advance(70)
    for message in queue.pull("sub", 2):
        queue.nack(message.ack_id)
    assert caplog.messages == ["A message of sub cannot be dead-lettered, there is no topic dead (3 so far)"]


def test_a_dead_letter_without_a_subscription_is_logged(
    harness: Harness, queue: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "penstock")
    queue.register_topic("dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    assert caplog.messages == ["Subscription sub has a dead letter topic without a subscription: dead"]
    caplog.clear()
    harness.publish("a")
    fail(harness)
    fail(harness)
    assert caplog.messages == ["A dead letter of sub went to dead, which has no subscription (1 so far)"]
    assert failures(queue) == (1, 0, 1)


def test_another_problem_is_logged_at_once(
    harness: Harness, queue: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.register_topic("dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a", "b")
    for _ in range(2):
        queue.nack(queue.pull("sub", 1)[0].ack_id)
    queue.unregister_topic("dead")
    caplog.clear()
    for _ in range(2):
        queue.nack(queue.pull("sub", 1)[0].ack_id)
    assert caplog.messages == ["A message of sub cannot be dead-lettered, there is no topic dead (1 so far)"]


def test_a_dead_letter_topic_in_order_needs_no_word(
    harness: Harness, queue: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "penstock")
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    queue.register_subscription("plain", "topic", SubscriptionOptions())
    harness.publish("a")
    fail(harness)
    fail(harness)
    assert caplog.messages == []
    assert failures(queue) == (1, 0, 0)
