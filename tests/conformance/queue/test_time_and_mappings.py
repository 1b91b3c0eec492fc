"""Expired resources are dropped at the next call of any kind. Messages and options may be plain mappings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock import InvalidArgumentError, ManualClock, MessageQueue, NotFoundError, PubSub
from penstock.engine.views import QueueSubscription
from tests.conformance.queue.harness import Harness

Listing = Callable[[MessageQueue], list[QueueSubscription]]


def _of_the_topic(queue: MessageQueue) -> list[QueueSubscription]:
    return queue.get_subscriptions_for_topic("t")


def test_only_existing_subscriptions_can_be_pulled() -> None:
    """001 ExpirationPolicy: after the time to live the first call drops the subscription, and all calls agree."""
    clock = ManualClock()
    queue = MessageQueue(clock=clock)
    queue.register_topic("t")
    queue.register_subscription("s", "t", expiration_policy={"ttl": 30})
    queue.register_subscription("u", "t", expiration_policy={"ttl": 30})
    clock.advance(29)
    assert queue.subscription_exists("s")
    clock.advance(2)
    assert not queue.subscription_exists("s")
    assert queue.get_subscription("s") is None
    with pytest.raises(NotFoundError):
        queue.pull("u", 1)
    assert not queue.subscription_exists("u")


@pytest.mark.parametrize("listed", [MessageQueue.get_all_subscriptions, _of_the_topic])
def test_a_list_has_no_subscription_whose_time_is_over(listed: Listing) -> None:
    """001 ExpirationPolicy: also if a list is the first call."""
    clock = ManualClock()
    queue = MessageQueue(clock=clock)
    queue.register_topic("t")
    queue.register_subscription("s", "t", expiration_policy={"ttl": 30})
    queue.register_subscription("kept", "t")
    clock.advance(31)
    assert [each.name for each in listed(queue)] == ["kept"]
    assert not queue.subscription_exists("s")


def test_a_name_whose_time_is_over_is_free() -> None:
    """001 ExpirationPolicy: a create may be the first call after the expiration."""
    clock = ManualClock()
    queue = MessageQueue(clock=clock)
    queue.register_topic("t")
    queue.register_subscription("s", "t", expiration_policy={"ttl": 30})
    queue.publish("t", [b"old"])
    clock.advance(31)
    queue.register_subscription("s", "t")
    assert queue.pull("s", 10) == []


def test_the_api_lists_no_subscription_whose_time_is_over() -> None:
    """001 ExpirationPolicy: for a queue of its own, and for one that threads share."""

    async def main(clock: ManualClock, pubsub: PubSub) -> None:
        async with pubsub:
            topic = await pubsub.create_topic("t")
            await topic.create_subscription("kept")
            for look in (pubsub.get_subscriptions, topic.get_subscriptions):
                await topic.create_subscription("unused", expiration_policy={"ttl": 30})
                clock.advance(31)
                assert [each.name for each in await look()] == ["projects/penstock/subscriptions/kept"]
            unused = await topic.create_subscription("unused", expiration_policy={"ttl": 30})
            clock.advance(31)
            with pytest.raises(NotFoundError):
                await unused.get_metadata()

    own, shared = ManualClock(), ManualClock()
    asyncio.run(main(own, PubSub(clock=own)))
    asyncio.run(main(shared, PubSub(queue=MessageQueue(clock=shared))))


def test_a_dead_letter_shows_when_it_was_first_published() -> None:
    """004 BR-016: the publish time of the failed message is kept."""
    clock = ManualClock()
    queue = MessageQueue(clock=clock)
    queue.register_topic("t")
    queue.register_topic("dead")
    queue.register_subscription("letters", "dead")
    queue.register_subscription("s", "t", dead_letter_policy={"dead_letter_topic": "dead", "max_delivery_attempts": 5})
    queue.publish("t", [b"a"])
    for _ in range(5):
        (failed,) = queue.pull("s", 1)
        assert failed.original_publish_time == failed.publish_time
        clock.advance(5)
        queue.nack(failed.ack_id)
    (letter,) = queue.pull("letters", 1)
    assert letter.publish_time == letter.original_publish_time == failed.publish_time
    assert letter.publish_time_ns == failed.publish_time_ns


def test_retention_and_expiration_hold_in_the_first_call_of_the_api() -> None:
    """004 message retention, 001 ExpirationPolicy: the clock was moved, and no call was made meanwhile."""

    async def main() -> None:
        clock = ManualClock()
        async with PubSub(clock=clock) as pubsub:
            topic = await pubsub.create_topic("t")
            kept = await topic.create_subscription("kept", message_retention_duration=600)
            unused = await topic.create_subscription("unused", expiration_policy={"ttl": 120})
            await topic.publish_message(b"old")
            clock.advance(601)
            assert await kept.pull() == []
            assert not await unused.exists()

    asyncio.run(main())


def test_retention_holds_in_the_first_look_at_a_store_that_was_closed(durable: Harness, crash: bool) -> None:
    """004 message retention: time passed while the store was closed, and this is the first call."""
    queue = durable.queue
    queue.register_topic("t")
    queue.register_subscription("s", "t", message_retention_duration=600)
    queue.publish("t", [b"old"])
    durable.clock.advance(601)
    assert durable.reopen(crash=crash).backlog("s").messages == 0


def test_topics_and_messages_may_be_plain_mappings() -> None:
    """004 AC-003: like options of subscriptions. An id of the caller is ignored."""
    queue = MessageQueue(clock=ManualClock())
    queue.register_topic("t", {"labels": {"team": "a"}, "message_retention_duration": 600})
    queue.register_subscription("s", "t", {"ack_deadline_seconds": 20})
    message = {"id": "msg-1", "data": b"Hello", "attributes": {"a": "1"}, "ordering_key": None, "delivery_attempt": 1}
    (given,) = queue.publish("t", [message])
    (pulled,) = queue.pull("s", 10)
    assert (pulled.id, pulled.data, pulled.attributes) == (given, b"Hello", {"a": "1"})
    topic = queue.get_topic("t")
    assert topic is not None
    assert (topic.options.labels, topic.options.retention_seconds) == ({"team": "a"}, 600)


@pytest.mark.parametrize("message", [{"attributes": {}}, {"data": b"", "body": b""}, {"data": "text"}])
def test_a_mapping_that_is_no_message_is_refused(message: dict[str, object]) -> None:
    """004 BR-017."""
    queue = MessageQueue()
    queue.register_topic("t")
    with pytest.raises(InvalidArgumentError):
        queue.publish("t", [message])
    with pytest.raises(InvalidArgumentError, match="Unknown topic option: colour"):
        queue.register_topic("other", {"colour": "red"})


@pytest.mark.parametrize("options", [5, "colour", ["colour"]])
def test_options_that_are_no_mapping_are_refused(options: Any) -> None:
    """004 BR-017: with a sentence, like all invalid input."""
    queue = MessageQueue()
    with pytest.raises(InvalidArgumentError, match="Options must be given by name"):
        queue.register_topic("t", options)
    queue.register_topic("t")
    with pytest.raises(InvalidArgumentError, match="Options must be given by name"):
        queue.register_subscription("s", "t", options)


def test_a_lease_shows_its_deadline_its_extensions_and_its_ack_id() -> None:
    """004 MessageLease."""
    clock = ManualClock()
    queue = MessageQueue(clock=clock)
    queue.register_topic("t")
    queue.register_subscription("s", "t", ack_deadline_seconds=20)
    queue.publish("t", [b"a", b"b"])
    (first,) = queue.pull("s", 1)
    queue.modify_ack_deadline(first.ack_id, 60)
    queue.modify_ack_deadline(first.ack_id, 90)
    (lease,) = queue.get_leases("s")
    assert (lease.message, lease.ack_id, lease.subscription) == (first, first.ack_id, "s")
    assert lease.deadline is not None
    assert (lease.deadline.timestamp() * 10**9 - clock.now(), lease.deadline_extensions) == (90 * 10**9, 2)
    queue.ack(first.ack_id)
    assert queue.get_leases("s") == []


def test_metadata_shows_options_by_the_names_of_the_caller() -> None:
    """004 SubscriptionMetadata: a caller can pass these options to another call."""
    queue = MessageQueue()
    queue.register_topic("t")
    given = {"ack_deadline_seconds": 20, "message_ordering": True, "retry_policy": {"minimum_backoff": 1}}
    queue.register_subscription("s", "t", given)
    shown = queue.get_subscription("s")
    assert shown is not None
    assert (shown.options.ack_deadline_seconds, shown.options["message_ordering"]) == (20, True)
    queue.register_subscription("again", "t", shown.options)
    again = queue.get_subscription("again")
    assert again is not None
    assert again.options == shown.options
