"""Decisions that are made at once and become durable together, for doors with many small requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.log import Sizes
from penstock.broker.model import Draft, SubscriptionOptions
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import FailedPreconditionError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import JournalFullError
from tests.unit.engine.journals import ToldJournal


def play(scenario: Callable[[AsyncMessageQueue], Awaitable[None]], journal: MemoryJournal | None = None) -> None:
    async def performance() -> None:
        queue = AsyncMessageQueue(journal or MemoryJournal())
        await queue.start()
        await queue.provide_queue("t", "s", SubscriptionOptions())
        try:
            await scenario(queue)
        finally:
            await queue.close()

    asyncio.run(performance())


def test_many_decisions_share_one_commit() -> None:
    journal = ToldJournal()

    async def scenario(queue: AsyncMessageQueue) -> None:
        commits = len(journal.commits)
        journal.gate.clear()
        first = queue.publish("t", [Draft(b"1")])
        second = queue.publish("t", [Draft(b"2"), Draft(b"3")])
        leased = await queue.lease("s", 2, lease_seconds=float("inf"))
        assert leased.tail == 3
        places = [(each.message.offset, each.stamp) for each in leased.deliveries]
        acked = queue.ack_delivered(leased.deliveries[0].subscription, places)
        decisions = [first, second, leased.durable, acked]
        assert not any(each.done() for each in decisions), "decided, and not durable"
        assert (await queue.backlog("s")).messages == 1
        journal.gate.set()
        await asyncio.gather(*decisions)
        assert (first.result().first, second.result().first, second.result().total, acked.result()) == (0, 1, 2, 2)
        assert len(journal.commits) <= commits + 2, "one commit may have begun with the first of them"

    play(scenario, journal)


def test_only_good_places_are_acked_and_each_once() -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        await queue.publish("t", [Draft(b"1"), Draft(b"2")])
        one, two = await queue.pull("s", 2, lease_seconds=10)
        place = (one.message.offset, one.stamp)
        assert await queue.ack_delivered(one.subscription, [place, place]) == 1
        assert await queue.ack_delivered(one.subscription, [place]) == 0
        assert await queue.ack_delivered(one.subscription, [(two.message.offset, two.stamp + 1), (99, 1)]) == 0
        assert await queue.ack_delivered(12345, [(two.message.offset, two.stamp)]) == 0
        assert (await queue.backlog("s")).messages == 1

    play(scenario)


def test_callers_of_a_refused_commit_get_the_error_and_nothing_of_it_counts() -> None:
    journal = ToldJournal()

    async def scenario(queue: AsyncMessageQueue) -> None:
        journal.refusals.append(JournalFullError())
        lost = queue.publish("t", [Draft(b"lost")])
        with pytest.raises(JournalFullError):
            await lost
        assert lookups.topic(queue.engine, "t").tail == 0

    play(scenario, journal)


def test_a_queue_is_provided_once_and_never_takes_the_name_of_another_resource() -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        numbers = await queue.find_queue("t", "s")
        assert not await queue.provide_queue("t", "s")
        assert await queue.find_queue("t", "s") == numbers
        with pytest.raises(FailedPreconditionError):
            await queue.provide_queue("other", "s")
        assert await queue.find_topic("other") is None
        await queue.detach_subscription("s")
        assert await queue.find_queue("t", "s") is None
        assert await queue.provide_queue("t", "s")
        assert await queue.find_queue("t", "s") is not None

    play(scenario)


def test_a_backlog_is_loaded_while_acks_wait_for_their_commit() -> None:
    """A read waits only for messages of its own topic that are on their way to the journal."""
    journal = ToldJournal()

    async def scenario() -> None:
        queue = AsyncMessageQueue(journal, sizes=Sizes(cache_bytes=500_000))
        await queue.start()
        await queue.provide_queue("t", "s")
        await asyncio.gather(*[queue.publish("t", [Draft(b"%d" % number)]) for number in range(2000)])
        (first,) = await queue.pull("s", 1, lease_seconds=float("inf"))
        assert first.message.data == b"0"
        journal.gate.clear()
        acked = queue.ack_delivered(first.subscription, [(first.message.offset, first.stamp)])
        seen = []
        async with asyncio.timeout(10):
            while len(seen) < 1999:
                leased = await queue.lease("s", 100, lease_seconds=float("inf"))
                seen += [each.message.data for each in leased.deliveries]
        assert seen == [b"%d" % number for number in range(1, 2000)]
        assert not acked.done()
        last = queue.publish("t", [Draft(b"last")])
        reading = asyncio.ensure_future(queue.read("t", 2000, 2001))
        assert not (await asyncio.wait([reading], timeout=0.1))[0]
        journal.gate.set()
        assert [message.data for message in await reading] == [b"last"]
        await last
        await queue.close()

    asyncio.run(scenario())
