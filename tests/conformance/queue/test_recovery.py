"""A reopened queue has the state that it had at its end, after a clean stop and after a crash."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from penstock import Draft, FailedPreconditionError, Limits, MessageQueue, Once, SubscriptionOptions, TopicOptions
from tests.conformance.queue.harness import Harness


def leases(harness: Harness) -> None:
    harness.topic_with("sub", ack_deadline_seconds=60)
    harness.publish("a", "b", "c", "d")
    queue = harness.queue
    a, b, c, _ = queue.pull("sub", 4)
    queue.ack(b.ack_id)
    harness.clock.advance(5)
    queue.modify_ack_deadline(a.ack_id, 100)
    queue.nack(c.ack_id)


def attempts(harness: Harness) -> None:
    harness.topic_with("sub", retry_policy={"minimum_backoff": 10, "maximum_backoff": 100})
    harness.publish("a", "b")
    for _ in range(3):
        for message in harness.queue.pull("sub", 2):
            harness.queue.nack(message.ack_id)
        harness.clock.advance(45)


def rewritten(harness: Harness) -> None:
    harness.topic_with("sub", "other")
    harness.publish("a", "b")
    harness.queue.replace_body(harness.take("sub").ack_id, b"replaced", 30)


def lanes(harness: Harness) -> None:
    harness.queue.register_topic("topic")
    options = SubscriptionOptions(ordering=True, ordering_window=2, retry_minimum_seconds=5, retry_maximum_seconds=5)
    harness.queue.register_subscription("sub", "topic", options)
    for key in "abc":
        harness.publish(*(f"{key}{number}" for number in range(5)), key=key)
    messages = harness.queue.pull("sub", 10)
    harness.queue.nack(messages[0].ack_id)
    harness.queue.ack(messages[2].ack_id)


def skips(harness: Harness) -> None:
    harness.again(limits=Limits(queue_messages_max=3))
    harness.topic_with("sub")
    harness.publish("a", "b", "c", "discarded")
    for message in harness.queue.pull("sub", 2):
        harness.queue.ack(message.ack_id)
    harness.publish("d", "e", "discarded as well")


def adopted(harness: Harness) -> None:
    harness.queue.register_topic("topic")
    harness.queue.register_subscription("sub", "topic")
    harness.publish("a", "b", "c", "d")
    number = harness.queue.engine.broker.state.subscription("sub").number
    harness.lenient.ack(harness.queue.engine.broker.publisher_receipt(number, 2))
    harness.lenient.replace_body(harness.queue.engine.broker.publisher_receipt(number, 1), b"changed", 30)


def delays(harness: Harness) -> None:
    harness.topic_with("sub")
    harness.queue.publish("topic", [Draft(b"late", delay_seconds=60, ttl_seconds=100), Draft(b"short", ttl_seconds=5)])
    harness.queue.pull("sub", 10)


def snapshots(harness: Harness) -> None:
    leases(harness)
    harness.queue.create_snapshot("snapshot", "sub")
    harness.publish("e")
    harness.queue.seek_to_snapshot("sub", "snapshot")
    harness.queue.pull("sub", 2)


def producers(harness: Harness) -> None:
    harness.topic_with("sub")
    for sequence in (1, 2, 5):
        harness.queue.publish("topic", [b"x"], Once("spark", 3, sequence))


def documents(harness: Harness) -> None:
    broker = harness.queue.engine.broker
    broker.put_document("schema", "one", b"\x00body")
    broker.put_document("schema", "two", b"")
    broker.put_document("policy", "three", b"3")
    broker.remove_document("schema", "two")
    harness.queue.register_topic("topic")


def options(harness: Harness) -> None:
    kept = TopicOptions(retention_seconds=5, retention_bytes=7, labels={"a": "b"}, extras={"c": "d"})
    harness.queue.register_topic("topic", kept)
    harness.queue.register_topic("gone")
    chosen = SubscriptionOptions(
        lease_seconds=33, exactly_once=True, filter="attributes:x", dead_letter_topic="dead",
        max_delivery_attempts=9, expired_topic="expired", flow_max_messages=4, flow_max_bytes=5, retention_seconds=6,
        retain_acked=True, expiration_seconds=10**6, labels={"l": "m"}, extras={"n": "o"},
    )  # fmt: skip
    harness.queue.register_subscription("sub", "topic", chosen)
    harness.queue.register_subscription("detached", "gone")
    harness.queue.unregister_topic("gone")
    harness.queue.register_subscription("deleted", "topic")
    harness.queue.unregister_subscription("deleted")


def dead_letters(harness: Harness) -> None:
    harness.topic_with("letters", topic="dead")
    harness.topic_with("sub", dead_letter_policy={"dead_letter_topic": "dead", "max_delivery_attempts": 1})
    harness.publish("a", "b")
    harness.queue.nack(harness.take("sub").ack_id)


HISTORIES = [
    leases, attempts, rewritten, lanes, skips, adopted, delays, snapshots, producers, documents, options, dead_letters,
]  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_the_state_is_the_same_after_a_restart(
    durable: Harness, crash: bool, history: Callable[[Harness], None]
) -> None:
    history(durable)
    before = durable.dump()
    durable.reopen(crash=crash)
    assert durable.dump() == before
    durable.reopen(crash=crash)
    assert durable.dump() == before


def play(harness: Harness, queue: MessageQueue) -> list[tuple[str, bytes, int, str]]:
    """Return all deliveries of the next minutes, and set the clock back."""
    seen = []
    queue.engine.broker.draw = count(1).__next__
    for _ in range(30):
        for name in sorted(each.name for each in queue.get_all_subscriptions()):
            seen += [(name, m.data, m.delivery_attempt, m.ack_id) for m in queue.pull(name, 3)]
        harness.clock.advance(7)
    harness.clock._now -= 30 * 7 * 10**9  # a clock should not do this
    return seen


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_deliveries_are_the_same_as_without_the_restart(durable: Harness, history: Callable[[Harness], None]) -> None:
    """Derived indexes are rebuilt correctly: the same deliveries come at the same times with the same receipts."""
    history(durable)
    original = durable.queue
    recovered = durable.reopen(crash=True)
    assert play(durable, recovered) == play(durable, original)
    assert recovered.engine.broker.state.dump() == original.engine.broker.state.dump()


def test_running_leases_continue_after_a_restart(durable: Harness, crash: bool) -> None:
    durable.topic_with("sub", ack_deadline_seconds=60)
    durable.publish("a", "b")
    a, b = durable.queue.pull("sub", 2)
    durable.clock.advance(59)
    queue = durable.reopen(crash=crash)
    assert durable.pull("sub") == []
    queue.ack(a.ack_id)
    durable.clock.advance(1)
    assert durable.pull("sub") == ["b"]
    assert queue.ack_many([b.ack_id]).stale == [b.ack_id]


def test_endless_leases_end_with_the_process(durable: Harness, crash: bool) -> None:
    """The holders of such leases are gone and did not fail, so no attempt is counted.

    Leases with a deadline continue.
    """
    durable.topic_with("sub", message_ordering=True, ack_deadline_seconds=600)
    durable.publish("a", "b", key="k")
    durable.publish("c")
    durable.queue.lease("sub", 1, lease_seconds=float("inf"))
    durable.queue.lease("sub", 1)
    durable.reopen(crash=crash)
    again = durable.take("sub")
    assert (again.data, again.delivery_attempt) == (b"a", 1)
    durable.queue.ack(again.ack_id)
    assert durable.pull("sub") == ["b"]


def test_a_replaced_body_survives(durable: Harness, crash: bool) -> None:
    rewritten(durable)
    durable.reopen(crash=crash)
    durable.clock.advance(30)
    assert durable.pull("sub") == ["replaced", "b"]
    assert durable.pull("other") == ["a", "b"]


def test_a_publish_is_still_known_after_a_restart(durable: Harness, crash: bool) -> None:
    durable.topic_with("sub")
    first = durable.queue.publish("topic", [b"x", b"y"], Once("spark", 3, 1))
    queue = durable.reopen(crash=crash)
    assert queue.publish("topic", [b"x", b"y"], Once("spark", 3, 1)) == first
    with pytest.raises(FailedPreconditionError):
        queue.publish("topic", [b"x"], Once("spark", 2, 9))
    assert durable.drain("sub") == ["x", "y"]


def test_numbers_are_never_reused(durable: Harness, crash: bool) -> None:
    """Ids and receipts of deleted messages must not name new ones."""
    durable.topic_with("sub")
    (old,) = durable.publish("a")
    receipt_of_old = durable.take("sub").ack_id
    durable.queue.unregister_subscription("sub")
    durable.queue.unregister_topic("topic")
    queue = durable.reopen(crash=crash)
    durable.topic_with("sub")
    assert durable.publish("a") != [old]
    durable.take("sub")
    assert queue.ack_many([receipt_of_old]).stale == [receipt_of_old]


def test_a_large_backlog_is_found_again(durable: Harness, crash: bool) -> None:
    durable.topic_with("sub")
    for number in range(50):
        durable.queue.publish("topic", [b"%d" % (100 * number + each) for each in range(100)])
    durable.queue.ack_many([message.ack_id for message in durable.queue.pull("sub", 1000)])
    durable.reopen(crash=crash)
    assert durable.drain("sub") == [str(number) for number in range(1000, 5000)]
