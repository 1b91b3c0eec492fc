"""Topics: creating, describing, and publishing in batches, with limits and in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock import (
    AlreadyExistsError,
    Draft,
    FailedPreconditionError,
    NotFoundError,
    PubSub,
    ResourceExhaustedError,
    UnavailableError,
)
from penstock.broker.publishing import Appended
from tests.acceptance.python_api import Harness, bodies, story


class Trouble:
    """A switch that makes the queue refuse publishes, and a count of batches."""

    def __init__(self, pubsub: PubSub) -> None:
        self.batches: list[int] = []
        self.on = False
        self.gate: asyncio.Event | None = None
        self._publish = pubsub.session.queue.publish
        pubsub.session.queue.publish = self.publish  # type: ignore[method-assign]

    async def publish(self, topic_name: str, drafts: Sequence[Draft], **more: Any) -> Appended:
        self.batches.append(len(drafts))
        if self.gate is not None:
            await self.gate.wait()
        if self.on:
            raise UnavailableError("trouble")
        return await self._publish(topic_name, drafts, **more)


@story()
async def test_a_topic_is_created_and_deleted(harness: Harness) -> None:
    topic = harness.pubsub.topic("orders")
    assert topic.name == "projects/penstock/topics/orders"
    assert await topic.exists() is False
    with pytest.raises(NotFoundError, match=r"^Topic not found: projects/penstock/topics/orders$"):
        await topic.get()
    await topic.get(auto_create=True)
    assert await topic.exists() is True
    with pytest.raises(AlreadyExistsError):
        await topic.create()
    assert [each.name for each in await harness.pubsub.get_topics()] == [topic.name]
    await topic.delete()
    assert await topic.exists() is False
    for operation in (topic.delete, topic.get_metadata, topic.publish_message, topic.get_subscriptions):
        with pytest.raises(NotFoundError, match="Topic not found: projects/penstock/topics/orders"):
            await operation()


@story()
async def test_metadata_is_kept(harness: Harness) -> None:
    topic = await harness.pubsub.create_topic("orders", labels={"team": "a"}, message_retention_duration=3600)
    subscription = await topic.create_subscription(
        "billing",
        retry_policy={"minimum_backoff": 5, "maximum_backoff": {"seconds": 60}},
        dead_letter_policy={"dead_letter_topic": "dead"},
        expiration_policy={"ttl": {"seconds": 86400}},
        filter='attributes.kind = "new"',
        push_config={"push_endpoint": "https://example.org/push"},
        message_retention_duration=1200,
    )
    if "sqlite" in harness.kind:
        await harness.reopen()
    metadata = await harness.pubsub.topic("orders").get_metadata()
    assert (metadata.labels, metadata.message_retention_duration) == ({"team": "a"}, 3600)
    changed = await harness.pubsub.topic("orders").set_metadata(labels={"team": "b"})
    assert (changed.labels, changed.message_retention_duration) == ({"team": "b"}, 3600)
    described = await harness.pubsub.subscription("billing").get_metadata()
    assert described == subscription.metadata
    assert described.retry_policy == {"minimum_backoff": 5, "maximum_backoff": 60}
    assert described.dead_letter_policy == {
        "dead_letter_topic": "projects/penstock/topics/dead",
        "max_delivery_attempts": 5,
    }
    assert described.expiration_policy == {"ttl": 86400}
    assert described.push_config == {"push_endpoint": "https://example.org/push"}
    assert described.message_retention_duration == 1200


@story()
async def test_a_subscription_can_be_changed(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", labels={"a": "b"})
    changed = await subscription.set_metadata(
        {"ack_deadline_seconds": 60}, dead_letter_policy={"dead_letter_topic": topic}
    )
    assert (changed.ack_deadline_seconds, changed.labels) == (60, {"a": "b"})
    assert changed.dead_letter_policy is not None
    assert changed.dead_letter_policy["dead_letter_topic"] == topic.name
    pushing = await subscription.modify_push_config({"push_endpoint": "https://example.org"})
    assert pushing.push_config == {"push_endpoint": "https://example.org"}
    assert pushing.ack_deadline_seconds == 60
    assert (await subscription.modify_push_config({})).push_config == {}
    assert (await subscription.get(auto_create=True)).metadata == subscription.metadata


@story()
async def test_messages_of_one_turn_are_stored_in_one_step(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    trouble = Trouble(harness.pubsub)
    ids = await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(250)])
    assert trouble.batches == [100, 100, 50]
    assert len(set(ids)) == 250
    assert bodies(await subscription.pull(1000)) == [str(number) for number in range(250)]


@story("memory")
async def test_a_batch_waits_for_max_milliseconds(harness: Harness) -> None:
    batching = {"max_messages": 3, "max_bytes": 100, "max_milliseconds": 50}
    topic = await harness.topic(batching=batching)
    trouble = Trouble(harness.pubsub)
    publishing = topic.publish(b"a")
    await harness.quiet()
    assert trouble.batches == []
    harness.clock.advance(0.05)
    await publishing
    assert trouble.batches == [1]
    await asyncio.gather(*[topic.publish(b"b") for _ in range(3)])
    assert trouble.batches == [1, 3]
    await asyncio.gather(topic.publish(b"x" * 60), topic.publish(b"x" * 60))
    assert trouble.batches == [1, 3, 2]
    publishing = topic.publish(b"c")
    await topic.flush()
    assert publishing.done()
    await topic.flush()
    before = harness.clock.alarms
    publishing = topic.publish(b"d")
    assert harness.clock.alarms == before + 1
    await topic.flush()
    assert harness.clock.alarms == before, "a sent batch leaves no timer that sends the next one early"


@story("memory", "sqlite")
async def test_closing_stores_what_was_published(harness: Harness) -> None:
    """A publish that was not awaited is stored, also while its batch waits."""
    topic = await harness.topic(batching={"max_milliseconds": 60_000})
    publishing = topic.publish(b"a")
    await harness.pubsub.close()
    assert await publishing


@story("memory")
async def test_publishing_waits_while_too_much_is_outstanding(harness: Harness) -> None:
    topic = await harness.topic(flow_control={"max_outstanding_messages": 2, "max_outstanding_bytes": 100})
    trouble = Trouble(harness.pubsub)
    trouble.gate = asyncio.Event()
    tasks = [asyncio.create_task(topic.publish_message(b"%d" % number)) for number in range(5)]
    await harness.quiet()
    assert sum(trouble.batches) == 2
    with pytest.raises(ResourceExhaustedError, match=r"^Flow control limits exceeded$") as refused:
        topic.publish(b"x")
    assert refused.value.code == 8
    trouble.gate.set()
    await asyncio.gather(*tasks)
    assert sum(trouble.batches) == 5
    large = [asyncio.create_task(topic.publish_message(b"x" * 80)) for _ in range(3)]
    await asyncio.gather(*large)
    assert trouble.batches[-3:] == [1, 1, 1]


@story("memory")
async def test_publishing_above_the_limit_can_raise_or_continue(harness: Harness) -> None:
    topic = await harness.topic(flow_control={"max_outstanding_messages": 1, "limit_exceeded_behavior": "ERROR"})
    first = topic.publish(b"a")
    with pytest.raises(ResourceExhaustedError, match="Flow control limits exceeded"):
        await topic.publish_message(b"b")
    await first
    topic.set_publish_options(flow_control={"limit_exceeded_behavior": "IGNORE"})
    await asyncio.gather(topic.publish(b"c"), topic.publish(b"d"))


@story("memory", "sqlite")
async def test_a_failure_pauses_its_ordering_key(harness: Harness) -> None:
    """Later messages with the key do not overtake the failed one.

    Other keys and messages without a key are published.
    """
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", enable_message_ordering=True)
    trouble = Trouble(harness.pubsub)
    await topic.publish_message(b"1", ordering_key="a")
    trouble.on = True
    with pytest.raises(UnavailableError):
        await topic.publish_message(b"2", ordering_key="a")
    trouble.on = False
    with pytest.raises(FailedPreconditionError, match="ordering key 'a' is paused") as paused:
        await topic.publish_message(b"3", ordering_key="a")
    assert paused.value.code == 9
    await topic.publish_message(b"1", ordering_key="b")
    await topic.publish_message(b"no key")
    topic.resume_publishing("a")
    await topic.publish_message(b"2 again", ordering_key="a")
    received = []
    while messages := await subscription.pull(10):
        for message in messages:
            received.append((message.ordering_key, message.data))
            await message.ack_with_response()
    assert [data for key, data in received if key == "a"] == [b"1", b"2 again"]
    assert len(received) == 4


@story()
async def test_later_messages_do_not_overtake_a_failed_one(harness: Harness) -> None:
    topic = await harness.topic(batching={"max_messages": 1})
    subscription = await topic.create_subscription("my-sub")
    trouble = Trouble(harness.pubsub)
    trouble.on, trouble.gate = True, asyncio.Event()
    publishes = [topic.publish(b"%d" % number, ordering_key="a") for number in range(3)]
    other = topic.publish(b"other", ordering_key="b")
    await harness.quiet()
    trouble.gate.set()
    await asyncio.wait([publishes[0]])
    trouble.on = False
    results = await asyncio.gather(*publishes, other, return_exceptions=True)
    assert [type(result) for result in results[:3]] == [
        UnavailableError,
        FailedPreconditionError,
        FailedPreconditionError,
    ]
    assert bodies(await subscription.pull(10)) == ["other"]


@story("memory")
async def test_without_ordering_a_failure_pauses_nothing(harness: Harness) -> None:
    topic = await harness.topic(enable_message_ordering=False)
    trouble = Trouble(harness.pubsub)
    trouble.on = True
    with pytest.raises(UnavailableError):
        await topic.publish_message(b"1", ordering_key="a")
    trouble.on = False
    await topic.publish_message(b"2", ordering_key="a")


@story()
async def test_ordering_keys_keep_their_order_with_many_publishers(harness: Harness) -> None:
    topic = await harness.topic(batching={"max_messages": 7})
    subscription = await topic.create_subscription("my-sub", enable_message_ordering=True)
    publishes = [topic.publish(b"%d" % number, ordering_key=f"k{number % 3}") for number in range(60)]
    await asyncio.gather(*publishes)
    received = harness.listen(subscription, lambda message: message.ack())
    await harness.until(lambda: len(received) == 60)
    for key in range(3):
        mine = [int(message.data) for message in received if message.ordering_key == f"k{key}"]
        assert mine == list(range(key, 60, 3))


@story("memory")
async def test_values_are_published_as_json(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    value = {"order": 7, "unit": "°C", "lines": [1, None, True]}
    await topic.publish_json(value, attributes={"a": "b"}, ordering_key="k")
    (message,) = await subscription.pull(1)
    assert json.loads(message.data) == value
    assert (message.attributes, message.ordering_key) == ({"a": "b"}, "k")


@story("memory")
async def test_a_cancelled_publish_does_not_affect_others(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    tasks = [asyncio.create_task(topic.publish_message(b"%d" % number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [str, asyncio.CancelledError, str]
    assert len(await subscription.pull(10)) == 3
