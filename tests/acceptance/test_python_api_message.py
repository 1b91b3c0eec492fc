"""Tests of Message, clause by clause: received messages and their answers (specification 000)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from penstock import AckResponse, InvalidArgumentError, Message, Subscription
from tests.acceptance.python_api import Harness, ack, bodies, story


async def one(harness: Harness, subscription: Subscription, **message: object) -> Message:
    """Publish a message, receive it, and leave it unanswered."""
    received = harness.listen(subscription)
    topic = subscription.topic
    assert topic is not None
    await topic.publish_message(**message)
    await harness.until(lambda: received)
    return received[0]


async def redelivered(harness: Harness, subscription: Subscription, answer: str) -> list[Message]:
    """Return all deliveries of a message. The first is answered with `answer`, and the second is acked."""

    def listener(message: Message) -> None:
        message.nack() if message.delivery_attempt == 1 and answer == "nack" else message.ack()

    received = harness.listen(subscription, listener)
    topic = subscription.topic
    assert topic is not None
    await topic.publish_message(b"test")
    await harness.until(lambda: len(received) == 2)
    return received


@story()
async def test_a_received_message_has_every_property(harness: Harness) -> None:
    """000 BR-001, AC-001: id, data, attributes and publish time. The data is bytes, and the time a datetime."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub")
    await subscription.create()
    message = await one(harness, subscription, data=b"Hello World", attributes={"key": "value"})
    assert isinstance(message.id, str)
    assert message.id
    assert type(message.data) is bytes
    assert message.data.decode() == "Hello World"
    assert message.attributes == {"key": "value"}
    assert isinstance(message.publish_time, datetime)
    assert message.publish_time.tzinfo is UTC
    assert message.publish_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert message.publish_time_ns == 1_700_000_000 * 10**9
    assert message.received == 1_700_000_000
    assert message.subscription is subscription
    assert subscription.topic is not None
    assert subscription.topic.name == topic.name


@story()
async def test_an_ack_removes_the_message(harness: Harness) -> None:
    """000 BR-002, AC-002: an acked message does not come again, not even after its deadline."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub", ack_deadline=1)
    await subscription.create()
    received = harness.listen(subscription, ack)
    await topic.publish_message(b"test")
    await harness.until(lambda: received)
    await harness.advance(1.2)
    assert len(received) == 1
    await topic.publish_message(b"later")
    await harness.until(lambda: len(received) == 2)
    assert bodies(received) == ["test", "later"]


@story()
async def test_an_ack_makes_room_and_a_second_one_changes_nothing(harness: Harness) -> None:
    """000 BR-002, AC-008: flow control counts a message once, however often it is acked."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_messages": 1})
    received = harness.listen(subscription)
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(3)])
    await harness.until(lambda: received)
    for _ in range(3):
        received[0].ack()
    await harness.until(lambda: len(received) == 2)
    await harness.quiet()
    assert len(received) == 2
    received[1].ack()
    await harness.until(lambda: len(received) == 3)
    received[2].ack()
    assert harness.errors == []


@story()
async def test_a_nacked_message_is_redelivered_at_once(harness: Harness) -> None:
    """000 BR-003, AC-003: a nacked message is delivered again at once, and its attempt is counted."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_messages": 1})
    received = await redelivered(harness, subscription, "nack")
    assert [message.delivery_attempt for message in received] == [1, 2]
    assert received[0].id == received[1].id
    assert received[0].ack_id != received[1].ack_id


@story()
async def test_a_nack_after_an_ack_changes_nothing(harness: Harness) -> None:
    """000 BR-003: the first answer counts."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")

    def ack_then_nack(message: Message) -> None:
        message.ack()
        message.nack()

    received = harness.listen(subscription, ack_then_nack)
    await topic.publish_message(b"test")
    await harness.until(lambda: received)
    await harness.advance(30)
    assert len(received) == 1


@story()
async def test_a_deadline_can_be_modified_repeatedly(harness: Harness) -> None:
    """000 BR-004, AC-004: the message is not redelivered before the new deadline, however often it is extended."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline=1)
    received = harness.listen(subscription)
    await topic.publish_message(b"test")
    await harness.until(lambda: received)
    received[0].modify_ack_deadline(5)
    await harness.advance(1.5)
    assert len(received) == 1
    received[0].modify_ack_deadline(5)
    await harness.advance(4.5)
    assert len(received) == 1
    received[0].ack()
    await harness.advance(10)
    assert len(received) == 1


@story()
async def test_a_deadline_of_zero_is_a_nack(harness: Harness) -> None:
    """000 BR-004: 0 seconds returns the message at once. A changed deadline ends like any other."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received = harness.listen(subscription)
    await topic.publish_message(b"test")
    await harness.until(lambda: received)
    received[0].modify_ack_deadline(0)
    await harness.until(lambda: len(received) == 2)
    received[1].modify_ack_deadline(2)
    await harness.advance(3)
    await harness.until(lambda: len(received) == 3)
    assert [message.delivery_attempt for message in received] == [1, 2, 3]


