"""Dead letters, caps that refuse publishes, and publish-once keys."""

from __future__ import annotations

import pytest

from penstock import (
    Draft,
    FailedPreconditionError,
    InternalMessage,
    InvalidArgumentError,
    Limits,
    MessageQueue,
    Once,
    ResourceExhaustedError,
    SubscriptionOptions,
    TopicOptions,
)
from penstock.broker.log import Sizes
from penstock.errors import OtherMessagesError
from tests.conformance.queue.harness import Harness

POLICY = {"dead_letter_topic": "dead", "max_delivery_attempts": 1}

# ---------------------------------------------------------------------- dead letters


@pytest.mark.parametrize("by", ["nack", "deadline", "modify"])
def test_dead_letters_need_not_be_in_memory(harness: Harness, by: str) -> None:
    """Messages that left the cache are read again. Each failed message moves exactly once."""
    queue = harness.again(sizes=Sizes(cache_bytes=1))
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    for number in range(5):
        queue.publish("topic", [b"%d" % number] + [b"-"] * 600)
    leased = [message for message in queue.pull("sub", 5 * 601) if message.data != b"-"]
    if by == "nack":
        assert queue.nack_many([message.ack_id for message in leased]).stale == []
    elif by == "modify":
        for message in leased:
            queue.modify_ack_deadline(message.ack_id, 0)
    else:
        harness.clock.advance(10)
        assert harness.pull("sub") == []
    letters = [body for body in harness.drain("letters") if body != "-"]
    assert sorted(letters) == ["0", "1", "2", "3", "4"]
    assert queue.backlog("sub").messages == (0 if by == "deadline" else 5 * 600)


def test_without_its_topic_a_dead_letter_is_delivered_again(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a")
    for attempt in (1, 2, 3):
        message = harness.take("sub")
        assert message.delivery_attempt == attempt
        queue.nack(message.ack_id)
        harness.clock.advance(600)  # the dead letter waits for its topic
    harness.topic_with("letters", topic="dead")
    queue.nack(harness.take("sub").ack_id)
    assert harness.pull("sub") == []
    letter = harness.take("letters")
    assert letter.attributes["dead_letter_source_delivery_count"] == "4"


def test_a_dead_letter_is_one_step(harness: Harness, queue: MessageQueue) -> None:
    """The message leaves one topic and enters the other in the same commit, so a crash cannot separate the two."""
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("a")
    message = harness.take("sub")
    commits = []
    commit = queue.engine.journal.commit
    queue.engine.journal.commit = lambda step: (commits.append(step), commit(step))[1]  # type: ignore[method-assign]
    queue.nack(message.ack_id)
    (step,) = commits
    assert {type(fact).__name__ for fact in step.facts} == {"Published", "Removed"}
    assert [len(batch.messages) for batch in step.batches] == [1]


def test_a_full_dead_letter_queue_does_not_stop_its_source(harness: Harness) -> None:
    """At a cap that refuses publishes, a dead letter is still accepted, because it has no other place."""
    queue = harness.again(limits=Limits(queue_messages_max=2, refuse_when_full=True))
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy=POLICY)
    harness.publish("x", "y", topic="dead")
    harness.publish("a")
    harness.take("sub")
    harness.clock.advance(10)
    assert harness.pull("sub") == []
    assert queue.backlog("sub").messages == 0
    assert harness.drain("letters") == ["x", "y", "a"]


# ---------------------------------------------------------------------- caps and limits


def test_a_full_queue_refuses_the_publish_if_configured(harness: Harness) -> None:
    queue = harness.again(limits=Limits(queue_messages_max=2, refuse_when_full=True))
    harness.topic_with("sub")
    harness.publish("a")
    with pytest.raises(ResourceExhaustedError, match="Queue is full: sub"):
        harness.publish("b", "c")
    with pytest.raises(InvalidArgumentError):
        queue.publish("topic", [Draft(b"x", {"": "an attribute without a name"})])
    assert queue.statistics().publishes_refused == {"capacity": 1, "invalid": 1}
    harness.publish("b")
    assert harness.drain("sub") == ["a", "b"]
    harness.publish("c", "d")


def test_a_limit_of_zero_is_no_limit(harness: Harness) -> None:
    queue = harness.again(limits=Limits(message_max_bytes=0, queue_messages_max=0, queue_bytes_max=0))
    harness.topic_with("sub")
    queue.publish("topic", [b"x" * (11 << 20)])
    queue.publish("topic", [b"x"] * 10_001)
    assert queue.backlog("sub").messages == 10_002


