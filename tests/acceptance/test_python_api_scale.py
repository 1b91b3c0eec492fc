"""Many topics and subscriptions, no leaks after close, and one test with the real clock."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from pathlib import Path

import pytest

from penstock import Message, MessageQueue, PubSub, Subscription
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from tests.acceptance.python_api import Harness, ack, story

RESPONSIVE_SECONDS = 1.0  # generous: a busy machine must pass, and a loop over all subscriptions per message must fail


@story("memory")
async def test_a_thousand_subscriptions_stay_responsive(harness: Harness) -> None:
    """Each subscription is open and has its own topic. A message to one of them does not cost time in the others."""
    topics = [await harness.topic(f"topic-{number}") for number in range(1000)]
    received = [harness.listen(await topic.create_subscription(topic.name.split("/")[-1]), ack) for topic in topics]
    await asyncio.gather(*[topic.publish_message(b"a") for topic in topics])
    await harness.until(lambda: all(received))
    started = time.perf_counter()
    for number in range(100):
        await topics[500].publish_message(b"b")
        await harness.until(lambda number=number: len(received[500]) == 2 + number)  # type: ignore[misc]
    assert time.perf_counter() - started < RESPONSIVE_SECONDS
    assert harness.errors == []


@story("memory")
async def test_a_thousand_subscriptions_of_one_topic_all_receive(harness: Harness) -> None:
    topic = await harness.topic()
    received = [harness.listen(await topic.create_subscription(f"sub-{number}"), ack) for number in range(1000)]
    await topic.publish_message(b"a")
    await harness.until(lambda: all(received))
    assert sum(map(len, received)) == 1000


@story("memory")
async def test_ten_thousand_topics_stay_responsive(harness: Harness) -> None:
    for number in range(10_000):
        await harness.pubsub.topic(f"topic-{number}").create()
    topic = harness.pubsub.topic("topic-5000")
    received = harness.listen(await topic.create_subscription("my-sub"), ack)
    started = time.perf_counter()
    for number in range(100):
        await topic.publish_message(b"a")
        await harness.until(lambda number=number: len(received) == number + 1)  # type: ignore[misc]
    assert time.perf_counter() - started < RESPONSIVE_SECONDS
    assert len(await harness.pubsub.get_topics()) == 10_000


@story()
async def test_nothing_is_left_after_close(harness: Harness) -> None:
    """No task, lease, timer, waiter, thread or handle is left."""
    before = asyncio.all_tasks()
    alarms = harness.clock.alarms
    topic = await harness.topic()
    handles: list[weakref.ref[Subscription]] = []
    for number in range(20):
        subscription = await topic.create_subscription(f"sub-{number}", max_extension_time=60)
        handles.append(weakref.ref(subscription))
        harness.listen(subscription, ack if number % 2 else None)
        subscription.set_options(close_options={"behavior": "NACK"})
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(50)])
    await harness.quiet()
    names = [f"sub-{number}" for number in range(20)]
    await asyncio.gather(*[handle().close() for handle in handles])  # type: ignore[union-attr]
    del subscription
    backlogs = [_in_flight(harness, f"projects/penstock/subscriptions/{name}") for name in names]
    assert backlogs == [0] * 20
    assert harness.pubsub.session.streams == {}
    assert not harness.pubsub.session.pending
    await harness.quiet()
    assert not harness.pubsub.session.tasks
    gc.collect()
    assert [handle for handle in handles if handle() is not None] == []
    await harness.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()
    assert harness.clock.alarms == alarms
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock")] == []


def _in_flight(harness: Harness, name: str) -> int:
    queue = harness._shared or harness.pubsub.session.queue
    assert isinstance(queue, MessageQueue | AsyncMessageQueue)
    return lookups.backlog(queue.engine, name).in_flight_messages


@pytest.mark.parametrize("durable", [False, True])
def test_the_api_works_with_the_real_clock(durable: bool, tmp_path: Path) -> None:
    """This is the only test in real time: redelivery after a deadline of a second, and a pull that waits."""
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
