"""Specification 004, continued: deletion, flow control, retries, dead letters, sizes, ack ids, leaks, caps and errors.

The other clauses are proved in tests/acceptance/test_message_queue.py.
"""

from __future__ import annotations

import logging

import pytest

from penstock import InternalMessage, InvalidArgumentError, Limits, MessageQueue, NotFoundError, PenstockError
from tests.conformance.queue.harness import Harness

MIB = 1024 * 1024


def refused(error: pytest.ExceptionInfo[PenstockError]) -> tuple[int, str]:
    return error.value.code, error.value.message


# ---------------------------------------------------------------------- deletion


def test_a_deleted_subscription_takes_its_backlog_along(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-011: its ack ids become invalid, and a new subscription of the same name starts empty."""
    harness.topic_with("sub", "other")
    harness.publish("a", "b")
    leased = harness.take("sub")
    queue.unregister_subscription("sub")
    assert not queue.subscription_exists("sub")
    with pytest.raises(InvalidArgumentError):
        queue.ack(leased.ack_id)
    queue.register_subscription("sub", "topic")
    harness.clock.advance(600)
    assert harness.pull("sub") == []
    assert harness.pull("other") == ["a", "b"]


def test_a_deleted_topic_leaves_its_subscriptions_detached(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-012, AC-012."""
    harness.topic_with("sub")
    harness.publish("a")
    queue.unregister_topic("topic")
    assert not queue.topic_exists("topic")
    assert queue.subscription_exists("sub")
    subscription = queue.get_subscription("sub")
    assert subscription is not None
    assert (subscription.topic, subscription.detached) == ("topic", True)
    assert harness.pull("sub") == []


def test_deleting_a_topic_ends_its_leases(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-021: leases and backlog are dropped, and a new topic of the same name does not feed the old
    subscription.
    """
    harness.topic_with("sub-1", "sub-2")
    harness.publish("a", "b")
    leased = [harness.take("sub-1"), harness.take("sub-2")]
    queue.unregister_topic("topic")
    for each in leased:
        with pytest.raises(InvalidArgumentError):
            queue.ack(each.ack_id)
    queue.register_topic("topic")
    harness.publish("c")
    harness.clock.advance(600)
    for name in ("sub-1", "sub-2"):
        assert harness.pull(name) == []
        assert queue.backlog(name) == (0, 0, 0, 0)
        assert len(queue.engine.broker.state.subscription(name).timers) == 0


# ---------------------------------------------------------------------- flow control and metrics


def test_flow_control_counts_messages(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-013: at the limit a pull returns nothing, and below it as many messages as were acked or nacked."""
    harness.topic_with("sub", flow_control={"max_messages": 2})
    harness.publish("a", "b", "c", "d")
    a, b = queue.pull("sub", 10)
    assert queue.pull("sub", 10) == []
    queue.ack(a.ack_id)
    assert harness.pull("sub") == ["c"]
    queue.nack(b.ack_id)
    assert harness.pull("sub") == ["b"]


def test_flow_control_counts_bytes(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-013: the message that reaches the limit is the last one that is delivered."""
    harness.topic_with("sub", flow_control={"max_bytes": 10})
    harness.publish("aaaaaa", "bbbbbb", "cccccc")
    a, b = queue.pull("sub", 10)
    assert queue.pull("sub", 10) == []
    queue.ack(a.ack_id)
    assert harness.pull("sub") == ["cccccc"]
    queue.ack(b.ack_id)


def test_messages_in_flight_are_counted(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-014: per subscription, in messages and bytes. Ack, nack and deadline reduce the counts."""
    harness.topic_with("sub", "other", ack_deadline_seconds=10)
    harness.publish("1", "22", "333")
    one, two, _ = queue.pull("sub", 3)
    assert queue.backlog("sub") == (3, 6, 3, 6)
    assert queue.backlog("other") == (3, 6, 0, 0)
    queue.ack(one.ack_id)
    assert queue.backlog("sub") == (2, 5, 2, 5)
    queue.nack(two.ack_id)
    assert queue.backlog("sub") == (2, 5, 1, 3)
    harness.clock.advance(10)
    assert harness.pull("sub", 1) == ["22"]
    assert queue.backlog("sub") == (2, 5, 1, 2)


# ---------------------------------------------------------------------- retries and dead letters


@pytest.mark.parametrize("by", ["nack", "deadline"])
def test_the_backoff_doubles_up_to_its_maximum(harness: Harness, queue: MessageQueue, by: str) -> None:
    """004 BR-015: min(minimum * 2^(attempt-1), maximum) after each kind of failure."""
    policy = {"minimum_backoff": {"seconds": 2}, "maximum_backoff": {"seconds": 15}}
    harness.topic_with("sub", ack_deadline_seconds=10, retry_policy=policy)
    harness.publish("a")
    for attempt, delay in enumerate([2, 4, 8, 15, 15], 1):
        message = harness.take("sub")
        assert message.delivery_attempt == attempt
        if by == "nack":
            queue.nack(message.ack_id)
        else:
            harness.clock.advance(10)
        harness.clock.advance(delay - 0.001)
        assert harness.pull("sub") == []
        harness.clock.advance(0.001)


def test_a_message_that_failed_too_often_becomes_a_dead_letter(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-016: it moves at the failure after its last attempt, with everything that was published."""
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy={"dead_letter_topic": "dead", "max_delivery_attempts": 2})
    queue.publish("topic", [InternalMessage(b"body", {"colour": "red"}, "key")])
    harness.clock.advance(5)
    queue.nack(harness.take("sub").ack_id)
    assert harness.pull("letters") == []
    harness.take("sub")
    harness.clock.advance(10)  # the second failure is an expired deadline
    assert harness.pull("sub") == []
    assert queue.backlog("sub").messages == 0
    letter = harness.take("letters")
    assert (letter.data, letter.ordering_key, letter.attributes["colour"]) == (b"body", "key", "red")
    assert letter.attributes["dead_letter_source_publish_time_ns"] == str(1_700_000_000 * 10**9)
    assert letter.attributes["dead_letter_source_subscription"] == "sub"
    assert letter.attributes["dead_letter_source_topic"] == "topic"
    assert letter.attributes["dead_letter_source_delivery_count"] == "2"


# ---------------------------------------------------------------------- sizes and attributes

LONG = "\u00e9" * 128  # 256 bytes, 128 characters


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (InternalMessage(bytes(10 * MIB + 1)), "Message size exceeds maximum of 10MB"),
        (InternalMessage(bytes(10 * MIB - 3), {"ab": "cd"}), "Message size exceeds maximum of 10MB"),
        (InternalMessage(bytes(10 * MIB - 3), ordering_key="abcd"), "Message size exceeds maximum of 10MB"),
        (InternalMessage(b"", {LONG + "x": "v"}), "Attribute key exceeds maximum of 256 bytes"),
        (InternalMessage(b"", {"k": LONG * 4 + "x"}), "Attribute value exceeds maximum of 1024 bytes"),
        (InternalMessage(b"", {"": "v"}), "Attribute keys must not be empty"),
        (InternalMessage(b"", {"goog": "v"}), "Attribute key uses a reserved prefix: goog"),
        (InternalMessage(b"", {"googclient_x": "v"}), "Attribute key uses a reserved prefix: googclient_x"),
        (InternalMessage(b"", {"k": 1}), "Attribute values must be strings: k"),  # type: ignore[dict-item]
        (InternalMessage(b"", {1: "v"}), "Attribute keys must be strings"),  # type: ignore[dict-item]
        (InternalMessage("text"), "Message data must be bytes, not str"),  # type: ignore[arg-type]
        (InternalMessage(b"", {"k": "\ud800"}), "Text must be valid Unicode, without lone surrogates"),
    ],
)
def test_a_message_beyond_the_limits_is_refused(harness: Harness, message: InternalMessage, text: str) -> None:
    """004 BR-017: the error has code 3, and a valid message in the same publish is not stored either."""
    harness.topic_with("sub")
    with pytest.raises(InvalidArgumentError) as error:
        harness.queue.publish("topic", [InternalMessage(b"good"), message])
    assert refused(error) == (3, text)
    assert harness.pull("sub") == []


@pytest.mark.parametrize(
    "message",
    [
        InternalMessage(bytes(10 * MIB)),
        InternalMessage(bytes(10 * MIB - 8), {"ab": "cd"}, "abcd"),
        InternalMessage(b"", {LONG: LONG * 4}),
        InternalMessage(b"", {"Goog": "a", "my-goog": "", "k": ""}),
    ],
)
def test_a_message_at_the_limits_is_taken(harness: Harness, message: InternalMessage) -> None:
    """004 BR-017: sizes are counted in bytes, and a message at the limit is accepted."""
    harness.topic_with("sub")
    harness.queue.publish("topic", [message])
    pulled = harness.take("sub")
    assert (pulled.data, pulled.attributes) == (message.data, message.attributes)


# ---------------------------------------------------------------------- ack ids


def test_only_the_latest_ack_id_of_a_message_is_good(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-018: nacked, expired, replaced and acked ack ids are refused by name, and change nothing."""
    harness.topic_with("sub", ack_deadline_seconds=10)
    harness.publish("a")
    nacked = harness.take("sub")
    queue.nack(nacked.ack_id)
    expired = harness.take("sub")
    harness.clock.advance(10)
    with pytest.raises(InvalidArgumentError) as error:
        queue.ack(expired.ack_id)  # not delivered again yet, and already invalid
    assert refused(error) == (3, f"Invalid ack ID: {expired.ack_id}")
    latest = harness.take("sub")
    assert len({nacked.ack_id, expired.ack_id, latest.ack_id}) == 3
    for call in (queue.ack, queue.nack, lambda text: queue.modify_ack_deadline(text, 20)):
        for old in (nacked.ack_id, expired.ack_id):
            with pytest.raises(InvalidArgumentError):
                call(old)
    queue.ack(latest.ack_id)
    with pytest.raises(InvalidArgumentError):
        queue.ack(latest.ack_id)


@pytest.mark.parametrize("text", ["abc123", "", "1-2", "1-2-3-4", "x-y-z", "99-0-1", "2-99-1", "2-0-0", "²-0-1"])
def test_an_invalid_ack_id_is_refused(harness: Harness, queue: MessageQueue, text: str) -> None:
    """004 BR-018: the error has code 3 and the invalid text."""
    harness.topic_with("sub")
    harness.publish("a")
    harness.take("sub")
    for call in (queue.ack, queue.nack, lambda text: queue.modify_ack_deadline(text, 20)):
        with pytest.raises(InvalidArgumentError) as error:
            call(text)
        assert refused(error) == (3, f"Invalid ack ID: {text}")


def test_errors_name_missing_resources(queue: MessageQueue) -> None:
    """004 BR-002, BR-005: the errors have the texts of the specification and code 5."""
    with pytest.raises(NotFoundError) as error:
        queue.publish("test-topic", [b"x"])
    assert refused(error) == (5, "Topic not found: test-topic")
    with pytest.raises(NotFoundError) as error:
        queue.register_subscription("test-sub", "test-topic")
    assert refused(error) == (5, "Topic not found: test-topic")
    for call in (lambda: queue.pull("test-sub", 1), lambda: queue.unregister_subscription("test-sub")):
        with pytest.raises(NotFoundError) as error:
            call()
        assert refused(error) == (5, "Subscription not found: test-sub")


# ---------------------------------------------------------------------- leaks and caps


@pytest.mark.parametrize("ordering", [False, True])
def test_nothing_piles_up_over_many_cycles(harness: Harness, queue: MessageQueue, ordering: bool) -> None:
    """004 BR-020: after 100,000 deliveries, half of them nacked, every index is as empty as at the start."""
    harness.topic_with("sub", message_ordering=ordering)
    for turn in range(100 if harness.kind == "memory" else 20):
        messages = [InternalMessage(b"x", {}, f"key-{turn}-{number}") for number in range(500)]
        queue.publish("topic", messages)
        queue.nack_many([message.ack_id for message in queue.pull("sub", 1000)])
        queue.ack_many([message.ack_id for message in queue.pull("sub", 1000)])
        harness.clock.advance(1)
    assert queue.pull("sub", 1) == []
    subscription = queue.engine.broker.state.subscription("sub")
    assert queue.backlog("sub") == (0, 0, 0, 0)
    assert (subscription.outstanding, subscription.lanes, subscription.skips) == ({}, {}, [])
    assert (subscription.ready, subscription.lane_ready) == ([], [])
    assert len(subscription.timers) == 0
    assert len(subscription.timers._heap) <= 200
    assert len(subscription.lows) <= 1025
    topic = queue.engine.broker.state.topic("topic")
    assert topic.tail - topic.head <= 1000  # the log has dropped acked messages


def capped(harness: Harness) -> MessageQueue:
    queue = harness.again(limits=Limits(queue_messages_max=3, queue_bytes_max=100))
    harness.topic_with("full", "other")
    return queue


def test_a_full_subscription_does_not_affect_the_others(harness: Harness) -> None:
    """004 BR-022: it takes the messages that fit, counts the others, and takes messages again when it has space."""
    queue = capped(harness)
    harness.publish("a", "b")
    assert harness.drain("other") == ["a", "b"]
    harness.publish("c", "d", "e")
    assert harness.pull("other") == ["c", "d", "e"]
    assert queue.backlog("full").messages == 3
    dropped = {each.subscription: dict(each.dropped) for each in queue.statistics().subscriptions}
    assert dropped == {"full": {"capacity": 2}, "other": {}}
    assert harness.drain("full") == ["a", "b", "c"]
    harness.publish("f")
    assert harness.drain("full") == ["f"]


def test_bytes_fill_a_subscription_too(harness: Harness) -> None:
    """004 BR-022: a subscription below its limit takes one more message, and none at the limit."""
    capped(harness)
    harness.publish("x" * 99, "y" * 50, "z")
    assert [body[0] for body in harness.drain("full")] == ["x", "y"]


def test_a_full_subscription_is_logged_once_until_it_had_room(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """004 BR-022: one warning when it becomes full, none for later messages, and one when it is full again."""
    capped(harness)
    caplog.set_level(logging.WARNING, "penstock")
    for _ in range(3):
        harness.publish("a", "b")
        harness.drain("other")
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert warning.getMessage() == "Subscription full is full: messages are discarded until it has room"
    harness.drain("full")
    harness.publish("c", "d", "e")
    assert len(caplog.records) == 1
    harness.publish("f")
    assert len([each for each in caplog.records if "full is full" in each.getMessage()]) == 2


def test_the_default_cap_is_ten_thousand_messages(harness: Harness, queue: MessageQueue) -> None:
    """004 BR-022."""
    harness.topic_with("sub")
    queue.publish("topic", [b"x"] * 10_001)
    assert queue.backlog("sub").messages == 10_000
    assert (Limits().queue_messages_max, Limits().queue_bytes_max) == (10_000, 100 * MIB)
