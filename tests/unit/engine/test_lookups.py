"""What a door can look up at once: names, numbers, and whether a message is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import ManualClock
from penstock.errors import NotFoundError
from penstock.journal.memory import MemoryJournal

LOOSE = SubscriptionOptions(strict_receipts=False)


def run(scenario: Callable[[AsyncMessageQueue, ManualClock], Awaitable[None]]) -> None:
    async def work() -> None:
        clock = ManualClock()
        queue = AsyncMessageQueue(MemoryJournal(), clock=clock)
        await queue.start()
        try:
            await scenario(queue, clock)
        finally:
            await queue.close()

    asyncio.run(work())


def test_a_queue_is_made_with_its_options_and_removed_as_one() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        assert queue.numbers("t", "s") is None
        queue.provide_queue("t", "s", LOOSE, TopicOptions(extras={"a": "1"}))
        await queue.commit()
        assert queue.numbers("t", "s") == (queue.topic("t").first_id, queue.subscription("s").number)
        assert (queue.topic("t").options.extras, queue.subscription("s").options) == ({"a": "1"}, LOOSE)
        assert list(queue.topic_names()) == ["t"]
        assert queue.numbers("other", "s") is None
        await queue.remove_queue("t", "s")
        assert not queue.topic_exists("t")
        assert not queue.subscription_exists("s")

    run(scenario)


def test_a_detached_subscription_reads_nothing() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        queue.provide_queue("t", "s")
        await queue.delete_topic("t")
        assert queue.numbers("t", "s") is None
        assert not queue.is_unacked("s", 0)

    run(scenario)


def test_whether_a_message_is_still_to_be_settled() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        queue.provide_queue("t", "s", LOOSE)
        appended = await queue.publish("t", [Draft(b"1"), Draft(b"2", ttl_seconds=5), Draft(b"3")])
        assert appended.at == clock.now()
        assert [queue.is_unacked("s", offset) for offset in range(4)] == [True, True, True, False]
        first, second, third = await queue.pull("s", 3)
        await queue.ack([first.receipt])
        assert [queue.is_unacked("s", offset) for offset in range(3)] == [False, True, True]
        clock.advance(5)
        assert [queue.is_unacked("s", offset) for offset in range(3)] == [False, False, True]
        number = queue.subscription("s").number
        await queue.publish("t", [Draft(b"4"), Draft(b"5")])
        await queue.ack([queue.publisher_receipt(number, 4)])  # by the receipt of its publish, ahead of the cursor
        assert [queue.is_unacked("s", offset) for offset in (3, 4)] == [True, False]
        assert (second.message.data, third.message.data) == (b"2", b"3")

    run(scenario)


def test_one_document_can_be_looked_up() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        assert queue.document("kind", "name") is None
        await queue.put_document("kind", "name", b"body")
        assert queue.document("kind", "name") == b"body"

    run(scenario)


def test_a_topic_is_found_by_its_number_and_says_where_it_lies() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        await queue.create_topic("t", TopicOptions(retention_seconds=60))
        await queue.publish("t", [Draft(b"abc"), Draft(b"de")])
        topic = queue.topic("t")
        assert queue.topic_name(topic.number) == "t"
        assert (topic.head_position, topic.position) == (0, 5)
        with pytest.raises(NotFoundError):
            queue.topic_name(topic.number + 1)

    run(scenario)
