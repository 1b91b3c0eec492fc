"""Traffic between two looks: counters of resources with changes, and sums of all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from penstock import Draft, ManualClock, SubscriptionOptions
from penstock.broker.counts import SAMPLED_OF_SUBSCRIPTIONS
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.services.traffic import Interval, SubscriptionTraffic, Traffic

T = TypeVar("T")


def run(scenario: Callable[[AsyncMessageQueue, ManualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        queue = AsyncMessageQueue(MemoryJournal(), clock=clock)
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic", SubscriptionOptions(dead_letter_topic="dead"))
        try:
            await scenario(queue, clock)
        finally:
            await queue.close()

    asyncio.run(main())


def named(interval: Interval, found: Mapping[int, T]) -> list[tuple[str, T]]:
    """Return the traffic with the names of its resources, oldest first."""
    return [(interval.names[number], found[number]) for number in sorted(found)]


def counted(**counts: int) -> tuple[int, ...]:
    """Return the sampled counters of a subscription. Counters that are not given are 0."""
    assert set(counts) <= {counter.field for counter in SAMPLED_OF_SUBSCRIPTIONS}
    return tuple(counts.get(counter.field, 0) for counter in SAMPLED_OF_SUBSCRIPTIONS)


def test_a_backlog_that_grows_is_traffic() -> None:
    """No message is delivered or acked, but the growing backlog must be in the samples."""

    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        traffic = Traffic(queue.engine)
        traffic.take()
        await queue.publish("topic", [Draft(b"1")] * 2)
        clock.advance(1)
        taken = traffic.take()
        assert named(taken, taken.subscriptions) == [("sub", SubscriptionTraffic(counted(), 2, 0, 1.0))]
        assert traffic.take().subscriptions == {}, "the backlog did not change since"

    run(scenario)


def test_counters_are_differences_and_fill_is_as_it_is() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        await queue.publish("topic", [Draft(b"before")])
        traffic = Traffic(queue.engine)
        clock.advance(2)
        await queue.at("text").publish("topic", [Draft(b"12345"), Draft(b"12345")])
        delivered = await queue.pull("sub", 2)
        await queue.ack([delivered[0].receipt])
        taken = traffic.take()
        assert taken.seconds == 2
        assert named(taken, taken.topics) == [("topic", (2, 10))]
        assert named(taken, taken.subscriptions) == [
            ("sub", SubscriptionTraffic(counted(delivered=2, acked=1), 2, 1, 0.0))
        ]
        assert (taken.backlog_messages, taken.in_flight_messages) == (2, 1)
        assert taken.doors["text"][:2] == (1, 2)
        clock.advance(3)
        again = traffic.take([traffic.find_subscription("sub"), traffic.find_subscription("nobody")])
        assert again.topics == {}
        assert named(again, again.subscriptions) == [("sub", SubscriptionTraffic(counted(), 2, 1, 3.0))]
        assert again.oldest_age_seconds == 3

    run(scenario)


def test_deleted_resources_leave_the_sums() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        traffic = Traffic(queue.engine)
        await queue.create_subscription("other", "topic")
        await queue.publish("topic", [Draft(b"1")] * 3)
        assert traffic.take().backlog_messages == 6  # a publish fills every subscription of its topic
        await queue.delete_subscription("sub")
        assert traffic.take().backlog_messages == 3
        await queue.delete_topic("topic")
        assert traffic.take().backlog_messages == 0
        assert traffic.take().oldest_age_seconds == 0

    run(scenario)


def test_resources_deleted_between_two_looks_are_counted() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        traffic = Traffic(queue.engine)
        for count in (2, 3):  # under the same names
            await queue.create_topic("short")
            await queue.create_subscription("brief", "short")
            await queue.publish("short", [Draft(b"12345")] * count)
            await queue.ack([each.receipt for each in await queue.pull("brief", count)])
            await queue.delete_subscription("brief")
            await queue.delete_topic("short")
        taken = traffic.take()
        assert named(taken, taken.topics) == [("short", (2, 10)), ("short", (3, 15))]
        assert named(taken, taken.subscriptions) == [
            ("brief", SubscriptionTraffic(counted(delivered=2, acked=2))),
            ("brief", SubscriptionTraffic(counted(delivered=3, acked=3))),
        ]
        assert traffic.take().topics == {}

    run(scenario)


def test_a_resource_created_again_is_counted_separately() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        traffic = Traffic(queue.engine)
        await queue.publish("topic", [Draft(b"1")] * 2)
        await queue.ack([each.receipt for each in await queue.pull("sub", 2)])
        await queue.delete_subscription("sub")
        await queue.delete_topic("topic")
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        await queue.publish("topic", [Draft(b"1")] * 3)
        await queue.pull("sub", 1)
        taken = traffic.take()
        assert named(taken, taken.topics) == [("topic", (2, 2)), ("topic", (3, 3))]
        assert named(taken, taken.subscriptions) == [
            ("sub", SubscriptionTraffic(counted(delivered=2, acked=2))),
            ("sub", SubscriptionTraffic(counted(delivered=1), 3, 1)),
        ]
        assert (taken.backlog_messages, taken.in_flight_messages) == (3, 1)
        await queue.publish("topic", [Draft(b"1")])
        assert traffic.take().topics == {traffic.find_topic("topic"): (1, 1)}

    run(scenario)


def test_a_purge_and_a_seek_show() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        traffic = Traffic(queue.engine)
        await queue.publish("topic", [Draft(b"1")] * 3)
        traffic.take()
        await queue.purge("sub")
        assert traffic.take().backlog_messages == 0

    run(scenario)


def test_closed_it_listens_no_more() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        traffic = Traffic(queue.engine)
        traffic.close()
        await queue.publish("topic", [Draft(b"1")])
        assert not traffic._topics

    run(scenario)
