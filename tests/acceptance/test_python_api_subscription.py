"""Tests of Subscription, clause by clause: receiving, flow control, order, closing and dead letters (specification
001).
"""

from __future__ import annotations

import asyncio

import pytest

from penstock import (
    FailedPreconditionError,
    InvalidArgumentError,
    Message,
    NotFoundError,
    Topic,
)
from tests.acceptance.python_api import Harness, ack, bodies, story


async def publish(topic: Topic, *texts: str, key: str | None = None) -> None:
    for text in texts:
        await topic.publish_message(text.encode(), ordering_key=key)


@story()
async def test_a_created_subscription_is_known(harness: Harness) -> None:
    """001 BR-001: the subscription exists, is registered with its topic, and its metadata is stored."""
    topic = await harness.topic()
    subscription = topic.subscription("my-sub")
    assert subscription.metadata is None
    created = await subscription.create(labels={"team": "billing"}, ack_deadline_seconds=30)
    assert created is subscription
    assert await subscription.exists()
    assert subscription.name == "projects/penstock/subscriptions/my-sub"
    assert [each.name for each in await topic.get_subscriptions()] == [subscription.name]
    metadata = await harness.pubsub.subscription("my-sub").get_metadata()
    assert metadata == subscription.metadata
    assert (metadata.topic, metadata.labels, metadata.ack_deadline_seconds) == (topic.name, {"team": "billing"}, 30)
    assert subscription.detached is False


@story()
async def test_messages_become_events(harness: Harness) -> None:
    """001 BR-002, AC-001: an open subscription emits each message with data, attributes, id and publish time."""
    topic = await harness.topic()
    subscription = topic.subscription("my-sub")
    await subscription.create()
    assert not subscription.is_open
    messages = harness.listen(subscription, ack)
    assert subscription.is_open
    message_id = await topic.publish_message(b"Hello", {"a": "b"})
    await harness.until(lambda: messages)
    assert bodies(messages) == ["Hello"]
    assert messages[0].id == message_id
    assert messages[0].attributes == {"a": "b"}
    await subscription.close()
    assert not subscription.is_open


@story()
async def test_no_more_than_max_messages_are_in_flight(harness: Harness) -> None:
    """001 BR-002, BR-003, AC-002: with two messages in flight no third is delivered, until one of the two is acked or
    nacked.
    """
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub", flow_control={"max_messages": 2})
    await subscription.create()
    received = harness.listen(subscription)
    await publish(topic, "0", "1", "2", "3", "4")
    await harness.until(lambda: len(received) == 2)
    await harness.quiet()
    assert len(received) == 2
    for message in received[:2]:
        message.ack()
    await harness.until(lambda: len(received) == 4)
    received[2].nack()
    await harness.until(lambda: len(received) == 5)
    await harness.quiet()
    assert len(received) == 5
    assert bodies(received)[4] in ("2", "4")


@story()
async def test_no_more_than_max_bytes_are_in_flight(harness: Harness) -> None:
    """001 BR-004: at 100 bytes in flight no message is delivered, until acks reduce the bytes."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_bytes": 100})
    received = harness.listen(subscription)
    await publish(topic, *["x" * 50] * 4)
    await harness.until(lambda: len(received) == 2)
    await harness.quiet()
    assert len(received) == 2
    received[0].ack()
    await harness.until(lambda: len(received) == 3)
    received[1].nack()
    await harness.until(lambda: len(received) == 4)
    await harness.quiet()
    assert len(received) == 4


@story("memory", "shared sqlite")
async def test_a_message_larger_than_the_limit_is_delivered(harness: Harness) -> None:
    """001 BR-004: the limit holds back later messages, but a large message is still delivered."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_bytes": 10})
    received = harness.listen(subscription)
    await publish(topic, "x" * 50, "y" * 50)
    await harness.until(lambda: received)
    await harness.quiet()
    assert len(received) == 1
    received[0].ack()
    await harness.until(lambda: len(received) == 2)


@story("memory", "sqlite")
async def test_excess_messages_may_be_allowed(harness: Harness) -> None:
    """001 BR-003: with allow_excess_messages a pull may return more than the remaining capacity."""
    topic = await harness.topic()
    flow_control = {"max_messages": 3, "allow_excess_messages": True}
    subscription = await topic.create_subscription("my-sub", flow_control=flow_control)
    await publish(topic, "0", "1")
    received = harness.listen(subscription)
    await harness.until(lambda: len(received) == 2)
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(2, 10)])
    await harness.until(lambda: len(received) == 5)
    await harness.quiet()
    assert len(received) == 5


