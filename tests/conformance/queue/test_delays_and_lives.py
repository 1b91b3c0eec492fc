"""Delays, times to live and delayed returns of messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from penstock import Draft, InvalidArgumentError, MessageQueue, Once, SubscriptionOptions, TopicOptions
from tests.conformance.queue.harness import Harness


def publish(queue: MessageQueue, body: str, key: str = "", delay: float = 0, ttl: float = 0) -> None:
    queue.publish("topic", [Draft(body.encode(), {}, key, delay, ttl)])


def test_a_delayed_message_is_invisible_until_its_time(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    publish(queue, "late", delay=30)
    publish(queue, "now")
    assert harness.drain("sub") == ["now"]
    assert queue.peek("sub", 10) == []
    assert queue.backlog("sub") == (1, 4, 0, 0)
    harness.clock.advance(29.999)
    assert harness.pull("sub") == []
    harness.clock.advance(0.001)
    late = harness.take("sub")
    assert (late.data, late.delivery_attempt) == (b"late", 1)


def test_a_delay_holds_back_only_its_key(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", message_ordering=True)
    publish(queue, "a1", key="a", delay=30)
    publish(queue, "a2", key="a")
    publish(queue, "b1", key="b")
    assert harness.drain("sub") == ["b1"]
    publish(queue, "a3", key="a")
    assert harness.drain("sub") == []
    harness.clock.advance(30)
    assert harness.drain("sub") == ["a1", "a2", "a3"]


def test_a_delay_counts_behind_an_earlier_message_of_the_key(harness: Harness, queue: MessageQueue) -> None:
    """A message that was first held because of its key is still not delivered before its own time."""
    harness.topic_with("sub", message_ordering=True)
    publish(queue, "a1", key="a")
    publish(queue, "a2", key="a", delay=30)
    publish(queue, "a3", key="a")
    assert harness.drain("sub") == ["a1"]
    harness.clock.advance(29.999)
    assert harness.drain("sub") == []
    harness.clock.advance(0.001)
    assert harness.drain("sub") == ["a2", "a3"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


@pytest.mark.parametrize("stage", ["never seen", "delayed", "leased", "waiting"])
def test_a_message_that_outlived_its_time_is_dropped(harness: Harness, queue: MessageQueue, stage: str) -> None:
    harness.topic_with("sub", ack_deadline_seconds=600)
    publish(queue, "short", delay=5 if stage == "delayed" else 0, ttl=60)
    publish(queue, "long")
    if stage == "delayed":
        assert harness.drain("sub") == ["long"]
    if stage in ("leased", "waiting"):
        leased = harness.take("sub")
    if stage == "waiting":
        queue.nack_many([leased.ack_id], delay_seconds=600)
    harness.clock.advance(59.999)
    if stage == "leased":
        assert harness.drain("sub") == ["long"]
    harness.clock.advance(0.001)
    assert "short" not in harness.drain("sub")
    if stage in ("leased", "waiting"):
        assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert queue.statistics().subscriptions[0].dropped == {"expired": 1}


def test_a_longer_lease_is_no_longer_life(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    publish(queue, "short", ttl=60)
    leased = harness.take("sub")
    queue.modify_ack_deadline(leased.ack_id, 600)
    harness.clock.advance(60)
    assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]


@pytest.mark.parametrize("stage", ["never seen", "leased"])
def test_a_message_that_outlived_its_time_is_moved(harness: Harness, queue: MessageQueue, stage: str) -> None:
    harness.topic_with("expired", topic="expired")
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic", SubscriptionOptions(lease_seconds=600, expired_topic="expired"))
    queue.publish("topic", [Draft(b"short", {"colour": "red"}, ttl_seconds=60)])
    if stage == "leased":
        harness.take("sub")
    harness.clock.advance(60)
    assert harness.pull("sub") == []
    moved = harness.take("expired")
    assert (moved.data, moved.attributes["colour"]) == (b"short", "red")
    assert moved.attributes["dead_letter_source_subscription"] == "sub"
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_nowhere_to_move_to_means_dropped(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic", SubscriptionOptions(expired_topic="nowhere"))
    publish(queue, "short", ttl=60)
    harness.clock.advance(60)
    assert harness.pull("sub") == []
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert queue.statistics().subscriptions[0].dropped == {"expired": 1}


def test_a_life_that_ends_inside_a_window_leaves_the_key_in_order(harness: Harness, queue: MessageQueue) -> None:
    """The later one of two held messages expires first. The counts stay correct, and the message is never delivered."""
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic", SubscriptionOptions(ordering=True, ordering_window=2))
    for body, ttl in [("a", 0), ("b", 0), ("c", 0), ("d", 5), ("e", 0)]:
        publish(queue, body, key="k", ttl=ttl)
    first = queue.pull("sub", 10)
    assert [each.data for each in first] == [b"a", b"b"]
    harness.clock.advance(6)
    queue.ack_many([each.ack_id for each in first])
    assert harness.drain("sub") == ["c", "e"]
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert queue.engine.broker.state.subscription("sub").lanes == {}


def test_a_message_that_expires_in_one_subscription_may_be_acked_in_another(
    harness: Harness, queue: MessageQueue
) -> None:
    harness.topic_with("sub", "quick")
    publish(queue, "short", ttl=60)
    assert harness.drain("quick") == ["short"]
    harness.clock.advance(60)
    assert harness.drain("sub") == []
    assert [each.dropped for each in queue.statistics().subscriptions] == [{"expired": 1}, {}]


def test_a_message_handed_back_early_waits_as_long_as_its_holder_says(harness: Harness, queue: MessageQueue) -> None:
    policy = {"minimum_backoff": 100, "maximum_backoff": 100}
    harness.topic_with("sub", retry_policy=policy)
    harness.publish("a", "b")
    a, b = queue.pull("sub", 2)
    queue.nack_many([a.ack_id], delay_seconds=7)
    queue.nack_many([b.ack_id], delay_seconds=0)
    assert harness.pull("sub") == ["b"]
    harness.clock.advance(6.999)
    assert harness.pull("sub") == []
    harness.clock.advance(0.001)
    assert harness.pull("sub") == ["a"]


def test_no_number_is_too_large_for_the_journal(harness: Harness, queue: MessageQueue) -> None:
    """A fact with a number of more than 64 bits could not be written, and the queue stopped."""
    harness.topic_with("sub")
    huge = 10**30
    for draft in (Draft(b"x", delay_seconds=huge), Draft(b"x", ttl_seconds=huge)):
        with pytest.raises(InvalidArgumentError, match="must be 0 to"):
            queue.publish("topic", [draft])
    for once in (Once("p", huge, 0), Once("p", 0, -huge), Once("p", 0, 0, huge)):
        with pytest.raises(InvalidArgumentError, match="An epoch, a sequence or a digest"):
            queue.publish("topic", [Draft(b"x")], once)
    for options in (
        SubscriptionOptions(flow_max_messages=huge),
        SubscriptionOptions(flow_max_bytes=huge),
        SubscriptionOptions(max_delivery_attempts=huge),
        SubscriptionOptions(ordering_window=huge),
        SubscriptionOptions(retention_seconds=huge),
        SubscriptionOptions(retry_maximum_seconds=float("nan")),
        SubscriptionOptions(retry_maximum_seconds=1e11),
    ):
        with pytest.raises(InvalidArgumentError, match="may be at most"):
            queue.create_subscription("other", "topic", options)
    with pytest.raises(InvalidArgumentError, match="may be at most"):
        queue.create_topic("other", TopicOptions(retention_bytes=huge))
    long = SubscriptionOptions(retention_seconds=1e18, expiration_seconds=1e18)
    queue.create_subscription("old", "topic", long)
    publish(queue, "leased")
    publish(queue, "delayed")
    publish(queue, "ready")
    assert len(queue.lease("sub", 1, lease_seconds=huge)) == 1
    (delayed,) = queue.pull("sub", 1)
    queue.nack_many([delayed.ack_id], delay_seconds=huge)
    assert harness.drain("sub") == ["ready"]
    assert harness.drain("old") == ["leased", "delayed", "ready"]


WRONG: Any = "wrong"


@pytest.mark.parametrize(
    "options",
    [
        SubscriptionOptions(exactly_once=WRONG),
        SubscriptionOptions(exactly_once=1),  # type: ignore[arg-type]
        SubscriptionOptions(flow_max_messages=10.0),  # type: ignore[arg-type]
        SubscriptionOptions(max_delivery_attempts=True),
        SubscriptionOptions(retention_seconds=WRONG),
        SubscriptionOptions(dead_letter_topic=None),  # type: ignore[arg-type]
        SubscriptionOptions(labels=WRONG),
        SubscriptionOptions(labels={"a": 1}),  # type: ignore[dict-item]
        SubscriptionOptions(labels={"a": "\ud800"}),
        SubscriptionOptions(expired_topic="\ud800"),
        TopicOptions(extras={"\ud800": ""}),
        TopicOptions(retention_bytes=1.5),  # type: ignore[arg-type]
    ],
)
def test_an_option_has_the_type_that_is_stored(
    harness: Harness, queue: MessageQueue, options: SubscriptionOptions | TopicOptions
) -> None:
    """Others were stored, and then the store could not be opened again."""
    harness.topic_with("sub")
    create = queue.create_topic if isinstance(options, TopicOptions) else partial(queue.create_subscription, "other")
    with pytest.raises(InvalidArgumentError):
        create("topic", options)  # type: ignore[operator]


def test_values_of_calls_have_the_type_that_is_stored(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    for once in (Once(WRONG, 1.5, 0), Once("p", 0, True), Once("p", 0, 0, WRONG), Once("\ud800", 0, 0)):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            queue.publish("topic", [Draft(b"x")], once)
    publish(queue, "a")
    for seconds in (-1, -1e300, float("nan")):
        with pytest.raises(InvalidArgumentError):
            queue.lease("sub", 1, lease_seconds=seconds)
    (delivery,) = queue.pull("sub", 1)
    for seconds in (-1, -1e300, float("nan")):
        with pytest.raises(InvalidArgumentError):
            queue.nack_many([delivery.ack_id], delay_seconds=seconds)
        with pytest.raises(InvalidArgumentError):
            queue.replace_body(delivery.ack_id, b"new", seconds)
    with pytest.raises(InvalidArgumentError, match="must be bytes, not str"):
        queue.replace_body(delivery.ack_id, WRONG, 10)
    with pytest.raises(InvalidArgumentError, match="An offset must be a whole number"):
        queue.seek_to_offset("sub", True)
    queue.nack(delivery.ack_id)
    assert harness.drain("sub") == ["a"]


def test_negative_times_are_refused(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    for draft in (Draft(b"x", delay_seconds=-1), Draft(b"x", ttl_seconds=-1)):
        with pytest.raises(InvalidArgumentError, match="must be 0 to"):
            queue.publish("topic", [draft])
    assert harness.pull("sub") == []


def test_a_held_message_that_expires_before_its_delay_ends_is_dropped(harness: Harness, queue: MessageQueue) -> None:
    """The message expired while it was held, so it is not counted when it becomes the next of its key."""
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic", enable_message_ordering=True)
    queue.publish("topic", [Draft(b"a", ordering_key="k"), Draft(b"b", {}, "k", delay_seconds=7, ttl_seconds=2)])
    first = harness.take("sub")
    assert harness.pull("sub") == []
    harness.clock.advance(2)
    queue.ack_many([first.ack_id])
    assert harness.pull("sub") == []
    assert queue.backlog("sub") == (0, 0, 0, 0)
