"""Lookups of the doors that need no read: names, numbers, and whether a message is still there."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import MessageQueue
from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import ManualClock
from penstock.journal.memory import MemoryJournal

LOOSE = SubscriptionOptions(lease_seconds=20)


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
        assert await queue.find_queue("t-a", "s-a") is None
        await queue.provide_queue("t-a", "s-a", LOOSE, TopicOptions(extras={"a": "1"}))
        topic, subscription = await queue.find_topic("t-a"), await queue.find_subscription("s-a")
        assert topic is not None
        assert subscription is not None
        assert await queue.find_queue("t-a", "s-a") == (topic.first_id, subscription.number)
        assert (topic.options.extras, subscription.options) == ({"a": "1"}, LOOSE)
        assert await queue.find_queue("other", "s-a") is None
        await queue.remove_queue("t-a", "s-a")
        assert await queue.find_topic("t-a") is None
        assert await queue.find_subscription("s-a") is None

    run(scenario)


def test_a_detached_subscription_reads_nothing() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        await queue.provide_queue("t", "s")
        await queue.delete_topic("t")
        assert await queue.find_queue("t", "s") is None
        assert not await queue.is_unacked("s", 0)

    run(scenario)


def test_whether_a_message_is_still_to_be_settled() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        await queue.provide_queue("t", "s", LOOSE)
        appended = await queue.publish("t", [Draft(b"1"), Draft(b"2", ttl_seconds=5), Draft(b"3")])
        assert appended.at == clock.now()
        assert [await queue.is_unacked("s", offset) for offset in range(4)] == [True, True, True, False]
        first, second, third = await queue.pull("s", 3)
        await queue.ack([first.receipt])
        assert [await queue.is_unacked("s", offset) for offset in range(3)] == [False, True, True]
        clock.advance(5)
        assert [await queue.is_unacked("s", offset) for offset in range(3)] == [False, False, True]
        subscription = await queue.find_subscription("s")
        assert subscription is not None
        await queue.publish("t", [Draft(b"4"), Draft(b"5")])
        by_its_publish = await queue.publisher_receipt(subscription.number, 4)
        await queue.ack([by_its_publish], strict=False)  # ahead of the cursor
        assert [await queue.is_unacked("s", offset) for offset in (3, 4)] == [True, False]
        assert (second.message.data, third.message.data) == (b"2", b"3")

    run(scenario)


def test_one_document_can_be_looked_up() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        assert await queue.document("kind", "name") is None
        await queue.put_document("kind", "name", b"body")
        assert await queue.document("kind", "name") == b"body"

    run(scenario)


def test_a_topic_is_found_by_its_number_and_says_where_it_lies() -> None:
    async def scenario(queue: AsyncMessageQueue, clock: ManualClock) -> None:
        await queue.create_topic("t", TopicOptions(retention_seconds=60))
        await queue.publish("t", [Draft(b"abc"), Draft(b"de")])
        topic = await queue.find_topic("t")
        assert topic is not None
        assert await queue.find_topic(topic.number) == topic
        assert (topic.head_position, topic.position) == (0, 5)
        assert await queue.find_topic(topic.number + 1) is None

    run(scenario)


def test_every_lookup_takes_the_lock_or_says_why_not() -> None:
    source = inspect.getsource(lookups)
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        text = ast.get_source_segment(source, function) or ""
        asks_another = any(f"{other}(engine, " in text for other in ("find_topic", "find_subscription"))
        assert asks_another or "with engine.lock:" in text or "# Without the lock:" in text, function.name


@pytest.mark.parametrize(("verb", "arguments"), [("examine", (["x"],)), ("is_unacked", ("s", 0))])
def test_the_state_of_a_message_is_read_under_the_lock(
    verb: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lock, a thread that delivers the message meanwhile could show half of the old lease and half of
    the new.
    """
    with MessageQueue() as queue:
        queue.register_topic("t")
        queue.register_subscription("s", "t")
        engine, locked = queue.engine, []
        inside = getattr(engine.broker, verb)

        def watched(*given: Any) -> Any:
            locked.append(engine.lock._is_owned())
            return inside(*given)

        monkeypatch.setattr(engine.broker, verb, watched)
        getattr(lookups, verb)(engine, *arguments)
        assert locked == [True]
