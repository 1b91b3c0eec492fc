"""Decisions that are made at once and become durable together: what the doors with many small requests are built on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.log import Need, Sizes
from penstock.broker.model import Draft, SubscriptionOptions
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import FailedPreconditionError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import JournalFullError
from tests.unit.engine.journals import ToldJournal


def play(scene: Callable[[AsyncMessageQueue], Awaitable[None]], journal: MemoryJournal | None = None) -> None:
    async def performance() -> None:
        queue = AsyncMessageQueue(journal or MemoryJournal())
        await queue.start()
        queue.provide_queue("t", "s", SubscriptionOptions(strict_receipts=False))
        try:
            await scene(queue)
        finally:
            await queue.close()

    asyncio.run(performance())


def test_many_decisions_share_one_commit() -> None:
    journal = ToldJournal()

    async def scene(queue: AsyncMessageQueue) -> None:
        await queue.commit()
        commits = len(journal.commits)
        first = queue.decide_publish("t", [Draft(b"1")])
        second = queue.decide_publish("t", [Draft(b"2"), Draft(b"3")])
        pulled = queue.decide_pull("s", 2, lease_seconds=float("inf"), max_bytes=0)
        places = [(each.message.offset, each.stamp) for each in pulled.deliveries]
        assert queue.decide_ack(pulled.deliveries[0].subscription, places) == 2
        await queue.committed()
        assert (first.first, second.first, second.total) == (0, 1, 2)
        assert len(journal.commits) == commits + 1
        assert queue.backlog("s").messages == 1

    play(scene, journal)


def test_only_good_places_are_acked_and_each_once() -> None:
    async def scene(queue: AsyncMessageQueue) -> None:
        queue.decide_publish("t", [Draft(b"1"), Draft(b"2")])
        one, two = queue.decide_pull("s", 2, lease_seconds=10, max_bytes=0).deliveries
        place = (one.message.offset, one.stamp)
        assert queue.decide_ack(one.subscription, [place, place]) == 1
        assert queue.decide_ack(one.subscription, [place]) == 0
        assert queue.decide_ack(one.subscription, [(two.message.offset, two.stamp + 1), (99, 1)]) == 0
        assert queue.decide_ack(12345, [(two.message.offset, two.stamp)]) == 0
        assert queue.backlog("s").messages == 1

    play(scene)


def test_a_refused_commit_is_told_to_who_waits_and_nothing_of_it_counts() -> None:
    journal = ToldJournal()

    async def scene(queue: AsyncMessageQueue) -> None:
        await queue.commit()
        journal.refusals.append(JournalFullError())
        queue.decide_publish("t", [Draft(b"lost")])
        with pytest.raises(JournalFullError):
            await queue.committed()
        assert queue.topic("t").tail == 0

    play(scene, journal)


def test_a_queue_is_provided_once_and_never_takes_what_belongs_to_another() -> None:
    async def scene(queue: AsyncMessageQueue) -> None:
        number = queue.subscription("s").number
        queue.provide_queue("t", "s")
        assert queue.subscription("s").number == number
        with pytest.raises(FailedPreconditionError):
            queue.provide_queue("other", "s")
        await queue.detach_subscription("s")
        queue.provide_queue("t", "s")
        assert queue.reads("s", "t")

    play(scene)


def test_a_backlog_is_loaded_while_acks_wait_for_their_commit() -> None:
    """Reading waits for messages of its own topic on their way to the journal, and for nothing else."""
    journal = ToldJournal()

    async def scene() -> None:
        queue = AsyncMessageQueue(journal, sizes=Sizes(cache_bytes=500_000))
        await queue.start()
        queue.provide_queue("t", "s")
        for number in range(2000):
            queue.decide_publish("t", [Draft(b"%d" % number)])
        await queue.committed()
        pulled = queue.decide_pull("s", 1, lease_seconds=float("inf"), max_bytes=0)
        assert pulled.need is not None
        await queue.load(pulled.need)
        (first,) = queue.decide_pull("s", 1, lease_seconds=float("inf"), max_bytes=0).deliveries
        assert first.message.data == b"0"
        await queue.committed()
        journal.gate.clear()
        queue.decide_ack(first.subscription, [(first.message.offset, first.stamp)])
        acked = queue.committed()
        seen = []
        async with asyncio.timeout(10):
            while len(seen) < 1999:
                pulled = queue.decide_pull("s", 100, lease_seconds=float("inf"), max_bytes=0)
                seen += [each.message.data for each in pulled.deliveries]
                if pulled.need is not None:
                    await queue.load(pulled.need)
        assert seen == [b"%d" % number for number in range(1, 2000)]
        assert not acked.done()
        queue.decide_publish("t", [Draft(b"last")])
        loading = asyncio.ensure_future(queue.load(Need(queue.topic("t").number, 2000, 2001)))
        assert not (await asyncio.wait([loading], timeout=0.1))[0]
        journal.gate.set()
        await loading
        await queue.close()

    asyncio.run(scene())
