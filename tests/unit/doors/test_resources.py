"""Queues of the doors: made once, with nothing lost in between, and spelled as every door spells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.broker.model import Draft
from penstock.doors.resources import ensure_queue, open_queue, subscription_name, topic_name
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import FailedPreconditionError, InvalidArgumentError
from penstock.journal.memory import MemoryJournal

TOPIC, SUBSCRIPTION = "projects/p/topics/q", "projects/p/subscriptions/q"


@asynccontextmanager
async def running() -> AsyncIterator[AsyncMessageQueue]:
    queue = AsyncMessageQueue(MemoryJournal())
    await queue.start()
    try:
        yield queue
    finally:
        await queue.close()


def test_names_are_those_of_the_cloud_service() -> None:
    assert topic_name("p", "q") == TOPIC
    assert subscription_name("p", "q") == SUBSCRIPTION


def test_a_queue_named_by_many_at_once_is_made_once() -> None:
    async def scene() -> None:
        async with running() as queue:
            names = await asyncio.gather(*(ensure_queue(queue, "p", "q") for _ in range(20)))
            assert set(names) == {(TOPIC, SUBSCRIPTION)}
            assert [one.name for one in queue.topics()] == [TOPIC]
            assert [one.name for one in queue.subscriptions()] == [SUBSCRIPTION]
            options = queue.subscription(SUBSCRIPTION).options
            assert (options.strict_receipts, options.retention_seconds) == (False, 0)

    asyncio.run(scene())


def test_a_topic_that_was_there_gets_its_subscription() -> None:
    async def scene() -> None:
        async with running() as queue:
            await queue.create_topic(TOPIC)
            await ensure_queue(queue, "p", "q")
            await queue.publish(TOPIC, [Draft(b"x")])
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"x"]

    asyncio.run(scene())


def test_a_queue_whose_topic_was_deleted_begins_anew() -> None:
    async def scene() -> None:
        async with running() as queue:
            await ensure_queue(queue, "p", "q")
            await queue.delete_topic(TOPIC)
            assert not queue.reads(SUBSCRIPTION, TOPIC)
            open_queue(queue, "p", "q")
            assert queue.reads(SUBSCRIPTION, TOPIC)

    asyncio.run(scene())


def test_a_subscription_of_that_name_on_another_topic_is_left_alone() -> None:
    async def scene() -> None:
        async with running() as queue:
            await queue.create_topic("other")
            await queue.create_subscription(SUBSCRIPTION, "other")
            with pytest.raises(FailedPreconditionError, match="reads another topic: other"):
                await ensure_queue(queue, "p", "q")
            assert not queue.topic_exists(TOPIC)

    asyncio.run(scene())


def test_a_name_the_broker_refuses_is_refused() -> None:
    async def scene() -> None:
        async with running() as queue:
            with pytest.raises(InvalidArgumentError):
                await ensure_queue(queue, "p", "q" * 2000)

    asyncio.run(scene())
