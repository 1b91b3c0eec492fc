"""Specification 004 through penstock.MessageQueue, clause by clause, on every journal.

A test does what the clause says and checks what a user sees. Tests control the clock, except for one lease at the end,
which expires in real time. The tests in tests/conformance/queue/test_clauses.py prove the clauses on deletion, failure,
sizes and caps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock import InternalMessage, InvalidArgumentError, MessageQueue
from tests.conformance.queue.harness import JOURNALS, Harness


@pytest.fixture(params=JOURNALS)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(request.param, tmp_path)
    yield harness
    harness.close()


@pytest.fixture
def queue(harness: Harness) -> MessageQueue:
    return harness.queue


@pytest.fixture
def _no_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the instance of this process before and after the test."""
    monkeypatch.setattr(MessageQueue, "_instance", None)


def message(text: str = "test", key: str | None = None) -> InternalMessage:
    """Return a message as the specification creates it. The queue replaces its id, time and attempt."""
    return InternalMessage(text.encode(), {}, key, "msg-1", datetime.now(UTC), 1)


def in_flight(queue: MessageQueue, subscription: str = "test-sub") -> tuple[int, int]:
    return queue.backlog(subscription)[2:]


# ---------------------------------------------------------------------- the singleton


@pytest.mark.usefixtures("_no_instance")
def test_the_instance_is_always_the_same() -> None:
    """004 BR-001, AC-001."""
    assert MessageQueue.get_instance() is MessageQueue.get_instance()


@pytest.mark.usefixtures("_no_instance")
def test_threads_that_come_first_together_get_one_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """004 BR-001: the construction is slow, so that all threads arrive before there is an instance."""
    made, start, built, seen = [], threading.Barrier(32), threading.Event(), []
    construct = MessageQueue.__init__

    def slow(self: MessageQueue) -> None:
        made.append(self)
        built.wait(0.05)
        construct(self)

    def ask() -> None:
        start.wait()
        seen.append(MessageQueue.get_instance())

    monkeypatch.setattr(MessageQueue, "__init__", slow)
    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(seen) == 32
    assert set(map(id, seen)) == {id(made[0])}


# ---------------------------------------------------------------------- topics and publishing