@story()
async def test_an_unanswered_message_is_redelivered_after_its_deadline(harness: Harness) -> None:
    """000 BR-005: after the deadline the message is delivered again, and its attempt is counted."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline=1)
    received = harness.listen(subscription)
    await topic.publish_message(b"test")
    await harness.until(lambda: received)
    await harness.advance(1.1)
    await harness.until(lambda: len(received) == 2)
    assert [message.delivery_attempt for message in received] == [1, 2]


@story()
async def test_the_length_is_that_of_the_data(harness: Harness) -> None:
    """000 BR-006, AC-005: length is the size of data in bytes and cannot be set."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    message = await one(harness, subscription, data=b"Hello World")
    assert message.length == len(message.data) == 11
    with pytest.raises(AttributeError):
        message.length = 3  # type: ignore[misc]


@story()
async def test_data_may_be_empty(harness: Harness) -> None:
    """000 BR-007, AC-006: an empty message has length 0 and is acked and nacked like any other."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received = harness.listen(subscription)
    await topic.publish_message(data=b"")
    await harness.until(lambda: received)
    assert (received[0].data, received[0].length) == (b"", 0)
    received[0].nack()
    await harness.until(lambda: len(received) == 2)
    received[1].ack()
    await harness.advance(30)
    assert len(received) == 2


@story()
async def test_attributes_are_a_copy(harness: Harness) -> None:
    """000 BR-008: changes to the attributes do not change the message.

    The publisher's dictionary is a separate copy.
    """
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    attributes = {"key": "value", "unit": "°C"}
    received = harness.listen(subscription)
    publishing = topic.publish(b"test", attributes)
    attributes["key"] = "changed after the call"
    await publishing
    await harness.until(lambda: received)
    received[0].attributes["key"] = "changed"
    del received[0].attributes["unit"]
    assert received[0].attributes == {"key": "value", "unit": "°C"}
    received[0].nack()
    await harness.until(lambda: len(received) == 2)
    assert received[1].attributes == {"key": "value", "unit": "°C"}


@story()
async def test_the_ordering_key_is_none_or_the_published_one(harness: Harness) -> None:
    """000 BR-009, AC-007: a message has the key that it was published with, or None."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received = harness.listen(subscription, ack)
    await topic.publish_message(b"test", ordering_key="user-123")
    await topic.publish_message(b"test")
    await harness.until(lambda: len(received) == 2)
    assert [message.ordering_key for message in received] == ["user-123", None]


@story()
async def test_an_ack_after_a_nack_changes_nothing(harness: Harness) -> None:
    """000 AC-009: the message comes again although it is acked after the nack."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")

    def nack_then_ack(message: Message) -> None:
        message.nack() if message.delivery_attempt < 3 else message.ack()
        message.ack()

    received = harness.listen(subscription, nack_then_ack)
    await topic.publish_message(b"test")
    await harness.until(lambda: len(received) == 3)
    assert harness.errors == []


@story()
async def test_attempts_are_counted_from_one(harness: Harness) -> None:
    """000 AC-010: after two nacks, the third delivery has attempt 3."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")

    def listener(message: Message) -> None:
        message.nack() if message.delivery_attempt < 3 else message.ack()

    received = harness.listen(subscription, listener)
    await topic.publish_message(b"test")
    await harness.until(lambda: len(received) == 3)
    await harness.advance(30)
    assert [message.delivery_attempt for message in received] == [1, 2, 3]


@story()
async def test_ack_with_response_returns_success(harness: Harness) -> None:
    """000 BR-010, AC-011: with exactly-once delivery SUCCESS means that the message does not come again."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub", enable_exactly_once_delivery=True)
    await subscription.create()
    responses: list[AckResponse] = []

    async def listener(message: Message) -> None:
        responses.append(await message.ack_with_response())

    received = harness.listen(subscription, listener)
    await topic.publish_message(b"test")
    await harness.until(lambda: responses)
    await harness.advance(30)
    assert responses == [AckResponse.SUCCESS] == [0]
    assert len(received) == 1


@story()
async def test_nack_with_response_returns_success(harness: Harness) -> None:
    """000 BR-010, AC-012: SUCCESS, and the message is delivered again."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", enable_exactly_once_delivery=True)
    responses: list[AckResponse] = []

    async def listener(message: Message) -> None:
        first = message.delivery_attempt == 1
        responses.append(await (message.nack_with_response() if first else message.ack_with_response()))

    received = harness.listen(subscription, listener)
    await topic.publish_message(b"test")
    await harness.until(lambda: len(responses) == 2)
    assert responses == [0, 0]
    assert len(received) == 2


