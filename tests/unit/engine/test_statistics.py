"""The numbers of a running queue: what was counted, how full it is, how long commits take."""

from __future__ import annotations

import pytest

from penstock import InternalMessage, Limits, ManualClock, MessageQueue
from penstock.engine.statistics import COMMIT_SECONDS_BOUNDS, CommitMeter


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> MessageQueue:
    queue = MessageQueue(clock=clock, limits=Limits(queue_max_messages=4))
    for name in ("topic", "dead"):
        queue.register_topic(name)
    policy = {"dead_letter_topic": "dead", "max_delivery_attempts": 2}
    queue.register_subscription("sub", "topic", dead_letter_policy=policy, filter="NOT attributes:hidden")
    return queue


def test_everything_that_happens_is_counted(queue: MessageQueue, clock: ManualClock) -> None:
    queue.publish("topic", [b"a", b"bb", InternalMessage(b"c", {"hidden": ""}), b"d", b"over the cap"])
    a, bb, d = queue.pull("sub", 10)
    queue.ack(a.ack_id)
    queue.nack(bb.ack_id)
    queue.nack(d.ack_id)
    queue.nack(queue.pull("sub", 1)[0].ack_id)
    clock.advance(3)
    topic, dead = queue.statistics().topics
    assert (topic.topic, topic.head, topic.tail, topic.messages_published) == (
        "topic",
        3,
        5,
        5,
    )  # all before d is settled
    assert topic.bytes_published == 1 + 2 + 1 + len("hidden") + 1 + len("over the cap")
    assert (dead.messages_published, dead.dropped) == (1, {"no_subscription": 1})
    (sub,) = queue.statistics().subscriptions
    assert (sub.subscription, sub.topic) == ("sub", "topic")
    assert (sub.delivered, sub.acked, sub.returned, sub.dead_lettered) == (4, 1, 2, 1)
    assert (sub.backlog_messages, sub.backlog_bytes, sub.in_flight_messages) == (1, 1, 0)
    assert sub.oldest_unacked_age_seconds == 3
    assert sub.dropped == {"capacity": 1}  # what a filter keeps out is not dropped


def test_an_empty_queue_has_no_age(queue: MessageQueue, clock: ManualClock) -> None:
    queue.publish("topic", [b"a"])
    clock.advance(7)
    assert queue.statistics().subscriptions[0].oldest_unacked_age_seconds == 7
    queue.ack(queue.pull("sub", 1)[0].ack_id)
    assert queue.statistics().subscriptions[0].oldest_unacked_age_seconds == 0


def test_commits_are_measured(queue: MessageQueue) -> None:
    before = queue.statistics().commit
    queue.publish("topic", [b"12345", b"678"])
    after = queue.statistics().commit
    assert after.commits == before.commits + 1
    assert after.bytes_written - before.bytes_written == 8
    assert after.facts > before.facts
    assert after.buckets[-1][1] <= after.commits


def test_a_meter_sorts_commits_into_buckets() -> None:
    meter = CommitMeter()
    for seconds in (0.0001, 0.0005, 0.0006, 3, 100):
        meter.note(seconds, facts=2, bytes_written=10)
    numbers = meter.statistics()
    assert (numbers.commits, numbers.facts, numbers.bytes_written) == (5, 10, 50)
    assert numbers.seconds == pytest.approx(103.0012)
    assert [bound for bound, _ in numbers.buckets] == list(COMMIT_SECONDS_BOUNDS)
    counts = dict(numbers.buckets)
    assert (counts[0.0005], counts[0.001], counts[2.0], counts[5.0]) == (2, 3, 3, 4)


def test_what_the_filter_does_not_take_could_not_have_been_delivered(queue: MessageQueue, clock: ManualClock) -> None:
    def due() -> float:
        return queue.statistics().subscriptions[0].due_age_seconds

    queue.publish("topic", [InternalMessage(b"c", {"hidden": ""})] * 2)
    clock.advance(90)
    assert due() == 0
    queue.publish("topic", [b"a"])
    clock.advance(5)
    assert due() == 5
    queue.nack(queue.pull("sub", 1)[0].ack_id)
    clock.advance(5)
    assert due() == 10
