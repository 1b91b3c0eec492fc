"""The Python API: from `publish_message` to the `ack()` of an async listener, in memory and with fsync.

Run as `python -m benchmarks python_api [--quick]`. The upper limit is the same pattern on a plain `asyncio.Queue`: a
put, a get and a call of the same listener, without storage or leases.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.gauge import Lap, Stopwatch, row
from penstock import Limits, Message, MessageQueue, PubSub, Topic
from penstock.assembly import SERVER_LIMITS

NO_CAP = Limits(queue_max_messages=0, queue_max_bytes=0)

BODY = b"x" * 256
WAVE = 1000  # messages in flight in the batched runs


class Counter:
    """An async listener that acks, and sets an event after a number of messages."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self.done = asyncio.get_running_loop().create_future()

    async def __call__(self, message: Message) -> None:
        message.ack()
        self.left -= 1
        if not self.left:
            self.done.set_result(None)


async def by_message(topic: Topic, messages: int) -> None:
    """Publish waves of coroutines, as a program writes them: each one is a task."""
    for _ in range(messages // WAVE):
        await asyncio.gather(*[topic.publish_message(BODY) for _ in range(WAVE)])


async def by_future(topic: Topic, messages: int) -> None:
    """Publish waves with `publish`, which needs no task for each message."""
    for _ in range(messages // WAVE):
        await asyncio.gather(*[topic.publish(BODY) for _ in range(WAVE)])


async def by_callers(topic: Topic, messages: int) -> None:
    """Publish with 100 callers, each waiting for its message before it publishes the next."""

    async def caller() -> None:
        for _ in range(messages // 100):
            await topic.publish_message(BODY)

    await asyncio.gather(*[caller() for _ in range(100)])


async def one_by_one(topic: Topic, messages: int) -> None:
    for _ in range(messages):
        await topic.publish_message(BODY)


async def through(pubsub: PubSub, publish: Callable[[Topic, int], Awaitable[None]], messages: int) -> Lap:
    async with pubsub:
        topic = await pubsub.create_topic(
            "t",
        )
        topic.set_publish_options(batching={"max_messages": WAVE})
        subscription = await topic.create_subscription("s")
        counter, watch = Counter(messages), Stopwatch()
        subscription.on("message", counter.__call__)
        subscription.open()
        with watch.running():
            await publish(topic, messages)
            await counter.done
            await subscription.close()
        return watch.lap(messages)


async def bare_queue(messages: int) -> Lap:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    watch = Stopwatch()

    async def listener(body: bytes) -> None:
        queue.task_done()

    async def consumer() -> None:
        for _ in range(messages):
            await listener(await queue.get())

    with watch.running():
        task = asyncio.create_task(consumer())
        for _ in range(messages // WAVE):
            await asyncio.gather(*[queue.put(BODY) for _ in range(WAVE)])
        await task
    return watch.lap(messages)


def main(quick: bool = False) -> None:
    scale = 10 if quick else 1
    limit = asyncio.run(bare_queue(200_000 // scale))
    print(row("limit: bare asyncio.Queue", limit))
    runs: list[tuple[str, Any, int]] = [
        ("publish_message, waves of 1000", by_message, 100_000),
        ("publish, waves of 1000", by_future, 100_000),
        ("publish_message, 100 callers", by_callers, 50_000),
        ("publish_message, one by one", one_by_one, 20_000),
    ]
    for label, publish, messages in runs:
        print(row(f"memory: {label}", asyncio.run(through(PubSub(limits=NO_CAP), publish, messages // scale)), limit))
    shared = PubSub(queue=MessageQueue(limits=SERVER_LIMITS))
    print(row("shared MessageQueue: publish, waves", asyncio.run(through(shared, by_future, 100_000 // scale)), limit))
    for label, publish, messages in runs:
        with tempfile.TemporaryDirectory() as name:
            messages = messages // scale // (1 if publish is not one_by_one else 20)
            lap = asyncio.run(through(PubSub(data=Path(name) / "data"), publish, messages))
            print(row(f"fsync: {label}", lap, limit))
