"""A pull without messages, which waits only if nothing happened since it began to look."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock import Draft, ManualClock
from penstock.assembly import open_journal
from penstock.engine.async_queue import AsyncMessageQueue


def test_a_message_that_comes_during_the_commit_of_an_empty_pull_is_not_missed(tmp_path: Path) -> None:
    """The pull decides before the publish, and its commit ends after the publish. The clock never moves."""

    async def story() -> None:
        queue = AsyncMessageQueue(open_journal(tmp_path / "data"), clock=ManualClock())
        await queue.start()
        await queue.create_topic("t")
        await queue.create_topic("other")
        await queue.create_subscription("s", "t")
        for _ in range(20):
            slow = queue.publish("other", [Draft(b"keeps the writer busy")])
            await asyncio.sleep(0)
            pull = asyncio.create_task(queue.pull("s", 1, wait_seconds=3600))
            await asyncio.sleep(0)  # the pull found nothing, and waits for earlier decisions
            await asyncio.gather(slow, queue.publish("t", [Draft(b"a")]))
            (delivery,) = await asyncio.wait_for(pull, 10)
            await queue.ack([delivery.receipt])
        await queue.close()

    asyncio.run(story())


def test_whatever_matters_to_a_pull_changes_the_revision_of_a_subscription() -> None:
    async def story() -> None:
        queue = AsyncMessageQueue(open_journal(None), clock=ManualClock())
        await queue.start()
        await queue.create_topic("t")
        await queue.create_subscription("s", "t")
        seen = [queue.revision("s")]

        def changed() -> bool:
            seen.append(queue.revision("s"))
            return seen[-1] != seen[-2]

        assert not changed()
        await queue.publish("t", [Draft(b"a"), Draft(b"b")])
        assert changed()
        first, second = await queue.pull("s", 2)
        assert changed()
        await queue.nack([first.receipt])
        assert changed()
        await queue.ack([second.receipt])
        assert changed()
        await queue.seek_to_offset("s", 2)
        assert changed()
        await queue.delete_topic("t")
        assert changed()
        await queue.close()

    asyncio.run(story())
