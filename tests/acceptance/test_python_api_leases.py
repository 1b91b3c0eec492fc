"""Lease extension, deliveries that no listener saw, and listeners that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock import AckResponse, ManualClock, Message, MessageQueue, PubSub
from penstock.broker.model import SECOND
from tests.acceptance.python_api import Harness, ack, story


class Bench:
    """A coroutine listener that works until the test stops it, and acks at its end."""

    def __init__(self) -> None:
        self.begun: list[Message] = []
        self.done = asyncio.Event()
        self.responses: list[AckResponse] = []

    async def work(self, message: Message) -> None:
        self.begun.append(message)
        await self.done.wait()
        self.responses.append(await message.ack_with_response())


@story()
async def test_a_lease_is_extended_while_the_listener_runs(harness: Harness) -> None:
    """001 maxExtension: by default a lease is extended for up to an hour, so a slow listener gets no second copy
    meanwhile.
    """
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=10)
    bench = Bench()
    harness.listen(subscription, bench.work)
    await asyncio.gather(*(topic.publish_message(b"%d" % number) for number in range(3)))
    await harness.until(lambda: len(bench.begun) == 3)
    await harness.advance(50)
    assert len(bench.begun) == 3
    bench.done.set()
    await harness.until(lambda: len(bench.responses) == 3)
    await harness.advance(30)
    assert len(bench.begun) == 3
    assert harness.errors == []


@story()
async def test_a_slow_listener_can_ack_with_exactly_once_delivery(harness: Harness) -> None:
    """000 BR-010, 001 maxExtension."""
    topic = await harness.topic()
    options = {"ack_deadline_seconds": 5, "enable_exactly_once_delivery": True}
    subscription = await topic.create_subscription("my-sub", options)
    bench = Bench()
    harness.listen(subscription, bench.work)
    await topic.publish_message(b"a")
    await harness.until(lambda: bench.begun)
    await harness.advance(42)
    bench.done.set()
    await harness.until(lambda: bench.responses)
    assert bench.responses == [AckResponse.SUCCESS]


@story("memory", "shared memory")
async def test_leases_are_extended_for_at_most_an_hour(harness: Harness) -> None:
    """001 maxExtension: default 3600 seconds."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=600)
    bench = Bench()
    harness.listen(subscription, bench.work)
    await topic.publish_message(b"a")
    await harness.until(lambda: bench.begun)
    harness.clock.advance(3599)
    await harness.quiet()
    assert len(bench.begun) == 1
    harness.clock.advance(2)
    await harness.until(lambda: len(bench.begun) == 2)
    bench.done.set()


@story("memory")
async def test_extension_can_be_switched_off(harness: Harness) -> None:
    """001 maxExtension: with 0 the ack deadline is not extended."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5, max_extension_time=0)
    bench = Bench()
    harness.listen(subscription, bench.work)
    await topic.publish_message(b"a")
    await harness.until(lambda: bench.begun)
    await harness.advance(6)
    await harness.until(lambda: len(bench.begun) == 2)
    bench.done.set()


@story()
async def test_a_lease_ends_after_a_listener_returned_without_an_answer(harness: Harness) -> None:
    """001 AC-003, BR-005: also after a long listener, and while another listener still runs."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5)
    bench, go = Bench(), asyncio.Event()

    async def listener(message: Message) -> None:
        if message.data == b"slow":
            await bench.work(message)
        elif message.delivery_attempt == 1:
            await go.wait()  # returns without an answer

    received = harness.listen(subscription, listener)
    await asyncio.gather(topic.publish_message(b"slow"), topic.publish_message(b"lost"))
    await harness.until(lambda: len(received) == 2)
    await harness.advance(12)
    assert len(received) == 2
    go.set()
    await harness.advance(6)
    await harness.until(lambda: len(received) == 3)
    assert (received[2].data, received[2].delivery_attempt) == (b"lost", 2)
    bench.done.set()
    await harness.until(lambda: bench.responses)


@story()
async def test_closing_waits_for_a_slow_listener_and_keeps_its_lease(harness: Harness) -> None:
    """001 BR-008."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5)
    bench = Bench()
    harness.listen(subscription, bench.work)
    await topic.publish_message(b"a")
    await harness.until(lambda: bench.begun)
    closing = asyncio.ensure_future(subscription.close())
    await harness.advance(30)
    assert not closing.done()
    assert await subscription.pull() == []
    bench.done.set()
    await closing
    await harness.advance(30)
    assert await subscription.pull() == []


@story("memory", "shared memory")
async def test_a_blocking_listener_can_ack_after_the_deadline(harness: Harness) -> None:
    """001 maxExtension: a listener that blocks the event loop prevents extensions, and its ack still counts."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5)

    def listener(message: Message) -> None:
        harness.clock._now += 12 * SECOND  # the whole process stands still, including its timers
        message.ack()

    received = harness.listen(subscription, listener)
    await asyncio.gather(*(topic.publish_message(b"%d" % number) for number in range(4)))
    await harness.until(lambda: len(received) >= 4)
    await harness.advance(60)
    assert [message.data for message in received] == [b"0", b"1", b"2", b"3"]
    assert await subscription.pull() == []