def test_limits_are_those_of_the_caller(harness: Harness) -> None:
    limits = Limits(message_max_bytes=10, attributes_max=1, ordering_key_max_bytes=3, reserved_prefixes=("own",))
    queue = harness.again(limits=limits)
    harness.topic_with("sub")
    for message, text in [
        (InternalMessage(b"x" * 11), "Message size exceeds maximum of 10 bytes"),
        (InternalMessage(b"", {"a": "", "b": ""}), "A message may have at most 1 attributes"),
        (InternalMessage(b"", ordering_key="four"), "Ordering key exceeds maximum of 3 bytes"),
        (InternalMessage(b"", {"own": ""}), "Attribute key uses a reserved prefix: own"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            queue.publish("topic", [message])
    queue.publish("topic", [InternalMessage(b"", {"goog": ""})])


def test_limits_that_name_no_prefix_leave_the_reserved_one(harness: Harness) -> None:
    """004 BR-017, also for a queue with limits of its own."""
    queue = harness.again(limits=Limits(message_max_bytes=10))
    harness.topic_with("sub")
    with pytest.raises(InvalidArgumentError, match="Attribute key uses a reserved prefix: goog-x"):
        queue.publish("topic", [InternalMessage(b"", {"goog-x": ""})])


def test_a_refused_message_has_no_age(harness: Harness) -> None:
    queue = harness.again(limits=Limits(queue_messages_max=1))
    harness.topic_with("sub")
    harness.publish("a", "discarded")
    harness.clock.advance(5)
    queue.ack(harness.take("sub").ack_id)
    assert queue.backlog("sub").messages == 0
    assert queue.oldest_unacked_age_seconds("sub") == 0


def test_later_changes_to_the_callers_dictionary_have_no_effect(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub", "other")
    mine = {"colour": "red"}
    queue.publish("topic", [InternalMessage(b"a", mine), Draft(b"b", mine)])
    mine["colour"] = "blue"
    pulled = queue.pull("sub", 10)
    assert [message.attributes for message in pulled] == [{"colour": "red"}] * 2
    pulled[0].attributes["colour"] = "green"
    assert harness.take("other").attributes == {"colour": "red"}


# ---------------------------------------------------------------------- publish once


def once(queue: MessageQueue, sequence: int, *bodies: bytes, epoch: int = 1) -> list[str]:
    return queue.publish("topic", [Draft(body) for body in bodies], Once("spark", epoch, sequence))


def test_a_repeated_publish_has_the_first_answer_and_is_stored_once(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    first = once(queue, 1, b"a", b"b")
    second = once(queue, 2, b"c")
    harness.publish("d")
    assert once(queue, 1, b"a", b"b") == first
    assert once(queue, 2, b"c") == second
    assert harness.drain("sub") == ["a", "b", "c", "d"]


def test_sequences_may_come_in_any_order(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    seven, three = once(queue, 7, b"seven"), once(queue, 3, b"three")
    assert (once(queue, 7, b"seven"), once(queue, 3, b"three")) == (seven, three)
    assert harness.drain("sub") == ["seven", "three"]


def test_an_old_epoch_is_refused(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    once(queue, 1, b"a", epoch=1)
    once(queue, 1, b"b", epoch=2)  # the sequence starts again in a new epoch
    with pytest.raises(FailedPreconditionError, match="Producer spark is at epoch 2; epoch 1 is over"):
        once(queue, 2, b"c", epoch=1)
    assert harness.drain("sub") == ["a", "b"]


def test_a_repeat_with_another_count_is_refused(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")
    once(queue, 1, b"a", b"b")
    with pytest.raises(InvalidArgumentError, match="Sequence 1 was taken with 2 messages, not 1"):
        once(queue, 1, b"a")
    with pytest.raises(InvalidArgumentError, match="needs a producer"):
        queue.publish("topic", [b"x"], Once("", 1, 1))


def test_a_repeat_with_other_messages_is_refused_where_digests_are_known(harness: Harness, queue: MessageQueue) -> None:
    harness.topic_with("sub")

    def publish(body: bytes, sequence: int, digest: int = 0, epoch: int = 1) -> list[str]:
        return queue.publish("topic", [Draft(body)], Once("spark", epoch, sequence, digest))

    first, second = publish(b"a", 1, digest=11), publish(b"b", 2)
    for crash in (False, True, None):
        assert publish(b"a", 1, digest=11) == first
        with pytest.raises(OtherMessagesError, match="Sequence 1 was taken with other messages"):
            publish(b"c", 1, digest=12)
        # A publisher of an older release sends no digest.
        assert publish(b"c", 1) == first
        assert publish(b"c", 2, digest=12) == second
        if harness.kind != "memory" and crash is not None:
            queue = harness.reopen(crash=crash)
    assert publish(b"c", 1, digest=12, epoch=2) != first
    assert harness.drain("sub") == ["a", "b", "c"]


def test_a_producer_is_known_per_topic_and_forgotten_when_long_silent(harness: Harness) -> None:
    queue = harness.again(limits=Limits(producer_idle_seconds=1000))
    queue.register_topic("topic", TopicOptions(retention_seconds=10**6))
    queue.register_topic("other", TopicOptions(retention_seconds=10**6))
    once(queue, 1, b"a")
    queue.publish("other", [b"a"], Once("spark", 1, 1))
    assert len(queue.read("other", 0, 10)) == 1
    harness.clock.advance(900)
    once(queue, 2, b"b")
    harness.clock.advance(900)
    once(queue, 1, b"a")  # producers that published within the last 1000 seconds
    assert len(queue.read("topic", 0, 10)) == 2
    harness.clock.advance(1100)
    once(queue, 1, b"a")
    assert len(queue.read("topic", 0, 10)) == 3


# ---------------------------------------------------------------------- leases without a deadline


def test_an_endless_lease_ends_only_by_its_holder(harness: Harness, queue: MessageQueue) -> None:
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic", SubscriptionOptions(retention_seconds=0))
    harness.publish("a")
    (held,) = queue.lease("sub", 1, lease_seconds=float("inf"))
    harness.clock.advance(10**7)
    assert harness.pull("sub") == []
    queue.nack(held.receipt)
    assert harness.pull("sub") == ["a"]
