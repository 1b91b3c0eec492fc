"""Seeks by offset, time and snapshot, and purge and peek."""

from __future__ import annotations

import pytest

from penstock import (
    AlreadyExistsError,
    FailedPreconditionError,
    InternalMessage,
    InvalidArgumentError,
    Limits,
    MessageQueue,
    NotFoundError,
    SubscriptionOptions,
    TopicOptions,
)
from penstock.broker.log import Sizes
from tests.conformance.queue.harness import Harness

DAY = 86400


@pytest.fixture
def history(harness: Harness) -> Harness:
    """Create a topic that keeps all messages, with a to e, ten seconds apart, and two subscriptions."""
    harness.queue.register_topic("topic", TopicOptions(retention_seconds=30 * DAY))
    for name in ("sub", "other"):
        harness.queue.register_subscription(name, "topic")
    for body in "abcde":
        harness.publish(body)
        harness.clock.advance(10)
    return harness


def test_a_seek_to_an_offset_acks_earlier_messages_and_restores_later_ones(history: Harness) -> None:
    queue = history.queue
    assert history.drain("sub") == ["a", "b", "c", "d", "e"]
    queue.seek_to_offset("sub", 2)
    assert queue.backlog("sub") == (3, 3, 0, 0)
    assert history.drain("sub") == ["c", "d", "e"]
    queue.seek_to_offset("sub", 0)
    queue.seek_to_offset("sub", 4)
    assert history.drain("sub") == ["e"]
    assert history.drain("other") == ["a", "b", "c", "d", "e"]


def test_a_seek_beyond_the_ends_goes_to_the_ends(history: Harness) -> None:
    queue = history.queue
    queue.seek_to_offset("sub", 10**6)
    assert history.pull("sub") == []
    history.publish("f")
    assert history.pull("sub") == ["f"]
    with pytest.raises(InvalidArgumentError, match="An offset must not be negative"):
        queue.seek_to_offset("sub", -1)
    queue.seek_to_offset("sub", 0)
    assert len(history.drain("sub")) == 6


def test_a_seek_ends_the_leases(history: Harness) -> None:
    queue = history.queue
    leased = history.take("sub")
    queue.seek_to_offset("sub", 0)
    with pytest.raises(InvalidArgumentError):
        queue.ack(leased.ack_id)
    again = history.take("sub")
    assert (again.data, again.ack_id != leased.ack_id) == (b"a", True)
    assert queue.backlog("sub").in_flight_messages == 1


def test_a_seek_to_a_time_goes_back_and_forward(history: Harness) -> None:
    queue, now = history.queue, history.clock.now()
    history.drain("sub")
    queue.seek_to_time("sub", now - 20 * 10**9)
    assert history.drain("sub") == ["d", "e"]
    queue.seek_to_time("sub", 0)
    queue.seek_to_time("sub", now)
    assert history.drain("sub") == []


def test_without_retention_a_seek_back_finds_the_unacked_messages(harness: Harness, queue: MessageQueue) -> None:
    """Another subscription keeps all messages in the log. They do not become unacked in this one."""
    harness.topic_with("sub", "other")
    harness.publish("a", "b", "c", "d")
    first, _, third, _ = queue.pull("sub", 4)
    queue.ack(first.ack_id)
    queue.ack(third.ack_id)
    harness.publish("e")
    queue.seek_to_time("sub", 0)
    assert queue.backlog("sub") == (3, 3, 0, 0)
    assert harness.drain("sub") == ["b", "d", "e"]
    queue.seek_to_time("sub", 0)
    assert (harness.drain("sub"), queue.backlog("sub")) == ([], (0, 0, 0, 0))
    assert harness.drain("other") == ["a", "b", "c", "d", "e"]


def test_a_seek_between_unacked_messages_acks_the_earlier_ones(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    times = []
    for body in "abcde":
        times.append(harness.clock.now())
        harness.publish(body)
        harness.clock.advance(1)
    queue.ack(queue.pull("sub", 3)[2].ack_id)
    queue.seek_to_time("sub", times[1])
    assert queue.backlog("sub") == (3, 3, 0, 0)
    assert harness.drain("sub") == ["b", "d", "e"]


def test_a_subscription_with_retention_seeks_back_to_its_creation(durable: Harness, crash: bool) -> None:
    """The seek is exact to the message: earlier messages with the same publish time stay excluded."""
    durable.topic_with("other")
    durable.publish("before")
    durable.queue.register_subscription("sub", "topic", SubscriptionOptions(retain_acked=True))
    durable.publish("a", "b")
    assert durable.drain("sub") == ["a", "b"]
    durable.queue.seek_to_time("sub", 0)
    assert durable.drain("sub") == ["a", "b"]
    durable.reopen(crash=crash).seek_to_time("sub", 0)
    assert durable.drain("sub") == ["a", "b"]


def test_a_subscription_retains_no_longer_than_it_says(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic")
    queue.register_subscription("other", "topic")
    queue.register_subscription("sub", "topic", SubscriptionOptions(retain_acked=True, retention_seconds=600))
    harness.publish("a")
    harness.clock.advance(400)
    harness.publish("b")
    harness.clock.advance(300)
    harness.drain("sub")
    queue.seek_to_time("sub", 0)
    assert harness.drain("sub") == ["b"]


def test_with_topic_retention_a_seek_reaches_messages_before_the_subscription(
    harness: Harness, queue: MessageQueue
) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=600))
    harness.publish("a")
    harness.clock.advance(400)
    harness.publish("b")
    harness.clock.advance(300)
    queue.register_subscription("sub", "topic")
    queue.seek_to_time("sub", 0)
    assert harness.drain("sub") == ["b"]


