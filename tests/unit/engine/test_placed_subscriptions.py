"""A subscription that begins at an offset, which is its only possible position after any error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.log import Sizes
from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import AlreadyExistsError, NotFoundError
from penstock.journal.sqlite import SqliteJournal

KEPT = TopicOptions(retention_seconds=3600)


def run(folder: Path, scenario: Callable[[AsyncMessageQueue], Awaitable[None]]) -> None:
    async def work() -> None:
        # The smallest cache, so that messages must be read first.
        queue = AsyncMessageQueue(SqliteJournal(folder), sizes=Sizes(cache_bytes=1))
        await queue.start()
        try:
            await scenario(queue)
        finally:
            await queue.close()

    asyncio.run(work())


def test_it_begins_where_it_was_put_also_when_that_must_be_read(tmp_path: Path) -> None:
    async def scenario(queue: AsyncMessageQueue) -> None:
        await queue.create_topic("t", KEPT)
        for number in range(10):
            await queue.publish("t", [Draft(b"%d" % number)] * 10)
        for offset in (0, 37, 99, 100):
            await queue.create_subscription_at(f"s{offset}", "t", offset, SubscriptionOptions(retention_seconds=0))
            assert lookups.backlog(queue.engine, f"s{offset}").messages == 100 - offset
            assert lookups.backlog(queue.engine, f"s{offset}").bytes == 100 - offset
        (delivery,) = await queue.pull("s37", 1)
        assert delivery.message.offset == 37
        with pytest.raises(AlreadyExistsError):
            await queue.create_subscription_at("s37", "t", 0)
        with pytest.raises(NotFoundError):
            await queue.create_subscription_at("new", "nothing", 0)

    run(tmp_path, scenario)


def test_it_is_at_its_place_after_a_restart(tmp_path: Path) -> None:
    async def first(queue: AsyncMessageQueue) -> None:
        await queue.create_topic("t", KEPT)
        for _ in range(5):
            await queue.publish("t", [Draft(b"x")] * 10)
        await queue.create_subscription_at("s", "t", 23)

    async def second(queue: AsyncMessageQueue) -> None:
        assert lookups.backlog(queue.engine, "s").messages == 27

    run(tmp_path, first)
    run(tmp_path, second)