@story()
async def test_flow_control_does_not_count_expired_messages(harness: Harness) -> None:
    """001 BR-003, BR-005: unanswered messages are redelivered although the limit was reached."""
    topic = await harness.topic()
    options = {"flow_control": {"max_messages": 1}, "ack_deadline_seconds": 1}
    subscription = await topic.create_subscription("my-sub", options)
    received = harness.listen(subscription)
    await publish(topic, "a")
    await harness.until(lambda: received)
    await harness.advance(1.1)
    await harness.until(lambda: len(received) == 2)


@story()
async def test_an_unanswered_message_is_redelivered(harness: Harness) -> None:
    """001 BR-005, AC-003: the message comes again after the deadline, and modify_ack_deadline moves the deadline."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub", ack_deadline_seconds=1)
    await subscription.create()
    received = harness.listen(subscription)
    await publish(topic, "test")
    await harness.until(lambda: received)
    await harness.quiet()
    assert len(received) == 1
    await harness.advance(1.1)
    await harness.until(lambda: len(received) == 2)
    received[1].modify_ack_deadline(10)
    await harness.advance(5)
    assert len(received) == 2


@story()
async def test_messages_of_an_ordering_key_are_delivered_in_order(harness: Harness) -> None:
    """001 BR-006, AC-004: in publish order, each after the ack of the one before."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub", enable_message_ordering=True)
    await subscription.create()
    received = harness.listen(subscription)
    await publish(topic, "First", "Second", "Third", key="user-123")
    await publish(topic, "Other", key="user-456")
    await harness.until(lambda: len(received) == 2)
    await harness.quiet()
    assert bodies(received) == ["First", "Other"]
    received[0].nack()
    await harness.until(lambda: len(received) == 3)
    for place in (2, 3, 4):
        await harness.until(lambda place=place: len(received) == place + 1)  # type: ignore[misc]
        received[place].ack()
    assert bodies(received) == ["First", "Other", "First", "Second", "Third"]


@story()
async def test_the_deletion_of_the_topic_is_an_error_event(harness: Harness) -> None:
    """001 BR-007, AC-005: the error names the deletion, and the subscription stays open."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub")
    await subscription.create()
    harness.hear(subscription)
    subscription.open()
    await topic.delete()
    await harness.until(lambda: harness.errors)
    await harness.advance(20)
    assert [type(error) for error in harness.errors] == [FailedPreconditionError]
    assert "detached" in str(harness.errors[0])
    assert subscription.is_open
    assert subscription.detached
    assert subscription.topic is not None
    assert subscription.topic.name == topic.name


@story()
async def test_a_full_stream_notices_the_deletion_too(harness: Harness) -> None:
    """001 BR-007: also for a stream that waits for acks, and so does not call the queue."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_messages": 1})
    received = harness.listen(subscription)
    await publish(topic, "a")
    await harness.until(lambda: received)
    await topic.delete()
    await harness.advance(1)
    await harness.until(lambda: harness.errors)


