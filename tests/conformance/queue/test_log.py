"""The log of a topic as readers see it: ranges, times, head and tail, and retention."""

from __future__ import annotations

import pytest

from penstock import Draft, Limits, MessageQueue, NotFoundError, SubscriptionOptions, TopicOptions
from penstock.broker.log import Sizes
from tests.conformance.queue.harness import Harness

SECOND = 10**9


def bodies(queue: MessageQueue, first: int = 0, until: int = 10**9, topic: str = "topic") -> list[str]:
    return [message.data.decode() for message in queue.read(topic, first, until)]


def ends(queue: MessageQueue, topic: str = "topic") -> tuple[int, int]:
    found = queue.get_topic(topic)
    assert found is not None
    return found.head, found.tail


def keep_house(harness: Harness, seconds: float) -> None:
    """Move the clock, and call the queue so that it does its housekeeping."""
    harness.clock.advance(seconds)
    harness.queue.peek("sub", 1)


def test_a_range_has_the_messages_inside_it(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    harness.publish("a", "b")
    harness.publish("c", "d", "e")
    assert bodies(queue) == ["a", "b", "c", "d", "e"]
    assert bodies(queue, 1, 4) == ["b", "c", "d"]
    assert bodies(queue, 4, 4) == bodies(queue, 7, 9) == bodies(queue, 3, 1) == []
    (message,) = queue.read("topic", 3, 4)
    assert (message.offset, message.publish_time) == (3, harness.clock.now())
    with pytest.raises(NotFoundError, match="Topic not found: nowhere"):
        queue.read("nowhere", 0, 1)


def test_reading_changes_nothing(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    harness.publish("a", "b")
    before = harness.dump()
    queue.read("topic", 0, 2)
    queue.first_offset_at("topic", harness.clock.now())
    assert harness.dump() == before


def test_an_instant_leads_to_the_first_message_not_before_it(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    start = harness.clock.now()
    for body in "abc":
        harness.publish(body, body)
        harness.clock.advance(10)
    assert queue.first_offset_at("topic", 0) == 0
    assert queue.first_offset_at("topic", start) == 0
    assert queue.first_offset_at("topic", start + 1) == 2
    assert queue.first_offset_at("topic", start + 10 * SECOND) == 2
    assert queue.first_offset_at("topic", start + 20 * SECOND) == 4
    assert queue.first_offset_at("topic", start + 20 * SECOND + 1) == 6


def test_an_instant_below_the_head_leads_to_the_head(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    start = harness.clock.now()
    harness.publish("a", "b", "c")
    harness.drain("sub")
    harness.publish("d")
    keep_house(harness, 2)
    assert ends(queue) == (3, 4)
    assert queue.first_offset_at("topic", start) == 3


def test_publish_times_never_run_backwards(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    harness.publish("a")
    harness.clock._now -= 30 * SECOND  # a clock should not do this
    harness.publish("b")
    first, second = queue.read("topic", 0, 2)
    assert second.publish_time == first.publish_time


def test_acked_messages_leave_the_log(harness: Harness, queue: MessageQueue) -> None:
    """A message is dropped when every subscription has acked it. Without retention it is dropped at once."""
    harness.topic_with("sub", "slow")
    harness.publish("a", "b", "c")
    harness.drain("sub")
    keep_house(harness, 5)
    assert bodies(queue) == ["a", "b", "c"]
    a, b = queue.pull("slow", 2)
    queue.ack(b.ack_id)
    keep_house(harness, 5)
    assert ends(queue) == (0, 3)
    queue.ack(a.ack_id)
    keep_house(harness, 5)
    assert ends(queue) == (2, 3)
    assert bodies(queue) == ["c"]


def test_a_topic_keeps_acked_messages_for_its_retention(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=100))
    queue.register_subscription("sub", "topic")
    harness.publish("old")
    harness.clock.advance(60)
    harness.publish("new")
    harness.drain("sub")
    keep_house(harness, 39)
    assert bodies(queue) == ["old", "new"]
    keep_house(harness, 3)
    assert bodies(queue) == ["new"]
    keep_house(harness, 60)
    assert bodies(queue) == []


def test_a_topic_with_retention_keeps_messages_without_a_subscription(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=100))
    harness.publish("a")
    assert bodies(queue) == ["a"]
    queue.register_subscription("sub", "topic")
    assert harness.pull("sub") == []
    queue.seek_to_offset("sub", 0)
    assert harness.pull("sub") == ["a"]


def test_a_topic_keeps_at_most_n_bytes(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=1000, retention_bytes=25))
    queue.register_subscription("sub", "topic")
    for letter in "abcde":
        harness.publish(letter * 10)
    keep_house(harness, 15)
    assert [body[0] for body in bodies(queue)] == ["a", "b", "c", "d", "e"]  # the cap does not drop unacked messages
    harness.drain("sub")
    keep_house(harness, 15)
    assert [body[0] for body in bodies(queue)] == ["d", "e"]


def test_the_cap_in_bytes_does_not_wait_for_a_long_retention(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=86400, retention_bytes=25))
    queue.register_subscription("sub", "topic")
    harness.publish("a" * 10)
    keep_house(harness, 2)
    for letter in "bcdef":
        harness.publish(letter * 10)
    harness.drain("sub")
    keep_house(harness, 2)
    assert [body[0] for body in bodies(queue)] == ["e", "f"]


def test_an_unacked_message_is_kept_for_the_retention_of_the_subscription(
    harness: Harness, queue: MessageQueue
) -> None:
    harness.topic_with("sub", message_retention_duration=100, ack_deadline_seconds=600)
    queue.register_subscription("patient", "topic", message_retention_duration=1000)
    harness.publish("leased", "waiting")
    leased = harness.take("sub")
    harness.clock.advance(60)
    harness.publish("new")
    harness.clock.advance(41)
    assert harness.pull("sub") == ["new"]
    assert queue.backlog("sub") == (1, 3, 1, 3)
    assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]
    assert queue.statistics().subscriptions[0].dropped == {"retention": 2}
    assert harness.pull("patient") == ["leased", "waiting", "new"]


