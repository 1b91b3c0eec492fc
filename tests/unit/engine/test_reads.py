"""Several readers of a backlog that is not in memory: each message goes to one of them, and none of them stops."""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock import Draft, Limits, MessageQueue
from penstock.broker.log import OVERHEAD_BYTES, Sizes
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.journal.sqlite import SqliteJournal
from tests.simulation.sizes import check_cache
from tests.unit.engine.journals import ToldJournal

MESSAGES = 120
ROUNDS = 3
SMALL = Sizes(cache_bytes=20 * OVERHEAD_BYTES, chunk_messages=2, read_messages=5)


@pytest.mark.parametrize("topics_ahead", [0, 8])
def test_consumers_share_a_backlog_repeatedly(tmp_path: Path, topics_ahead: int) -> None:
    """004 BR-006: messages that two consumers ack are settled, and later ones arrive."""

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


@pytest.mark.parametrize("durable", [False, True])
def test_a_call_keeps_its_messages_whatever_other_threads_read(durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reads of other threads came between the read of a call and its next look, and the call repeated its read
    forever.
    """
    journal = ToldJournal() if durable else MemoryJournal()
    queue = MessageQueue(journal, sizes=Sizes(cache_bytes=1, chunk_messages=1, read_messages=1))
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    for number in range(3):
        queue.publish("topic", [b"%d" % number])
    (topic,), step, steps = queue.engine.broker.state.topics, queue.engine.step, count(1)

    def step_after_another_read(*words: Any) -> Any:
        assert next(steps) < 20, "a call reads from the journal without end"
        queue.engine.broker.load(topic, journal.read(topic, 2, 3))
        return step(*words)

    monkeypatch.setattr(queue.engine, "step", step_after_another_read)
    assert [message.data for message in queue.pull("sub", 2)] == [b"0", b"1"]
    queue.close()


def test_threads_read_a_backlog_in_memory_that_the_cache_does_not_hold() -> None:
    """The threads filled the cache at the same time, and its assertions failed."""
    queue = MessageQueue(sizes=Sizes(cache_bytes=3 * OVERHEAD_BYTES, chunk_messages=1, read_messages=2))
    queue.register_topic("topic")
    names = [f"sub{number}" for number in range(4)]
    for name in names:
        queue.register_subscription(name, "topic")
    for number in range(MESSAGES):
        queue.publish("topic", [b"%d" % number])

    def drain(name: str) -> list[bytes]:
        found: list[bytes] = []
        while messages := queue.pull(name, 3):
            queue.ack_many([message.ack_id for message in messages])
            found += [message.data for message in messages]
        return found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(names)) as threads:
            taken = list(threads.map(drain, names))
    finally:
        sys.setswitchinterval(interval)
    assert taken == [[b"%d" % number for number in range(MESSAGES)]] * len(names)
    check_cache(queue.engine.broker.cache)


def test_read_ahead_messages_are_used_by_one_thread_at_a_time(tmp_path: Path) -> None:
    touched = count()

    class Guarded(OrderedDict[int, Any]):
        def _check(self) -> None:
            assert reads._lock.locked(), "another thread may be here as well"
            next(touched)

        def pop(self, *arguments: Any) -> Any:
            self._check()
            return super().pop(*arguments)

        def __setitem__(self, key: int, value: Any) -> None:
            self._check()
            super().__setitem__(key, value)

        def popitem(self, last: bool = True) -> Any:
            self._check()
            return super().popitem(last)

    sizes = SMALL._replace(topics_ahead=1)
    with MessageQueue(SqliteJournal(tmp_path), sizes=sizes) as queue:
        reads = queue.engine.reads
        reads._ahead = Guarded()
        for topic in ("one", "two"):
            queue.register_topic(topic)
            queue.create_subscription(f"of-{topic}", topic)
            queue.publish(topic, [{"data": b"%d" % number} for number in range(MESSAGES)])
        with ThreadPoolExecutor(2) as threads:
            got = list(threads.map(lambda topic: len(queue.pull(f"of-{topic}", MESSAGES)), ("one", "two")))
        assert sum(got) > 0
    assert next(touched) > 2