@story()
async def test_the_stream_continues_when_the_subscription_is_created_again(harness: Harness) -> None:
    """001 BR-007: after another client has deleted and created the subscription, it delivers again."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received = harness.listen(subscription, ack)
    other = harness.pubsub.subscription("my-sub")
    await other.delete()
    await harness.until(lambda: harness.errors)
    assert isinstance(harness.errors[0], NotFoundError)
    assert str(harness.errors[0]) == "Subscription not found: projects/penstock/subscriptions/my-sub"
    assert harness.errors[0].code == 5
    await topic.create_subscription("my-sub")
    await publish(topic, "back")
    await harness.advance(5)
    await harness.until(lambda: received)
    assert len(harness.errors) == 1


@story("memory", "shared sqlite")
async def test_even_a_bug_below_does_not_end_the_stream(harness: Harness) -> None:
    """001 BR-007: every exception becomes an error event, and the stream tries again."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    queue, failures = harness.pubsub.session.queue, [RuntimeError("a bug"), OSError("and another")]
    pull = queue.pull

    async def failing(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop(0)
        return await pull(*arguments, **options)  # type: ignore[arg-type]

    queue.pull = failing  # type: ignore[method-assign, assignment]
    received = harness.listen(subscription, ack)
    await publish(topic, "a")
    await harness.advance(1)
    await harness.until(lambda: received)
    assert [str(error) for error in harness.errors] == ["a bug", "and another"]


@story()
async def test_a_message_is_nacked_when_its_listener_raises(harness: Harness) -> None:
    """001 BR-007: the message is nacked, the error event has the exception, and the stream continues."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")

    async def listener(message: Message) -> None:
        if message.delivery_attempt == 1:
            raise ValueError(message.data.decode())
        message.ack()

    received = harness.listen(subscription, listener)
    await publish(topic, "a", "b")
    await harness.until(lambda: len(received) == 4)
    await harness.advance(30)
    assert len(received) == 4
    assert sorted(str(error) for error in harness.errors) == ["a", "b"]
    assert all(isinstance(error, ValueError) for error in harness.errors)


@story()
async def test_closing_waits_for_messages_in_flight(harness: Harness) -> None:
    """001 BR-008: no message is delivered, closing waits for messages in flight, emits close and clears is_open."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    closed: list[bool] = []
    subscription.on("close", lambda: closed.append(subscription.is_open))
    received = harness.listen(subscription)
    await publish(topic, "a", "b")
    await harness.until(lambda: len(received) == 2)
    closing = asyncio.create_task(subscription.close())
    await harness.quiet()
    await publish(topic, "later")
    received[0].ack()
    await harness.quiet()
    assert not closing.done()
    assert closed == []
    received[1].ack()
    await closing
    assert closed == [False]
    assert not subscription.is_open
    assert bodies(await subscription.pull(10)) == ["later"]
    assert len(received) == 2


@story()
async def test_a_closed_subscription_receives_nothing(harness: Harness) -> None:
    """001 BR-008, AC-006: messages that are published after close stay in the queue, until the subscription is opened
    again.
    """
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub")
    await subscription.create()
    received = harness.listen(subscription, ack)
    await publish(topic, "test")
    await harness.until(lambda: received)
    await subscription.close()
    await publish(topic, "test2")
    await harness.quiet()
    assert len(received) == 1
    subscription.open()
    await harness.until(lambda: len(received) == 2)


@story()
async def test_deleting_closes_first(harness: Harness) -> None:
    """001 BR-009: the stream ends, the subscription is deleted, and later calls raise NotFoundError."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    events: list[str] = []
    subscription.on("close", lambda: events.append("close"))
    received = harness.listen(subscription, ack)
    await publish(topic, "a")
    await harness.until(lambda: received)
    await subscription.delete()
    assert events == ["close"]
    assert not subscription.is_open
    gone = r"^Subscription not found: projects/penstock/subscriptions/my-sub$"
    with pytest.raises(NotFoundError, match=gone) as error:
        subscription.open()
    assert error.value.code == 5
    operations = [
        subscription.delete,
        subscription.get,
        subscription.get_metadata,
        lambda: subscription.set_metadata(labels={}),
        lambda: subscription.modify_push_config({}),
        subscription.pull,
        lambda: subscription.create_snapshot("snap"),
        lambda: subscription.seek("snap"),
        lambda: anext(aiter(subscription)),
    ]
    for operation in operations:
        with pytest.raises(NotFoundError, match=gone):
            await operation()


@story()
async def test_a_message_is_dead_lettered_after_its_last_attempt(harness: Harness) -> None:
    """001 BR-010: after max_delivery_attempts it is in the dead letter topic and gone from the subscription."""
    topic = await harness.topic()
    dead = await harness.topic("dead")
    letters = harness.listen(await dead.create_subscription("letters"), ack)
    policy = {"dead_letter_topic": "dead", "max_delivery_attempts": 3}
    subscription = await topic.create_subscription("my-sub", dead_letter_policy=policy)
    received = harness.listen(subscription, lambda message: message.nack())
    await topic.publish_message(b"poison", {"kind": "bad"})
    await harness.until(lambda: letters)
    assert [message.delivery_attempt for message in received] == [1, 2, 3]
    assert letters[0].data == b"poison"
    assert letters[0].attributes["kind"] == "bad"
    await harness.advance(20)
    assert len(received) == 3
    assert len(letters) == 1


@story()
async def test_deadlines_that_pass_count_as_failures_too(harness: Harness) -> None:
    """001 BR-010: unanswered messages are dead-lettered, too, and readers of the dead letters are woken."""
    topic = await harness.topic()
    dead = await harness.topic("dead")
    letters = harness.listen(await dead.create_subscription("letters"), ack)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 2}
    subscription = await topic.create_subscription("my-sub", dead_letter_policy=policy, ack_deadline_seconds=1)
    received = harness.listen(subscription)
    await publish(topic, "poison")
    await harness.advance(1.1)
    await harness.until(lambda: len(received) == 2)
    await harness.advance(1.1)
    await harness.until(lambda: letters)
    assert len(received) == 2


@story()
async def test_options_set_later_take_effect(harness: Harness) -> None:
    """001 AC-007: new flow control and deadlines apply to an open subscription from its next pull on."""
    topic = await harness.topic()
    subscription = harness.pubsub.subscription("my-sub", flow_control={"max_messages": 1})
    await subscription.create()
    received = harness.listen(subscription)
    await publish(topic, *"abcde")
    await harness.until(lambda: len(received) == 1)
    subscription.set_options(flow_control={"max_messages": 3}, ack_deadline_seconds=30)
    await harness.until(lambda: len(received) == 3)
    await harness.advance(15)
    assert len(received) == 4
    assert bodies(received)[3] == "a"
    subscription.set_options({"flow_control": {"max_messages": 500}})
    await harness.until(lambda: len(received) == 6)
    await harness.advance(20)
    assert len(received) > 6


@story()
async def test_exists_tells_whether_a_subscription_exists(harness: Harness) -> None:
    """001 AC-008: False, then True after create, then False after delete."""
    await harness.topic()
    subscription = harness.pubsub.subscription("my-sub")
    assert await subscription.exists() is False
    await subscription.create()
    assert await subscription.exists() is True
    await subscription.delete()
    assert await subscription.exists() is False


@story()
async def test_every_subscription_of_a_topic_gets_its_copy(harness: Harness) -> None:
    """001 AC-009: both receive the message, and each acks its own copy."""
    topic = harness.pubsub.topic("my-topic")
    await topic.create()
    first, second = topic.subscription("sub-1"), topic.subscription("sub-2")
    await first.create()
    await second.create()
    received = [harness.listen(subscription, ack) for subscription in (first, second)]
    await publish(topic, "test")
    await harness.until(lambda: all(received))
    assert [bodies(messages) for messages in received] == [["test"], ["test"]]
    await harness.advance(30)
    assert [len(messages) for messages in received] == [1, 1]


@story()
async def test_retries_wait_for_their_backoff(harness: Harness) -> None:
    """A retry policy delays nacked messages: 10 s, then 20 s."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", retry_policy={"minimum_backoff": {"seconds": 10}})
    received = harness.listen(subscription, lambda message: message.nack())
    await publish(topic, "a")
    await harness.until(lambda: received)
    await harness.advance(9)
    assert len(received) == 1
    await harness.advance(1.5)
    await harness.until(lambda: len(received) == 2)
    await harness.advance(19)
    assert len(received) == 2
    await harness.advance(2)
    await harness.until(lambda: len(received) == 3)


