"""Leases of chosen messages, unacked messages, and the origins of leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock import Draft, ManualClock, SubscriptionOptions
from penstock.broker.log import Sizes
from penstock.broker.model import FOREVER
from penstock.broker.publishing import Once
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.lease_origins import KEPT_MIN
from penstock.errors import FailedPreconditionError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from penstock.journal.sqlite import SqliteJournal

Scenario = Callable[[AsyncMessageQueue], Awaitable[None]]
TINY = Sizes(cache_bytes=400, read_messages=2)


@pytest.fixture(params=["memory", "sqlite"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    def begin(scenario: Scenario, *, count: int = 10, **options: object) -> None:
        async def main() -> None:
            journal: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "data")
            queue = AsyncMessageQueue(journal, clock=ManualClock(), sizes=TINY if request.param == "sqlite" else None)
            await queue.start()
            await queue.create_topic("topic")
            await queue.create_subscription("sub", "topic", SubscriptionOptions(**options))  # type: ignore[arg-type]
            await queue.publish(
                "topic", [Draft(f"{number:050}".encode(), {"n": str(number)}) for number in range(count)]
            )
            try:
                async with asyncio.timeout(20):
                    await scenario(queue)
            finally:
                await queue.close()

        asyncio.run(main())

    return begin


async def bodies(queue: AsyncMessageQueue, most: int = 100) -> list[int]:
    return [int(each.message.data) for each in await queue.pull("sub", most)]


def test_chosen_messages_are_leased_and_the_others_come_as_ever(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        chosen = await queue.lease_at("sub", [7, 2, 2, 400])
        assert [(int(each.message.data), each.attempt) for each in chosen] == [(2, 1), (7, 1)]
        assert await queue.unacked("sub", 0, 100) == list(range(10))
        await queue.ack([each.receipt for each in chosen])
        assert await queue.unacked("sub", 1, 3) == [1, 3, 4]
        assert await bodies(queue) == [0, 1, 3, 4, 5, 6, 8, 9]
        assert await queue.lease_at("sub", [2, 3]) == []  # one is acked, the other is leased
        assert (await queue.backlog("sub")).messages == 8

    run(scenario)


def test_put_back_they_count_no_attempt_and_come_in_their_place(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        queue.put_back(await queue.lease_at("sub", [3, 9]))
        deliveries = await queue.pull("sub", 100)
        assert sorted(int(each.message.data) for each in deliveries) == list(range(10))
        assert {each.attempt for each in deliveries} == {1}

    run(scenario)


def test_a_message_that_waits_to_come_again_can_be_chosen(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        first = (await queue.pull("sub", 1))[0]
        await queue.nack([first.receipt], 60)
        assert [each.attempt for each in await queue.lease_at("sub", [0])] == [2]
        assert [each.deadline for each in await queue.leases("sub", 0, 10)] == [FOREVER]

    run(scenario)


def test_where_order_counts_nothing_can_be_chosen(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        with pytest.raises(FailedPreconditionError, match="with ordering"):
            await queue.lease_at("sub", [1])

    run(scenario, ordering=True)


def test_filtered_messages_are_not_leased(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        assert [int(each.message.data) for each in await queue.lease_at("sub", [4, 5])] == [5]

    run(scenario, filter='attributes.n = "5"')


def test_a_lease_has_its_door_consumer_and_time(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        await queue.at("azure").pull("sub", 2)
        at = queue.clock.now()
        await queue.at("pubsub").pull("sub", 1, holder="stream-1")
        leases = await queue.leases("sub", 0, 100)
        assert [(each.offset, each.door, each.holder) for each in leases] == [
            (0, "azure", ""),
            (1, "azure", ""),
            (2, "pubsub", "stream-1"),
        ]
        assert {each.leased_at for each in leases} == {at}
        assert [each.offset for each in await queue.leases("sub", 1, 1)] == [1]
        assert queue.engine.doors["azure"].messages_out == 2

    run(scenario)


def test_a_renewed_receipt_keeps_its_door(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        delivery = (await queue.at("azure").pull("sub", 1))[0]
        await queue.renew(delivery.receipt, 30)
        await asyncio.sleep(0)
        assert [each.door for each in await queue.leases("sub", 0, 10)] == ["azure"]

    run(scenario)


def test_origins_of_leases_are_kept_while_messages_are_in_flight(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        kept = (await queue.at("text").pull("sub", 1))[0]
        for _ in range(KEPT_MIN + 10):
            queue.put_back(await queue.pull("sub", 1))
        assert len(queue.engine.lease_origins._stamps[kept.subscription]) <= 20
        assert [each.door for each in await queue.leases("sub", 0, 10)] == ["text"]
        await queue.delete_subscription("sub")
        assert not queue.engine.lease_origins._stamps

    run(scenario)


def test_a_producer_that_is_forgotten_may_publish_again(run: Callable[..., None]) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        once = Once("p", 0, 1)
        first = await queue.publish("topic", [Draft(b"0")], once)
        assert (await queue.publish("topic", [Draft(b"0")], once)).first == first.first
        await queue.forget_producer("topic", "p")
        await queue.forget_producer("topic", "nobody")
        assert (await queue.publish("topic", [Draft(b"0")], once)).first == first.first + 1

    run(scenario)
