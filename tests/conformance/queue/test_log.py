"""The log of a topic as readers see it: ranges, instants, head and tail, and what retention keeps."""

from __future__ import annotations

import pytest

from penstock import Draft, Limits, MessageQueue, NotFoundError, SubscriptionOptions, TopicOptions
from penstock.broker.log import Sizes
from tests.conformance.queue.world import World

SECOND = 10**9


def bodies(queue: MessageQueue, first: int = 0, until: int = 10**9, topic: str = "topic") -> list[str]:
    return [message.data.decode() for message in queue.read(topic, first, until)]


def ends(queue: MessageQueue, topic: str = "topic") -> tuple[int, int]:
    found = queue.get_topic(topic)
    assert found is not None
    return found.head, found.tail


def keep_house(world: World, seconds: float) -> None:
    """Let time pass, and give the queue a reason to look."""
    world.clock.advance(seconds)
    world.queue.peek("sub", 1)


def test_a_range_holds_what_lies_inside_it(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub")
    world.publish("a", "b")
    world.publish("c", "d", "e")
    assert bodies(queue) == ["a", "b", "c", "d", "e"]
    assert bodies(queue, 1, 4) == ["b", "c", "d"]
    assert bodies(queue, 4, 4) == bodies(queue, 7, 9) == bodies(queue, 3, 1) == []
    (message,) = queue.read("topic", 3, 4)
    assert (message.offset, message.publish_time) == (3, world.clock.now())
    with pytest.raises(NotFoundError, match="Topic not found: nowhere"):
        queue.read("nowhere", 0, 1)


def test_reading_changes_nothing(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub")
    world.publish("a", "b")
    before = world.dump()
    queue.read("topic", 0, 2)
    queue.first_offset_at("topic", world.clock.now())
    assert world.dump() == before


def test_an_instant_leads_to_the_first_message_not_before_it(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub")
    start = world.clock.now()
    for body in "abc":
        world.publish(body, body)
        world.clock.advance(10)
    assert queue.first_offset_at("topic", 0) == 0
    assert queue.first_offset_at("topic", start) == 0
    assert queue.first_offset_at("topic", start + 1) == 2
    assert queue.first_offset_at("topic", start + 10 * SECOND) == 2
    assert queue.first_offset_at("topic", start + 20 * SECOND) == 4
    assert queue.first_offset_at("topic", start + 20 * SECOND + 1) == 6


def test_an_instant_below_the_head_leads_to_the_head(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub")
    start = world.clock.now()
    world.publish("a", "b", "c")
    world.drain("sub")
    world.publish("d")
    keep_house(world, 2)
    assert ends(queue) == (3, 4)
    assert queue.first_offset_at("topic", start) == 3


def test_publish_times_never_run_backwards(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub")
    world.publish("a")
    world.clock.advance(-30)
    world.publish("b")
    first, second = queue.read("topic", 0, 2)
    assert second.publish_time == first.publish_time


def test_acked_messages_leave_the_log(world: World, queue: MessageQueue) -> None:
    """Only what every subscription has acked, and without a retention at once."""
    world.topic_with("sub", "slow")
    world.publish("a", "b", "c")
    world.drain("sub")
    keep_house(world, 5)
    assert bodies(queue) == ["a", "b", "c"]
    a, b = queue.pull("slow", 2)
    queue.ack(b.ack_id)
    keep_house(world, 5)
    assert ends(queue) == (0, 3)
    queue.ack(a.ack_id)
    keep_house(world, 5)
    assert ends(queue) == (2, 3)
    assert bodies(queue) == ["c"]


def test_a_topic_keeps_acked_messages_for_its_retention(world: World, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=100))
    queue.register_subscription("sub", "topic")
    world.publish("old")
    world.clock.advance(60)
    world.publish("new")
    world.drain("sub")
    keep_house(world, 39)
    assert bodies(queue) == ["old", "new"]
    keep_house(world, 3)
    assert bodies(queue) == ["new"]
    keep_house(world, 60)
    assert bodies(queue) == []


def test_a_topic_with_a_retention_keeps_what_nobody_reads(world: World, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=100))
    world.publish("a")
    assert bodies(queue) == ["a"]
    queue.register_subscription("sub", "topic")
    assert world.pull("sub") == []
    queue.seek_to_offset("sub", 0)
    assert world.pull("sub") == ["a"]


def test_a_topic_keeps_at_most_so_many_bytes(world: World, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=1000, retention_bytes=25))
    queue.register_subscription("sub", "topic")
    for letter in "abcde":
        world.publish(letter * 10)
    keep_house(world, 15)
    assert [body[0] for body in bodies(queue)] == ["a", "b", "c", "d", "e"]  # unacked ones are not for the cap to take
    world.drain("sub")
    keep_house(world, 15)
    assert [body[0] for body in bodies(queue)] == ["d", "e"]


def test_the_cap_in_bytes_does_not_wait_for_a_long_retention(world: World, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=86400, retention_bytes=25))
    queue.register_subscription("sub", "topic")
    world.publish("a" * 10)
    keep_house(world, 2)
    for letter in "bcdef":
        world.publish(letter * 10)
    world.drain("sub")
    keep_house(world, 2)
    assert [body[0] for body in bodies(queue)] == ["e", "f"]


def test_an_unacked_message_is_kept_for_the_retention_of_the_subscription(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub", message_retention_duration=100, ack_deadline_seconds=600)
    queue.register_subscription("patient", "topic", message_retention_duration=1000)
    world.publish("leased", "waiting")
    leased = world.take("sub")
    world.clock.advance(60)
    world.publish("new")
    world.clock.advance(41)
    assert world.pull("sub") == ["new"]
    assert queue.backlog("sub") == (1, 3, 1, 3)
    assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]
    assert queue.statistics().subscriptions[0].dropped == {"retention": 2}
    assert world.pull("patient") == ["leased", "waiting", "new"]


def test_retention_of_an_ordered_subscription_undoes_no_ack(world: World, queue: MessageQueue) -> None:
    """Old messages of a stuck key go, with those held behind them; what was acked stays acked."""
    world.topic_with("sub", message_ordering=True, message_retention_duration=100)
    world.publish("a0", "a1", key="a")
    assert world.pull("sub") == ["a0"]
    world.clock.advance(90)
    world.publish("b0", "b1", key="b")
    again, b0 = queue.pull("sub", 10)
    assert (again.data, b0.data) == (b"a0", b"b0")
    queue.ack(b0.ack_id)
    b1 = world.take("sub")
    world.clock.advance(11)
    assert world.pull("sub") == ["b1"]
    assert queue.backlog("sub") == (1, 3, 1, 3)
    assert queue.statistics().subscriptions[0].dropped == {"retention": 2}
    assert queue.ack_many([b1.ack_id]).stale == [b1.ack_id]


def test_retain_acked_keeps_what_a_seek_may_want(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub", retain_acked_messages=True, message_retention_duration=100)
    world.publish("a", "b")
    world.drain("sub")
    keep_house(world, 50)
    queue.seek_to_offset("sub", 0)
    assert world.drain("sub") == ["a", "b"]
    keep_house(world, 55)
    assert ends(queue) == (2, 2)


def test_history_outlives_the_cache(world: World) -> None:
    """What is not in memory is read from the journal, for ranges and for deliveries alike."""
    queue = world.again(sizes=Sizes(cache_bytes=1))
    world.topic_with("sub")
    for number in range(30):
        queue.publish("topic", [Draft(b"%d" % (100 * number + each)) for each in range(100)])
    assert bodies(queue) == [str(number) for number in range(3000)]
    assert world.drain("sub") == [str(number) for number in range(3000)]


def test_retention_reaches_what_the_cache_cannot_hold_together(world: World) -> None:
    """The bytes of what goes are known from two far places of the log; they need not be in memory at once."""
    queue = world.again(sizes=Sizes(cache_bytes=1), limits=Limits(queue_max_messages=0))
    queue.register_topic("topic", TopicOptions(retention_seconds=10**6))
    queue.register_subscription("sub", "topic", message_retention_duration=100)
    for _ in range(5):
        queue.publish("topic", [b"old"] * 1000)
    queue.ack_many([message.ack_id for message in queue.pull("sub", 10)])
    world.clock.advance(60)
    queue.publish("topic", [b"new"] * 1000)
    world.clock.advance(50)
    assert world.pull("sub", 1) == ["new"]
    assert queue.backlog("sub") == (1000, 3000, 1, 3)


def test_an_unused_subscription_expires(world: World, queue: MessageQueue) -> None:
    world.topic_with("other", "sub")
    queue.register_subscription("short", "topic", SubscriptionOptions(expiration_seconds=3600))
    world.publish("a")
    world.clock.advance(3000)
    queue.ack(world.take("short").ack_id)
    world.clock.advance(3000)
    queue.pull("sub", 1)
    assert queue.subscription_exists("short")
    world.clock.advance(661)
    queue.pull("sub", 1)
    assert not queue.subscription_exists("short")
    assert queue.subscription_exists("other")


def test_a_subscription_somebody_asks_for_messages_does_not_expire(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub", expiration_policy={"ttl": 3600})
    for _ in range(10):
        world.clock.advance(1800)
        assert queue.pull("sub", 1) == []
    assert queue.subscription_exists("sub")


def test_a_detached_subscription_reads_nothing_and_keeps_nothing(world: World, queue: MessageQueue) -> None:
    world.topic_with("sub", "other")
    world.publish("a")
    leased = world.take("sub")
    queue.detach_subscription("sub")
    queue.detach_subscription("sub")
    world.publish("b")
    assert world.pull("sub") == []
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]
    assert [each.name for each in queue.get_subscriptions_for_topic("topic")] == ["other"]
    world.drain("other")
    world.clock.advance(5)
    queue.pull("other", 1)
    assert ends(queue) == (2, 2)