@story("memory", "sqlite")
async def test_a_subscription_needs_a_topic(harness: Harness) -> None:
    """Without a topic name, the only topic of the project is used. With no topic or several, a name is required."""
    subscription = harness.pubsub.subscription("my-sub")
    with pytest.raises(InvalidArgumentError, match="there are 0"):
        await subscription.create()
    with pytest.raises(NotFoundError, match="Topic not found: projects/penstock/topics/nowhere"):
        await subscription.create(topic="nowhere")
    await harness.topic("one")
    await harness.topic("two")
    with pytest.raises(InvalidArgumentError, match="there are 2"):
        await subscription.create()
    await subscription.create(topic="two")
    assert subscription.topic is not None
    assert subscription.topic.name == "projects/penstock/topics/two"


@story("memory")
async def test_a_subscription_is_an_event_emitter(harness: Harness) -> None:
    subscription = harness.pubsub.subscription("my-sub")
    heard: list[object] = []
    assert subscription.emit("debug", "unheard") is False

    @subscription.once("debug")
    def first(text: str) -> None:
        heard.append(text)

    subscription.on("debug", heard.append)
    assert subscription.listeners("debug") == [first, heard.append]
    assert subscription.emit("debug", "a") is True
    subscription.emit("debug", "b")
    assert heard == ["a", "a", "b"]
    subscription.remove_listener("debug", heard.append)
    subscription.off("debug", first)
    assert subscription.listeners("debug") == []
    with pytest.raises(InvalidArgumentError, match="Unknown event: messages"):
        subscription.on("messages", ack)
    with pytest.raises(InvalidArgumentError, match="A listener must be callable"):
        subscription.on("message", "listener")  # type: ignore[call-overload]