@pytest.mark.parametrize(("seek_all", "found"), [(False, []), (True, ["a", "b"])])
def test_a_seek_reaches_messages_kept_for_others_if_allowed(harness: Harness, seek_all: bool, found: list[str]) -> None:
    queue = harness.again(limits=Limits(retention_seconds=DAY, seek_all=seek_all))
    harness.topic_with("sub")
    harness.publish("a", "b")
    harness.drain("sub")
    queue.seek_to_time("sub", 0)
    assert harness.drain("sub") == found
    queue.seek_to_offset("sub", 0)
    assert harness.drain("sub") == ["a", "b"], "a seek by offset reaches all stored messages"


def test_a_seek_to_a_snapshot_restores_unacked_messages(history: Harness) -> None:
    """Acked messages beyond the snapshot's cursor stay acked, and later messages are unacked."""
    queue = history.queue
    messages = queue.pull("sub", 4)
    queue.ack(messages[0].ack_id)
    queue.ack(messages[2].ack_id)
    queue.create_snapshot("snapshot", "sub")
    history.publish("f")
    queue.purge("sub")
    queue.seek_to_snapshot("sub", "snapshot")
    assert queue.backlog("sub") == (4, 4, 0, 0)
    assert history.drain("sub") == ["b", "d", "e", "f"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_a_snapshot_can_be_given_to_another_subscription(history: Harness) -> None:
    queue = history.queue
    first = queue.pull("sub", 2)
    queue.ack(first[1].ack_id)
    queue.create_snapshot("snapshot", "sub")
    history.drain("other")
    queue.seek_to_snapshot("other", "snapshot")
    assert history.drain("other") == ["a", "c", "d", "e"]


def test_a_snapshot_keeps_its_messages(harness: Harness, queue: MessageQueue) -> None:
    """Without retention, the messages that were unacked at the snapshot are kept, and so are all later ones."""
    harness.topic_with("sub")
    harness.publish("a", "b")
    queue.ack(harness.take("sub").ack_id)
    queue.create_snapshot("snapshot", "sub")
    harness.publish("c")
    harness.drain("sub")
    queue.unregister_subscription("sub")
    harness.clock.advance(100)
    harness.publish("d")
    queue.register_subscription("new", "topic")
    queue.seek_to_snapshot("new", "snapshot")
    assert harness.drain("new") == ["b", "c", "d"]
    queue.delete_snapshot("snapshot")
    harness.clock.advance(100)
    harness.pull("new")
    assert queue.read("topic", 0, 10) == []


def test_snapshots_have_names_of_their_own(history: Harness) -> None:
    queue = history.queue
    queue.create_snapshot("snapshot", "sub")
    with pytest.raises(AlreadyExistsError, match="Snapshot already exists: snapshot"):
        queue.create_snapshot("snapshot", "other")
    queue.delete_snapshot("snapshot")
    for call in (lambda: queue.delete_snapshot("snapshot"), lambda: queue.seek_to_snapshot("sub", "snapshot")):
        with pytest.raises(NotFoundError, match="Snapshot not found: snapshot"):
            call()


def test_a_snapshot_expires_with_the_week_of_its_oldest_message(history: Harness) -> None:
    queue = history.queue
    history.clock.advance(2 * DAY)
    queue.create_snapshot("old", "sub")
    queue.purge("other")
    queue.create_snapshot("new", "other")
    history.clock.advance(5 * DAY - 100)
    queue.seek_to_snapshot("sub", "old")
    history.clock.advance(200)
    with pytest.raises(NotFoundError, match="Snapshot not found: old"):
        queue.seek_to_snapshot("sub", "old")
    queue.seek_to_snapshot("sub", "new")
    history.clock.advance(2 * DAY)
    with pytest.raises(NotFoundError):
        queue.seek_to_snapshot("sub", "new")


def test_a_backlog_about_to_expire_takes_no_snapshot(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", message_retention_duration=0)
    harness.publish("a")
    harness.clock.advance(7 * DAY - 3599)
    with pytest.raises(FailedPreconditionError, match="would expire within the hour"):
        queue.create_snapshot("snapshot", "sub")


def test_how_long_a_snapshot_lives_is_handed_in(harness: Harness) -> None:
    queue = harness.again(limits=Limits(snapshot_seconds=2 * DAY))
    harness.topic_with("sub")
    queue.create_snapshot("snapshot", "sub")
    harness.clock.advance(2 * DAY - 1)
    queue.seek_to_snapshot("sub", "snapshot")
    harness.clock.advance(200)
    with pytest.raises(NotFoundError, match="Snapshot not found: snapshot"):
        queue.seek_to_snapshot("sub", "snapshot")


def test_a_snapshot_fits_no_other_topic(history: Harness) -> None:
    queue = history.queue
    queue.create_snapshot("snapshot", "sub")
    history.topic_with("elsewhere", topic="another")
    with pytest.raises(InvalidArgumentError, match="Snapshot snapshot is of another topic: topic"):
        queue.seek_to_snapshot("elsewhere", "snapshot")
    queue.unregister_topic("topic")
    with pytest.raises(FailedPreconditionError, match="Subscription is detached: sub"):
        queue.seek_to_snapshot("sub", "snapshot")
    history.topic_with("late", topic="topic")
    with pytest.raises(InvalidArgumentError):  # the same name, but another topic
        queue.seek_to_snapshot("late", "snapshot")


def test_a_seek_with_ordering_begins_in_order_again(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=DAY))
    queue.register_subscription("sub", "topic", message_ordering=True)
    for number in range(3):
        harness.publish(f"a{number}", key="a")
        harness.publish(f"b{number}", key="b")
    assert harness.pull("sub") == ["a0", "b0"]
    queue.create_snapshot("snapshot", "sub")
    queue.seek_to_offset("sub", 2)
    assert harness.drain("sub") == ["a1", "b1", "a2", "b2"]
    queue.seek_to_snapshot("sub", "snapshot")
    assert harness.drain("sub") == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_seek_with_a_filter_gives_matching_messages_only(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic", TopicOptions(retention_seconds=DAY))
    queue.register_subscription("sub", "topic", filter='attributes.colour = "red"')
    for number, colour in enumerate(["red", "blue", "red", "green", "red"]):
        queue.publish("topic", [InternalMessage(b"%d" % number, {"colour": colour})])
    assert harness.drain("sub") == ["0", "2", "4"]
    assert queue.backlog("sub").messages == 0  # messages that do not match count as acked
    queue.seek_to_offset("sub", 1)
    queue.ack(harness.take("sub").ack_id)
    queue.create_snapshot("snapshot", "sub")
    assert harness.drain("sub") == ["4"]
    queue.seek_to_snapshot("sub", "snapshot")
    assert harness.drain("sub") == ["4"]
    assert queue.backlog("sub") == (0, 0, 0, 0)


def test_a_purge_empties_one_subscription(history: Harness) -> None:
    queue = history.queue
    leased = history.take("sub")
    queue.purge("sub")
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert history.pull("sub") == []
    assert queue.ack_many([leased.ack_id]).stale == [leased.ack_id]
    assert history.drain("other") == ["a", "b", "c", "d", "e"]
    history.publish("f")
    assert history.drain("sub") == ["f"]


def test_a_peek_shows_the_next_messages_and_changes_nothing(history: Harness) -> None:
    queue = history.queue
    leased = history.take("sub")
    queue.nack(history.take("sub").ack_id)
    before = history.dump()
    for _ in range(3):
        assert [message.data for message in queue.peek("sub", 3)] == [b"b", b"c", b"d"]
    assert history.dump() == before
    assert history.take("sub").delivery_attempt == 2
    queue.ack(leased.ack_id)


def test_a_peek_larger_than_the_cache_ends(harness: Harness) -> None:
    """The peek returns as many messages as fit into memory, and does not read in circles."""
    queue = harness.again(sizes=Sizes(cache_bytes=1))
    harness.topic_with("sub")
    for number in range(20):
        queue.publish("topic", [b"%d" % (100 * number + each) for each in range(100)])
    found = [int(message.data) for message in queue.peek("sub", 2000)]
    assert found
    assert found == list(range(len(found)))


def test_the_oldest_message_is_known(history: Harness) -> None:
    queue = history.queue
    assert queue.oldest_unacked_age_seconds("sub") == 50
    a, b = queue.pull("sub", 2)
    queue.ack(b.ack_id)
    assert queue.oldest_unacked_age_seconds("sub") == 50
    queue.ack(a.ack_id)
    assert queue.oldest_unacked_age_seconds("sub") == 30
    queue.purge("sub")
    assert queue.oldest_unacked_age_seconds("sub") == 0
    with pytest.raises(NotFoundError, match="Subscription not found: nobody"):
        queue.oldest_unacked_age_seconds("nobody")
