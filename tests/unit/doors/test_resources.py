"""Queues of the doors: made once, with nothing lost in between, and spelled as every door spells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.broker.model import Draft
from penstock.doors.resources import QUEUE_OPTIONS, subscription_name, topic_name
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


def provide(queue: AsyncMessageQueue) -> asyncio.Future[bool]:
    return queue.provide_queue(TOPIC, SUBSCRIPTION, QUEUE_OPTIONS)


def test_names_are_those_of_the_cloud_service() -> None:
    assert topic_name("p", "q") == TOPIC
    assert subscription_name("p", "q") == SUBSCRIPTION


def test_a_queue_named_by_many_at_once_is_made_once() -> None:
    async def scenario() -> None:
        async with running() as queue:
            made = await asyncio.gather(*(provide(queue) for _ in range(20)))
            assert made == [True] + [False] * 19
            assert [one.name for one in await queue.topics()] == [TOPIC]
            (subscription,) = await queue.subscriptions()
            options = subscription.options
            assert (subscription.name, subscription.topic) == (SUBSCRIPTION, TOPIC)
            assert (options.strict_receipts, options.retention_seconds) == (False, 0)

    asyncio.run(scenario())


def test_a_topic_that_was_there_gets_its_subscription() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await queue.create_topic(TOPIC)
            await provide(queue)
            await queue.publish(TOPIC, [Draft(b"x")])
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"x"]

    asyncio.run(scenario())


def test_a_queue_whose_topic_was_deleted_begins_anew() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await provide(queue)
            await queue.delete_topic(TOPIC)
            assert await queue.find_queue(TOPIC, SUBSCRIPTION) is None
            await queue.send(TOPIC, SUBSCRIPTION, QUEUE_OPTIONS, [Draft(b"x")])
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"x"]

    asyncio.run(scenario())


def test_a_subscription_of_that_name_on_another_topic_is_left_alone() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await queue.create_topic("other")
            await queue.create_subscription(SUBSCRIPTION, "other")
            with pytest.raises(FailedPreconditionError, match="reads another topic: other"):
                await provide(queue)
            assert await queue.find_topic(TOPIC) is None

    asyncio.run(scenario())


def test_a_name_the_broker_refuses_is_refused() -> None:
    async def scenario() -> None:
        async with running() as queue:
            with pytest.raises(InvalidArgumentError):
                await queue.provide_queue(topic_name("p", "q" * 2000), SUBSCRIPTION, QUEUE_OPTIONS)

    asyncio.run(scenario())
