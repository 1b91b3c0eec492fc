"""Many of everything, nothing left behind, and one look at the real clock."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from pathlib import Path

import pytest

from penstock import Message, MessageQueue, PubSub, Subscription
from penstock.engine.async_queue import AsyncMessageQueue
from tests.acceptance.python_api import World, ack, story

RESPONSIVE_SECONDS = 1.0  # generous: a loaded machine must pass, a loop over all subscriptions per message must not


@story("memory")
async def test_a_thousand_subscriptions_stay_responsive(world: World) -> None:
    """Each open, each with its own topic: a message to one of them does not pay for the others."""
    topics = [await world.topic(f"topic-{number}") for number in range(1000)]
    received = [world.listen(await topic.create_subscription(topic.name.split("/")[-1]), ack) for topic in topics]
    await asyncio.gather(*[topic.publish_message(b"a") for topic in topics])
    await world.until(lambda: all(received))
    started = time.perf_counter()
    for number in range(100):
        await topics[500].publish_message(b"b")
        await world.until(lambda number=number: len(received[500]) == 2 + number)  # type: ignore[misc]
    assert time.perf_counter() - started < RESPONSIVE_SECONDS
    assert world.errors == []


@story("memory")
async def test_a_thousand_subscriptions_of_one_topic_all_receive(world: World) -> None:
    topic = await world.topic()
    received = [world.listen(await topic.create_subscription(f"sub-{number}"), ack) for number in range(1000)]
    await topic.publish_message(b"a")
    await world.until(lambda: all(received))
    assert sum(map(len, received)) == 1000


@story("memory")
async def test_ten_thousand_topics_stay_responsive(world: World) -> None:
    for number in range(10_000):
        await world.pubsub.topic(f"topic-{number}").create()
    topic = world.pubsub.topic("topic-5000")
    received = world.listen(await topic.create_subscription("my-sub"), ack)
    started = time.perf_counter()
    for number in range(100):
        await topic.publish_message(b"a")
        await world.until(lambda number=number: len(received) == number + 1)  # type: ignore[misc]
    assert time.perf_counter() - started < RESPONSIVE_SECONDS
    assert len(await world.pubsub.get_topics()) == 10_000


@story()
async def test_nothing_is_left_after_close(world: World) -> None:
    """No task, no lease, no alarm, no waiter, no thread, and no handle that somebody keeps alive."""
    before = asyncio.all_tasks()
    alarms = world.clock.alarms
    topic = await world.topic()
    handles: list[weakref.ref[Subscription]] = []
    for number in range(20):
        subscription = await topic.create_subscription(f"sub-{number}", max_extension_time=60)
        handles.append(weakref.ref(subscription))
        world.listen(subscription, ack if number % 2 else None)
        subscription.set_options(close_options={"behavior": "NACK"})
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(50)])
    await world.quiet()
    names = [f"sub-{number}" for number in range(20)]
    await asyncio.gather(*[handle().close() for handle in handles])  # type: ignore[union-attr]
    del subscription
    backlogs = [_in_flight(world, f"projects/penstock/subscriptions/{name}") for name in names]
    assert backlogs == [0] * 20
    assert world.pubsub.session.streams == {}
    assert not world.pubsub.session.pending
    await world.quiet()
    assert not world.pubsub.session.tasks
    gc.collect()
    assert [handle for handle in handles if handle() is not None] == []
    await world.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()
    assert world.clock.alarms == alarms
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock")] == []


def _in_flight(world: World, name: str) -> int:
    queue = world._shared or world.pubsub.session.queue
    assert isinstance(queue, MessageQueue | AsyncMessageQueue)
    return queue.backlog(name).in_flight_messages


@pytest.mark.parametrize("durable", [False, True])
def test_the_real_clock_does_the_same(durable: bool, tmp_path: Path) -> None:
    """The one test in real time: redelivery after a deadline of a second, and a pull that waits."""
    asyncio.run(_in_real_time(PubSub(data=tmp_path / "data" if durable else None)))


async def _in_real_time(pubsub: PubSub) -> None:
    async with pubsub, asyncio.timeout(20):
        topic = await pubsub.create_topic("my-topic")
        subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=1)
        again = asyncio.get_running_loop().create_future()
        started = time.monotonic()

        @subscription.on("message")
        def listener(message: Message) -> None:
            if message.delivery_attempt == 2:
                message.ack()
                again.set_result(time.monotonic() - started)

        subscription.open()
        await topic.publish_message(b"a")
        assert 0.9 < await again < 10
        await subscription.close()
        assert await subscription.pull(1, wait_seconds=0.01) == []
