"""Filters: messages that do not match are not part of a subscription's backlog, caps or age.

Google Pub/Sub, "Filter messages from a subscription": the service acknowledges messages that do not match the filter.
"""

from __future__ import annotations

import pytest

from penstock import Draft, InternalMessage, Limits, MessageQueue, ResourceExhaustedError, SubscriptionOptions
from penstock.broker import publishing
from penstock.broker.log import Sizes
from penstock.engine import commands
from tests.conformance.queue.harness import Harness

RED = {"colour": "red"}
ONLY_RED = 'attributes.colour = "red"'
SMALL = Sizes(cache_bytes=2_000, chunk_messages=3, read_messages=4)  # most of a log has to be read


def publish(queue: MessageQueue, count: int, attributes: dict[str, str], topic: str = "topic") -> None:
    for _ in range(count):
        queue.publish(topic, [InternalMessage(b"body", attributes)])


def pull_bodies(queue: MessageQueue, most: int = 100) -> list[bytes]:
    return [message.data for message in queue.pull("red", most)]


@pytest.fixture
def red(harness: Harness) -> Harness:
    """Create a topic with a subscription that accepts only red messages."""
    harness.topic_with("red", filter=ONLY_RED)
    return harness


def test_messages_that_do_not_match_are_no_backlog(red: Harness) -> None:
    publish(red.queue, 5, {})
    red.clock.advance(3600)
    assert red.queue.backlog("red")[:2] == (0, 0)
    assert red.queue.oldest_unacked_age_seconds("red") == 0
    (statistics,) = red.queue.engine.statistics().subscriptions
    assert (statistics.backlog_messages, statistics.oldest_unacked_age_seconds) == (0, 0)


def test_only_matching_messages_count_between_others(red: Harness) -> None:
    for attributes in ({}, RED, {}, RED, {}):
        red.queue.publish("topic", [InternalMessage(b"body", attributes)])
    size = len(b"body") + len("colour") + len("red")
    assert red.queue.backlog("red")[:2] == (2, 2 * size)
    first, second = red.queue.pull("red", 10)
    assert red.queue.backlog("red")[:2] == (2, 2 * size)
    red.queue.ack(first.ack_id)
    red.queue.ack(second.ack_id)
    assert red.queue.backlog("red")[:2] == (0, 0)


def test_one_publish_with_both_kinds(red: Harness) -> None:
    red.queue.publish("topic", [InternalMessage(b"a"), InternalMessage(b"b", RED), InternalMessage(b"c")])
    assert red.queue.backlog("red").messages == 1
    assert pull_bodies(red.queue) == [b"b"]


def test_the_age_is_that_of_the_oldest_match(red: Harness) -> None:
    queue = red.queue
    publish(queue, 1, RED)
    publish(queue, 3, {})
    red.clock.advance(100)
    publish(queue, 1, RED)
    (first,) = queue.pull("red", 1)
    queue.ack(first.ack_id)
    red.clock.advance(7)
    assert queue.oldest_unacked_age_seconds("red") == 7


def test_a_cap_does_not_refuse_for_messages_that_do_not_match(harness: Harness) -> None:
    queue = harness.again(limits=Limits(queue_messages_max=10, refuse_when_full=True))
    harness.topic_with("red", filter=ONLY_RED)
    publish(queue, 50, {})
    publish(queue, 10, RED)
    with pytest.raises(ResourceExhaustedError, match="Queue is full: red"):
        publish(queue, 1, RED)
    publish(queue, 50, {})
    assert queue.backlog("red").messages == 10


def test_a_cap_in_bytes_does_not_count_messages_that_do_not_match(harness: Harness) -> None:
    queue = harness.again(limits=Limits(queue_messages_max=0, queue_bytes_max=100, refuse_when_full=True))
    harness.topic_with("red", filter=ONLY_RED)
    publish(queue, 50, {})
    publish(queue, 8, RED)  # of 13 bytes each
    with pytest.raises(ResourceExhaustedError):
        publish(queue, 1, RED)