@story("memory", "shared memory")
async def test_answers_of_slow_functions_do_not_wait_for_each_other(harness: Harness) -> None:
    """000 BR-002: an ack that is given in time is stored in time, even while the next message takes long."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5)

    def listener(message: Message) -> None:
        message.ack()
        harness.clock._now += 4 * SECOND

    received = harness.listen(subscription, listener)
    await asyncio.gather(*(topic.publish_message(b"%d" % number) for number in range(6)))
    await harness.until(lambda: len(received) >= 6)
    await harness.advance(60)
    assert len(received) == 6


@story("memory")
async def test_a_loop_keeps_the_message_it_works_on(harness: Harness) -> None:
    """001 maxExtension: the body of `async for` may wait like a listener. The loop's next step ends the extension."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5)
    await asyncio.gather(topic.publish_message(b"a"), topic.publish_message(b"b"))
    reader = aiter(subscription)
    first = await anext(reader)
    await harness.advance(30)
    assert await harness.pubsub.subscription("my-sub").pull() == []
    second = await anext(reader)
    assert (first.data, second.data, second.delivery_attempt) == (b"a", b"b", 1)
    await harness.advance(6)
    assert [message.data for message in await harness.pubsub.subscription("my-sub").pull()] == [b"a"]
    second.ack()
    await harness.quiet()
    await reader.aclose()  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- what counts as a delivery


@story()
async def test_a_delivery_that_no_listener_saw_is_no_attempt(harness: Harness) -> None:
    """Section 5 of the design: undelivered messages of a closed subscription come back without an attempt."""
    topic = await harness.topic()
    await topic.create_subscription("my-sub")
    await asyncio.gather(*(topic.publish_message(b"%d" % number) for number in range(20)))
    for _ in range(3):
        subscription = harness.pubsub.subscription("my-sub")
        leaving: list[asyncio.Future[None]] = []

        def listener(message: Message, at: Any = subscription, ending: Any = leaving) -> None:
            message.nack()
            if not ending:
                ending.append(asyncio.ensure_future(at.close()))
                at.remove_all_listeners("message")

        subscription.on("message", listener)
        subscription.open()
        await harness.until(lambda ending=leaving: ending)  # type: ignore[misc]
        await leaving[0]
    messages = await harness.pubsub.subscription("my-sub").pull(20)
    assert [message.delivery_attempt for message in messages] == [4] + [1] * 19


@story()
async def test_a_delivery_that_a_loop_did_not_see_is_no_attempt(harness: Harness) -> None:
    """Section 5 of the design."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await asyncio.gather(*(topic.publish_message(b"%d" % number) for number in range(20)))
    for _ in range(4):
        taken = 0
        async for message in subscription:
            message.ack() if taken < 3 else message.nack()
            taken += 1
            if taken > 3:
                break
        await harness.quiet()
    messages = await subscription.pull(20)
    assert [message.delivery_attempt for message in messages] == [2] + [1] * 7


# ---------------------------------------------------------------------- failures


@story()
async def test_a_listener_that_always_raises_is_called_after_growing_delays(harness: Harness) -> None:
    """Law 9, and 001 BR-007: the first repetition comes at once, and later ones after growing pauses."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=60)

    def listener(message: Message) -> None:
        raise ValueError("made up")

    received = harness.listen(subscription, listener)
    await topic.publish_message(b"a")
    await harness.until(lambda: len(received) == 2)
    await harness.quiet()
    assert len(received) == 2
    await harness.advance(0.5)
    assert 3 <= len(received) <= 5
    await harness.advance(60)
    assert 8 <= len(received) <= 13
    assert [message.delivery_attempt for message in received] == list(range(1, len(received) + 1))


@story("memory")
async def test_a_raise_is_retried_by_the_retry_policy(harness: Harness) -> None:
    """001 RetryPolicy."""
    topic = await harness.topic()
    policy = {"minimum_backoff": 20, "maximum_backoff": 20}
    subscription = await topic.create_subscription("my-sub", retry_policy=policy)

    def listener(message: Message) -> None:
        raise ValueError("made up")

    received = harness.listen(subscription, listener)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await harness.advance(19)
    assert len(received) == 1
    await harness.advance(2)
    assert len(received) == 2


# ---------------------------------------------------------------------- a clock that is moved by hand


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_a_manual_clock_extends_leases_like_real_time(shared: bool) -> None:
    """001 maxExtension: a ManualClock that is moved in one step still extends leases on the way."""

    async def main() -> None:
        clock = ManualClock()
        options: dict[str, Any] = {"queue": MessageQueue(clock=clock)} if shared else {"clock": clock}
        async with PubSub(**options) as pubsub:
            topic = await pubsub.create_topic("t")
            subscription = await topic.create_subscription("s", ack_deadline_seconds=10)
            bench = Bench()
            subscription.on("message", bench.work)
            subscription.open()
            await topic.publish_message(b"a")
            await _until(lambda: bench.begun)
            clock.advance(30)
            assert await pubsub.subscription("s").pull() == []
            bench.done.set()
            await _until(lambda: bench.responses)
            clock.advance(30)
            assert await pubsub.subscription("s").pull() == []
            assert len(bench.begun) == 1

    asyncio.run(main())


async def _until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0)


@story()
async def test_an_ack_before_the_deadline_counts_if_it_is_sent_later(harness: Harness) -> None:
    """000 BR-002: time that passes after the call does not make the ack late."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=5)
    received = harness.listen(subscription, ack)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await harness.advance(30)
    assert len(received) == 1