def test_retention_of_an_ordered_subscription_undoes_no_ack(harness: Harness, queue: MessageQueue) -> None:
    """Old messages of a blocked key are dropped, and so are those held behind them. Acked messages stay acked."""
    harness.topic_with("sub", message_ordering=True, message_retention_duration=100)
    harness.publish("a0", "a1", key="a")
    assert harness.pull("sub") == ["a0"]
    harness.clock.advance(90)
    harness.publish("b0", "b1", key="b")
    again, b0 = queue.pull("sub", 10)
    assert (again.data, b0.data) == (b"a0", b"b0")
    queue.ack(b0.ack_id)
    b1 = harness.take("sub")
    harness.clock.advance(11)
    assert harness.pull("sub") == ["b1"]
    assert queue.backlog("sub") == (1, 3, 1, 3)
    assert queue.statistics().subscriptions[0].dropped == {"retention": 2}
    assert queue.ack_many([b1.ack_id]).stale == [b1.ack_id]


def test_retain_acked_keeps_messages_for_a_seek(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", retain_acked_messages=True, message_retention_duration=100)
    harness.publish("a", "b")
    harness.drain("sub")
    keep_house(harness, 50)
    queue.seek_to_offset("sub", 0)
    assert harness.drain("sub") == ["a", "b"]
    keep_house(harness, 55)
    assert ends(queue) == (2, 2)


def test_history_outlives_the_cache(harness: Harness) -> None:
    """Messages that are not in memory are read from the journal, for ranges and for deliveries."""
    queue = harness.again(sizes=Sizes(cache_bytes=1))
    harness.topic_with("sub")
    for number in range(30):
        queue.publish("topic", [Draft(b"%d" % (100 * number + each)) for each in range(100)])
    assert bodies(queue) == [str(number) for number in range(3000)]
    assert harness.drain("sub") == [str(number) for number in range(3000)]


def test_retention_covers_ranges_larger_than_the_cache(harness: Harness) -> None:
    """The size of the dropped range comes from two distant places in the log, which need not be in memory together."""
    queue = harness.again(sizes=Sizes(cache_bytes=1), limits=Limits(queue_messages_max=0))
    queue.register_topic("topic", TopicOptions(retention_seconds=10**6))
    queue.register_subscription("sub", "topic", message_retention_duration=100)
    for _ in range(5):
        queue.publish("topic", [b"old"] * 1000)
    queue.ack_many([message.ack_id for message in queue.pull("sub", 10)])
    harness.clock.advance(60)
    queue.publish("topic", [b"new"] * 1000)
    harness.clock.advance(50)
    assert harness.pull("sub", 1) == ["new"]
    assert queue.backlog("sub") == (1000, 3000, 1, 3)


def test_retention_passes_discarded_messages_that_the_topic_forgot(harness: Harness) -> None:
    """Such messages are above the cursor and below the head, and cannot be read."""
    queue = harness.again(sizes=Sizes(cache_bytes=1), limits=Limits(queue_messages_max=4))
    queue.register_topic("topic")
    queue.register_subscription("reader", "topic")
    queue.register_subscription("sub", "topic", message_retention_duration=4)
    queue.publish("topic", [b"old"] * 4)
    harness.clock.advance(2.5)
    queue.purge("reader")
    queue.publish("topic", [b"lost"] * 4)
    queue.purge("reader")
    harness.clock.advance(2)
    queue.publish("topic", [b"new"])
    assert queue.backlog("sub").messages == 1
    harness.clock.advance(5)
    assert harness.pull("sub") == []
    assert harness.pull("reader") == ["new"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_an_unused_subscription_expires(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("other", "sub")
    queue.register_subscription("short", "topic", SubscriptionOptions(expiration_seconds=3600))
    harness.publish("a")
    harness.clock.advance(3000)
    queue.ack(harness.take("short").ack_id)
    harness.clock.advance(3000)
    queue.pull("sub", 1)
    assert queue.subscription_exists("short")
    harness.clock.advance(661)
    queue.pull("sub", 1)
    assert not queue.subscription_exists("short")
    assert queue.subscription_exists("other")


def test_a_subscription_that_is_pulled_does_not_expire(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", expiration_policy={"ttl": 3600})
    for _ in range(10):
        harness.clock.advance(1800)
        assert queue.pull("sub", 1) == []
    assert queue.subscription_exists("sub")


def test_a_detached_subscription_reads_nothing_and_keeps_nothing(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", "other")
    harness.publish("a")
    leased = harness.take("sub")
    queue.detach_subscription("sub")
    queue.detach_subscription("sub")
    harness.publish("b")
    assert harness.pull("sub") == []
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]
    assert [each.name for each in queue.get_subscriptions_for_topic("topic")] == ["other"]
    harness.drain("other")
    harness.clock.advance(5)
    queue.pull("other", 1)
    assert ends(queue) == (2, 2)