@story()
async def test_a_second_ack_returns_invalid(harness: Harness) -> None:
    """000 BR-010, AC-013: with exactly-once delivery the second response is INVALID, whatever the first answer was."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", enable_exactly_once_delivery=True)
    received = harness.listen(subscription)
    await asyncio.gather(topic.publish_message(b"a"), topic.publish_message(b"b"))
    await harness.until(lambda: len(received) == 2)
    assert await received[0].ack_with_response() == AckResponse.SUCCESS
    assert await received[0].ack_with_response() == AckResponse.INVALID == 3
    received[1].ack()
    assert await received[1].ack_with_response() == AckResponse.INVALID
    assert await received[1].nack_with_response() == AckResponse.INVALID


@story()
async def test_an_ack_after_the_deadline_returns_invalid(harness: Harness) -> None:
    """000 BR-010: a code other than SUCCESS says that the message may be delivered again."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline=1, enable_exactly_once_delivery=True)
    received = harness.listen(subscription)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await harness.advance(2)
    assert await received[0].ack_with_response() == AckResponse.INVALID
    await harness.until(lambda: len(received) >= 2)
    assert await received[-1].ack_with_response() == AckResponse.SUCCESS


@story()
async def test_a_response_reports_a_deleted_subscription(harness: Harness) -> None:
    """000 BR-010: the response is FAILED_PRECONDITION when the topic or the subscription was deleted."""
    topic = await harness.topic()
    for name in ("first", "second"):
        await topic.create_subscription(name, enable_exactly_once_delivery=True)
    await topic.publish_message(b"a")
    (one_message,) = await harness.pubsub.subscription("first").pull(1)
    (other_message,) = await harness.pubsub.subscription("second").pull(1)
    await harness.pubsub.subscription("first").delete()
    await topic.delete()
    assert await one_message.ack_with_response() == AckResponse.FAILED_PRECONDITION
    assert await other_message.nack_with_response() == AckResponse.FAILED_PRECONDITION


@story()
async def test_a_response_when_the_store_is_closed_is_no_success(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await topic.publish_message(b"a")
    (message,) = await subscription.pull(1)
    queue = harness.pubsub.session.queue
    await (queue.close() if not harness.kind.startswith("shared") else asyncio.to_thread(harness._shared.close))  # type: ignore[union-attr]
    assert await message.ack_with_response() == AckResponse.OTHER == 13


@story()
async def test_without_exactly_once_every_response_is_success(harness: Harness) -> None:
    """000 AC-014: also for the second ack, and for one after the deadline."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline=1)
    received = harness.listen(subscription)
    await topic.publish_message(b"test")
    await harness.until(lambda: received)
    await harness.advance(2)
    await harness.until(lambda: len(received) >= 2)
    assert await received[0].ack_with_response() == AckResponse.SUCCESS
    assert await received[-1].ack_with_response() == AckResponse.SUCCESS
    assert await received[-1].ack_with_response() == AckResponse.SUCCESS


@story()
async def test_a_message_of_more_than_ten_megabytes_is_refused(harness: Harness) -> None:
    """000 BR-011: InvalidArgumentError has code 3, the message is not stored, and the next message is."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    with pytest.raises(InvalidArgumentError, match=r"^Message size exceeds maximum of 10MB$") as refused:
        await topic.publish_message(b"x" * (10 * 1024 * 1024 + 1))
    assert refused.value.code == 3
    await topic.publish_message(b"fits")
    assert bodies(await subscription.pull(10)) == ["fits"]


@story("memory")
async def test_a_message_cannot_be_changed(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    message = await one(harness, subscription, data=b"a")
    names = ["id", "ack_id", "data", "attributes", "publish_time", "received", "ordering_key", "delivery_attempt"]
    for name in [*names, "something_new"]:
        with pytest.raises(AttributeError):
            setattr(message, name, b"changed")


@story("memory", "sqlite")
async def test_answers_may_come_from_threads(harness: Harness) -> None:
    """A synchronous library that is called in a thread acks from that thread, while the loop continues."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")

    answered: list[Message] = []

    async def listener(message: Message) -> None:
        await asyncio.to_thread(message.nack if message.delivery_attempt == 1 else message.ack)
        answered.append(message)

    received = harness.listen(subscription, listener)
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(20)])
    await harness.until(lambda: len(answered) == 40)
    await harness.advance(30)
    assert len(received) == 40
    assert harness.errors == []


@story("memory")
async def test_the_time_of_publishing_keeps_its_nanoseconds(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    harness.clock.advance(0.123456789)
    message = await one(harness, subscription, data=b"a")
    assert message.publish_time_ns % 10**9 == 123456789
    assert message.publish_time.microsecond == 123456
    assert message.publish_time.utcoffset() == timedelta(0)