def test_a_full_queue_discards_only_matching_messages(harness: Harness) -> None:
    """004 BR-022: only matching messages are counted as discarded."""
    queue = harness.again(limits=Limits(queue_messages_max=3))
    harness.topic_with("red", filter=ONLY_RED)
    publish(queue, 20, {})
    colours = [{}, RED, RED, {}, RED, {}, RED, {}]
    queue.publish("topic", [InternalMessage(str(number).encode(), each) for number, each in enumerate(colours)])
    (statistics,) = queue.engine.statistics().subscriptions
    assert (statistics.backlog_messages, statistics.dropped) == (3, {"capacity": 1})
    assert pull_bodies(queue) == [b"1", b"2", b"4"]


def test_ten_thousand_messages_that_do_not_match_cost_no_match(harness: Harness) -> None:
    """The default cap of a MessageQueue is 10,000 messages."""
    queue = harness.queue
    harness.topic_with("red", filter=ONLY_RED)
    queue.publish("topic", [Draft(b"body")] * 10_001)
    queue.publish("topic", [Draft(b"match", RED)])
    assert pull_bodies(queue) == [b"match"]


@pytest.mark.parametrize("sizes", [Sizes(), SMALL])
def test_housekeeping_compares_after_a_seek(harness: Harness, sizes: Sizes) -> None:
    queue = harness.again(sizes=sizes, limits=Limits(retention_seconds=86400))
    harness.topic_with("red", filter=ONLY_RED)
    for attributes in ({}, {}, RED, {}, RED, {}):
        publish(queue, 5, attributes)
    queue.seek_to_offset("red", 0)
    harness.clock.advance(2)
    assert queue.backlog("red").messages == 10
    queue.purge("red")
    assert queue.backlog("red").messages == 0


def test_more_filters_than_a_publish_compares(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Housekeeping compares the other filters, and messages that do not match never count for a cap."""
    monkeypatch.setattr(publishing, "FILTERS_AT_ONCE", 2)
    queue = harness.again(limits=Limits(queue_messages_max=4, refuse_when_full=True))
    names = [f"s{number}" for number in range(5)]
    harness.topic_with(*names, filter=ONLY_RED)
    publish(queue, 20, {})
    publish(queue, 2, RED)
    harness.clock.advance(2)
    assert [queue.backlog(name).messages for name in names] == [2] * 5
    publish(queue, 2, RED)
    with pytest.raises(ResourceExhaustedError):
        publish(queue, 1, RED)


def test_housekeeping_has_a_budget(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "COMPARED_AT_ONCE", 1)
    queue = harness.again(limits=Limits(retention_seconds=86400))
    harness.topic_with("red", filter=ONLY_RED)
    queue.publish("topic", [Draft(b"body")] * 1_500)
    queue.seek_to_offset("red", 0)
    for expected in (500, 0):
        harness.clock.advance(2)
        assert queue.backlog("red").messages == expected


@pytest.mark.parametrize("sizes", [Sizes(), SMALL])
def test_retention_drops_compared_messages_once(harness: Harness, sizes: Sizes) -> None:
    """Messages that retention drops from a backlog are not counted twice, wherever the retained range begins."""
    queue = harness.again(sizes=sizes)
    options = SubscriptionOptions(filter=ONLY_RED, retention_seconds=100)
    queue.register_topic("topic")
    queue.register_subscription("red", "topic", options)
    for _ in range(6):
        for attributes in (RED, {}, {}):
            publish(queue, 1, attributes)
        harness.clock.advance(30)
    left = [queue.backlog("red").messages]
    for _ in range(6):
        harness.clock.advance(30)
        left.append(queue.backlog("red").messages)
    assert left == [3, 2, 1, 0, 0, 0, 0]


def test_another_filter_begins_again(red: Harness) -> None:
    queue = red.queue
    publish(queue, 1, RED)
    publish(queue, 3, {"colour": "blue"})
    options = SubscriptionOptions(filter='attributes.colour = "blue"')
    queue._run(lambda broker, _: broker.change_subscription("red", options))
    red.clock.advance(2)
    assert queue.backlog("red").messages == 3


def test_a_restart_keeps_the_results_of_filters(tmp_path_factory: pytest.TempPathFactory) -> None:
    for crash in (False, True):
        harness = Harness("sqlite", tmp_path_factory.mktemp("store"))
        harness.topic_with("red", filter=ONLY_RED)
        publish(harness.queue, 1, RED)
        publish(harness.queue, 5, {})
        before = harness.dump()._replace(at=0)
        queue = harness.reopen(crash=crash)
        assert harness.dump()._replace(at=0) == before
        assert queue.backlog("red").messages == 1
        harness.close()
