"""Several readers of one backlog that is not in memory: each message goes to one of them, and all of them go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock import Draft, Limits
from penstock.broker.log import OVERHEAD_BYTES, Sizes
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.sqlite import SqliteJournal

MESSAGES = 120
ROUNDS = 3
SMALL = Sizes(cache_bytes=20 * OVERHEAD_BYTES, chunk_messages=2, read_messages=5)


@pytest.mark.parametrize("topics_ahead", [0, 8])
def test_consumers_share_a_backlog_again_and_again(tmp_path: Path, topics_ahead: int) -> None:
    """004 BR-006: what two consumers pull and ack is gone, and what is published after it arrives."""

    async def main() -> None:
        queue = AsyncMessageQueue(
            SqliteJournal(tmp_path),
            limits=Limits(retention_seconds=86400),
            sizes=SMALL._replace(topics_ahead=topics_ahead),
        )
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        for _ in range(ROUNDS):
            for _ in range(MESSAGES // 10):
                await queue.publish("topic", [Draft(b"x")] * 10)
            taken = await asyncio.gather(*(_drain(queue) for _ in range(3)))
            assert sorted(offset for each in taken for offset in each) == list(
                range(lookups.topic(queue.engine, "topic").tail - MESSAGES, lookups.topic(queue.engine, "topic").tail)
            )
        await queue.close()

    asyncio.run(main())


async def _drain(queue: AsyncMessageQueue) -> list[int]:
    offsets: list[int] = []
    while deliveries := await queue.pull("sub", 7):
        await queue.ack([each.receipt for each in deliveries])
        offsets += [each.message.offset for each in deliveries]
    return offsets
