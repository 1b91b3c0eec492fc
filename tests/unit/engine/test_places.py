"""Previews of seeks, which match the seek, and purged topics, which stay empty."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Draft, FailedPreconditionError, ManualClock, SubscriptionOptions, TopicOptions
from penstock.broker.log import Sizes
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.journal.sqlite import SqliteJournal

STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 5)),
    st.tuples(st.just("pull"), st.integers(1, 5)),
    st.tuples(st.just("ack"), st.integers(0, 20)),
    st.tuples(st.just("nack"), st.integers(0, 20)),
    st.tuples(st.just("seek"), st.integers(0, 20)),
    st.tuples(st.just("snapshot"), st.integers(0, 2)),
    st.tuples(st.just("restore"), st.integers(0, 2)),
)


class Story:
    """One subscription, with or without ordering, and a program's calls on it."""

    def __init__(self, ordering: bool) -> None:
        self.queue = AsyncMessageQueue(MemoryJournal(), clock=ManualClock())
        self.options = SubscriptionOptions(ordering=ordering)
        self.receipts: list[str] = []
        self.snapshots: set[str] = set()

    async def begin(self) -> None:
        await self.queue.start()
        await self.queue.create_topic("topic", TopicOptions(retention_seconds=86400))
        await self.queue.create_subscription("sub", "topic", self.options)

    async def step(self, verb: str, number: int) -> None:
        await getattr(self, f"_{verb}")(number)

    async def _publish(self, count: int) -> None:
        await self.queue.publish("topic", [Draft(b"x", {}, f"k{number % 2}") for number in range(count)])

    async def _pull(self, count: int) -> None:
        self.receipts += [each.receipt for each in await self.queue.pull("sub", count)]

    async def _ack(self, place: int) -> None:
        await self.queue.ack(self.receipts[place : place + 1])

    async def _nack(self, place: int) -> None:
        await self.queue.nack(self.receipts[place : place + 1])

    async def _seek(self, offset: int) -> None:
        await self.queue.seek_to_offset("sub", offset)

    async def _snapshot(self, number: int) -> None:
        name = f"snapshot-{number}"
        if name in self.snapshots:
            await self.queue.delete_snapshot(name)
        await self.queue.create_snapshot(name, "sub")
        self.snapshots.add(name)

    async def _restore(self, number: int) -> None:
        if f"snapshot-{number}" in self.snapshots:
            await self.queue.seek_to_snapshot("sub", f"snapshot-{number}")

    async def unacked(self) -> set[int]:
        topic = await self.queue.find_topic("topic")
        assert topic is not None
        return {offset for offset in range(topic.tail) if await self.queue.is_unacked("sub", offset)}


@given(st.booleans(), st.lists(STEPS, max_size=25), st.integers(0, 30))
def test_a_preview_matches_its_seek(ordering: bool, steps: list[tuple[str, int]], offset: int) -> None:
    async def tell() -> None:
        story = Story(ordering)
        await story.begin()
        for verb, number in steps:
            await story.step(verb, number)
        places: list[dict[str, Any]] = [{"offset": offset}, *({"snapshot": name} for name in sorted(story.snapshots))]
        for place in places:
            preview, before = await story.queue.preview_seek("sub", **place), await story.unacked()
            assert await story.unacked() == before, "a preview changes nothing"
            if "snapshot" in place:
                await story.queue.seek_to_snapshot("sub", place["snapshot"])
            else:
                await story.queue.seek_to_offset("sub", offset)
            after = await story.unacked()
            expected = (len(before), len(after), len(after - before), len(before - after), True)
            assert preview == expected
        await story.queue.close()

    asyncio.run(tell())


def test_a_purged_topic_is_empty_after_a_restart_as_well(tmp_path: Path) -> None:
    async def tell() -> None:
        queue = AsyncMessageQueue(SqliteJournal(tmp_path), clock=ManualClock())
        await queue.start()
        await queue.create_topic("topic", TopicOptions(retention_seconds=86400))
        await queue.create_subscription("sub", "topic")
        await queue.publish("topic", [Draft(b"x")] * 5)
        await queue.pull("sub", 2)
        assert await queue.purge_topic("topic") == 5
        assert await queue.purge_topic("topic") == 0
        await queue.publish("topic", [Draft(b"new")])
        await queue.close()
        again = AsyncMessageQueue(SqliteJournal(tmp_path), clock=ManualClock())
        await again.start()
        topic = await again.find_topic("topic")
        assert topic is not None
        assert (topic.head, topic.tail) == (5, 6)
        assert [each.data for each in await again.read("topic", 0, 6)] == [b"new"]
        assert [each.message.offset for each in await again.pull("sub", 10)] == [5]
        await again.close()

    asyncio.run(tell())


def test_messages_that_a_snapshot_needs_are_not_purged() -> None:
    async def tell() -> None:
        story = Story(ordering=False)
        await story.begin()
        await story.step("publish", 3)
        await story.step("snapshot", 0)
        with pytest.raises(FailedPreconditionError, match=r"^Snapshots need the messages of this topic"):
            await story.queue.purge_topic("topic")
        assert await story.unacked() == {0, 1, 2}
        await story.queue.close()

    asyncio.run(tell())


def test_a_read_is_bounded_in_bytes_and_never_empty(tmp_path: Path) -> None:
    async def tell() -> None:
        queue = AsyncMessageQueue(SqliteJournal(tmp_path), clock=ManualClock())
        await queue.start()
        await queue.create_topic("topic", TopicOptions(retention_seconds=86400))
        for number in range(6):
            await queue.publish("topic", [Draft(b"%d" % number * 1000)])
        found = await queue.read("topic", 1, 6, max_bytes=2500)
        assert [each.offset for each in found] == [1, 2, 3]
        assert [each.offset for each in await queue.read("topic", 4, 6, max_bytes=1)] == [4]
        assert [each.offset for each in await queue.read("topic", 0, 6, max_bytes=1 << 20)] == list(range(6))
        assert await queue.read("topic", 6, 9, max_bytes=1) == []
        await queue.close()

    asyncio.run(tell())


def test_chosen_messages_that_a_filter_leaves_out_need_not_fit_the_cache_together(tmp_path: Path) -> None:
    async def tell() -> None:
        sizes = Sizes(cache_bytes=1, chunk_messages=1, chunk_bytes=1, read_messages=1, read_bytes=1, topics_ahead=0)
        queue = AsyncMessageQueue(SqliteJournal(tmp_path), clock=ManualClock(), sizes=sizes)
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic", SubscriptionOptions(filter="attributes:a"))
        await queue.publish("topic", [Draft(b"x"), Draft(b"x"), Draft(b"x", {"a": "1"})])
        async with asyncio.timeout(20):
            leased = await queue.lease_at("sub", [0, 1, 2])
        assert [each.message.offset for each in leased] == [2]
        await queue.close()

    asyncio.run(tell())