def test_a_topic_exists_once_it_is_registered(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-002, AC-002."""
    assert queue.topic_exists("test-topic") is False
    assert queue.get_topic("test-topic") is None
    queue.register_topic("test-topic")
    assert queue.topic_exists("test-topic") is True
    topic = queue.get_topic("test-topic")
    assert topic is not None
    assert (topic.name, topic.created, topic.tail) == ("test-topic", datetime.fromtimestamp(1_700_000_000, UTC), 0)
    assert [each.name for each in queue.get_all_topics()] == ["test-topic"]


def test_a_published_message_can_be_pulled(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-003, AC-003: the queue sets id and publish time."""
    harness.topic_with("test-sub", topic="test-topic")
    harness.clock.advance(1.5)
    ids = queue.publish("test-topic", [message("Hello")])
    assert len(ids) == 1
    assert ids != ["msg-1"]
    (pulled,) = queue.pull("test-sub", 10)
    assert pulled.data.decode() == "Hello"
    assert (pulled.id, pulled.length, pulled.delivery_attempt) == (ids[0], 5, 1)
    assert pulled.publish_time == datetime.fromtimestamp(1_700_000_001.5, UTC)


def test_ids_are_unique_across_topics(queue: MessageQueue) -> None:
    """004 BR-003: messages at the same offset of different topics have different ids."""
    for name in ("a", "b"):
        queue.register_topic(name)
    ids = [*queue.publish("a", [b"1", b"2"]), *queue.publish("b", [b"1", b"2"]), *queue.publish("a", [b"3"])]
    assert len(set(ids)) == 5


def test_every_subscription_gets_a_copy(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-003, AC-004: an ack of one copy does not affect the other."""
    harness.topic_with("sub-1", "sub-2", topic="test-topic")
    queue.publish("test-topic", [message()])
    (first,) = queue.pull("sub-1", 10)
    queue.ack(first.ack_id)
    assert len(queue.pull("sub-2", 10)) == 1


def test_without_subscriptions_messages_are_discarded(queue: MessageQueue) -> None:
    """004 BR-004, AC-010: messages get ids, nothing is stored, and a later subscription does not receive them."""
    queue.register_topic("test-topic")
    assert len(queue.publish("test-topic", [message()])) == 1
    queue.register_subscription("test-sub", "test-topic")
    assert queue.pull("test-sub", 10) == []
    assert queue.read("test-topic", 0, 10) == []


def test_subscriptions_of_a_topic_are_listed(harness: Harness, queue: MessageQueue) -> None:
    """004 AC-011."""
    harness.topic_with("sub-1", "sub-2", topic="test-topic")
    harness.topic_with("elsewhere", topic="other")
    assert [each.name for each in queue.get_subscriptions_for_topic("test-topic")] == ["sub-1", "sub-2"]
    assert len(queue.get_all_subscriptions()) == 3


# ---------------------------------------------------------------------- pull, ack, nack, deadlines


def test_a_pull_leases_up_to_n_messages(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-005: leased messages are not delivered again, and every delivery has an ack id of its own."""
    harness.topic_with("test-sub")
    harness.publish("a", "b", "c")
    first, second = queue.pull("test-sub", 2), queue.pull("test-sub", 2)
    assert [m.data for m in first + second] == [b"a", b"b", b"c"]
    assert len({m.ack_id for m in first + second}) == 3
    assert queue.pull("test-sub", 2) == []
    assert in_flight(queue) == (3, 3)


def test_an_acked_message_is_gone(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-006, AC-005: the message does not come back after its deadline."""
    harness.topic_with("test-sub")
    harness.publish("test")
    queue.ack(harness.take("test-sub").ack_id)
    assert queue.pull("test-sub", 10) == []
    assert queue.backlog("test-sub") == (0, 0, 0, 0)
    harness.clock.advance(601)
    assert queue.pull("test-sub", 10) == []


def test_a_nacked_message_comes_back_at_once(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-007, AC-006."""
    harness.topic_with("test-sub")
    harness.publish("test")
    first = harness.take("test-sub")
    assert first.delivery_attempt == 1
    queue.nack(first.ack_id)
    assert in_flight(queue) == (0, 0)
    (second,) = queue.pull("test-sub", 10)
    assert (second.delivery_attempt, second.id) == (2, first.id)


def test_a_message_comes_back_when_its_deadline_has_passed(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-008, AC-007: the message does not come back before the deadline, and its attempt is counted."""
    harness.topic_with("test-sub", ack_deadline_seconds=10)
    harness.publish("test")
    assert len(queue.pull("test-sub", 10)) == 1
    harness.clock.advance(9.999)
    assert queue.pull("test-sub", 10) == []
    harness.clock.advance(0.101)
    (again,) = queue.pull("test-sub", 10)
    assert again.delivery_attempt == 2


@pytest.mark.parametrize(("given", "seconds"), [(None, 10), (1, 1), (600, 600)])
def test_the_deadline_is_the_subscriptions(harness: Harness, given: int | None, seconds: int) -> None:
    """004 BR-008: the default is 10 seconds, and the maximum is 600."""
    harness.topic_with("test-sub", ack_deadline_seconds=given)
    harness.publish("test")
    harness.take("test-sub")
    harness.clock.advance(seconds - 0.001)
    assert harness.pull("test-sub") == []
    harness.clock.advance(0.001)
    assert harness.pull("test-sub") == ["test"]


@pytest.mark.parametrize("seconds", [0, 0.5, 601])
def test_a_deadline_out_of_range_is_refused(harness: Harness, seconds: float) -> None:
    """004 BR-008."""
    harness.topic_with()
    with pytest.raises(InvalidArgumentError, match="Ack deadline must be between 1 and 600 seconds"):
        harness.queue.register_subscription("test-sub", "topic", ack_deadline_seconds=seconds)


def test_a_deadline_can_be_extended_again_and_again(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-009, AC-008."""
    harness.topic_with("test-sub", ack_deadline_seconds=10)
    harness.publish("test")
    lease = harness.take("test-sub")
    for _ in range(3):
        queue.modify_ack_deadline(lease.ack_id, 15)
        harness.clock.advance(12)
        assert queue.pull("test-sub", 10) == []
    queue.ack(lease.ack_id)
    assert queue.backlog("test-sub").messages == 0


def test_a_deadline_counts_from_now_and_zero_hands_back(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-009: the new deadline replaces the old one, also when it is sooner."""
    harness.topic_with("test-sub", ack_deadline_seconds=600)
    harness.publish("test")
    queue.modify_ack_deadline(harness.take("test-sub").ack_id, 5)
    harness.clock.advance(5)
    again = harness.take("test-sub")
    queue.modify_ack_deadline(again.ack_id, 0)
    assert harness.take("test-sub").delivery_attempt == 3
    for seconds in (-1, 601, float("nan")):
        with pytest.raises(InvalidArgumentError, match="Ack deadline must be between 0 and 600 seconds"):
            queue.modify_ack_deadline(again.ack_id, seconds)


# ---------------------------------------------------------------------- order


def test_messages_of_a_key_come_one_after_the_other(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-010, AC-009."""
    harness.topic_with("test-sub", message_ordering=True)
    harness.publish("first", "second", key="user-123")
    (first,) = queue.pull("test-sub", 10)
    assert first.data.decode() == "first"
    assert queue.pull("test-sub", 10) == []
    queue.ack(first.ack_id)
    (second,) = queue.pull("test-sub", 10)
    assert (second.data.decode(), second.ordering_key) == ("second", "user-123")


def test_other_keys_and_messages_without_key_are_not_held_up(harness: Harness) -> None:
    """004 BR-010: a pull returns at most one message of each key, and all messages without a key."""
    harness.topic_with("test-sub", message_ordering=True)
    for body, key in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("x", None), ("b2", "b"), ("y", None)]:
        harness.publish(body, key=key)
    assert harness.pull("test-sub") == ["a1", "b1", "x", "y"]


def test_without_keys_the_oldest_comes_first(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-019, AC-013: a returned message comes before messages that were never delivered."""
    harness.topic_with("test-sub")
    harness.publish("A", "B", "C")
    harness.publish("D")
    a, b = queue.pull("test-sub", 2)
    assert (a.data, b.data) == (b"A", b"B")
    queue.nack(b.ack_id)
    queue.nack(a.ack_id)
    assert harness.pull("test-sub") == ["A", "B", "C", "D"]


def test_each_key_keeps_its_own_order_through_returns(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-019: after any nacks, the messages of each key arrive in publish order."""
    harness.topic_with("test-sub", message_ordering=True)
    for number in range(6):
        harness.publish(f"a{number}", key="a")
        harness.publish(f"b{number}", key="b")
    seen = []
    while messages := queue.pull("test-sub", 10):
        for each in messages:
            if each.delivery_attempt < 2:
                queue.nack(each.ack_id)
            else:
                seen.append(each.data.decode())
                queue.ack(each.ack_id)
    assert [body for body in seen if body[0] == "a"] == [f"a{number}" for number in range(6)]
    assert [body for body in seen if body[0] == "b"] == [f"b{number}" for number in range(6)]


# ---------------------------------------------------------------------- one lease for real


def test_a_lease_runs_out_in_real_time() -> None:
    """004 BR-008: with the clock of the system, a message comes back after its lease of one second."""
    with MessageQueue() as queue:
        queue.register_topic("topic")
        queue.register_subscription("test-sub", "topic", ack_deadline_seconds=1)
        queue.publish("topic", [b"test"])
        started = time.monotonic()
        queue.pull("test-sub", 1)
        pause, again = threading.Event(), []
        while not again and time.monotonic() < started + 5:
            pause.wait(0.02)
            again = queue.pull("test-sub", 1)
        assert [each.delivery_attempt for each in again] == [2]
        assert time.monotonic() - started >= 1
