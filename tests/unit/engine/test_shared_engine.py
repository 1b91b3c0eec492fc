"""An engine that threads and an event loop share: decisions of threads reach callers that wait in the loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from penstock import Draft, FailedPreconditionError, ManualClock, MessageQueue, NotFoundError, SubscriptionOptions
from penstock.assembly import open_queue
from penstock.engine.async_queue import AsyncMessageQueue

SECONDS = 10


def prepared(data: Path | None = None) -> tuple[MessageQueue, AsyncMessageQueue]:
    queue = open_queue(data, clock=ManualClock())
    queue.register_topic("t")
    queue.register_subscription("s", "t", SubscriptionOptions(lease_seconds=600))
    return queue, AsyncMessageQueue(queue.engine)


@pytest.mark.parametrize("durable", [False, True])
def test_a_publish_in_a_thread_ends_the_wait(durable: bool, tmp_path: Path) -> None:
    queue, shared = prepared(tmp_path / "data" if durable else None)

    async def story() -> None:
        shared.begin()
        for number in range(50):
            since = shared.revision("s")
            assert await shared.pull("s", 10) == []
            thread = threading.Thread(target=queue.publish, args=("t", [b"%d" % number]))
            thread.start()
            assert await asyncio.wait_for(shared.wait_for_messages("s", 60, since), SECONDS)
            (delivery,) = await shared.pull("s", 10)
            await shared.ack([delivery.receipt])
            thread.join()
        await shared.close()

    asyncio.run(story())
    queue.close()


def test_a_message_between_the_look_and_the_wait_is_not_missed() -> None:
    queue, shared = prepared()

    async def story() -> None:
        shared.begin()
        since = shared.revision("s")
        assert await shared.pull("s", 1) == []
        queue.publish("t", [b"a"])
        assert await asyncio.wait_for(shared.wait_for_messages("s", 3600, since), SECONDS)
        await shared.close()

    asyncio.run(story())


@pytest.mark.parametrize("action", ["unregister_topic", "unregister_subscription", "close"])
def test_an_end_ends_the_wait(action: str) -> None:
    queue, shared = prepared()

    async def story() -> None:
        shared.begin()
        waiting = asyncio.create_task(shared.wait_for_messages("s", 3600))
        await asyncio.sleep(0)
        arguments = {"unregister_topic": ["t"], "unregister_subscription": ["s"], "close": []}[action]
        await asyncio.to_thread(getattr(queue, action), *arguments)
        assert await asyncio.wait_for(waiting, SECONDS) is (action != "close")
        await shared.close()

    asyncio.run(story())


def test_time_ends_the_wait() -> None:
    """The wait ends at the given time, or earlier when a lease ends."""
    queue, shared = prepared()
    clock = queue.clock
    assert isinstance(clock, ManualClock)

    async def story() -> None:
        shared.begin()
        waiting = asyncio.create_task(shared.wait_for_messages("s", 5))
        await asyncio.sleep(0)
        clock.advance(5)
        assert await asyncio.wait_for(waiting, SECONDS)
        queue.publish("t", [b"a"])
        await shared.pull("s", 1, lease_seconds=3)
        waiting = asyncio.create_task(shared.wait_for_messages("s", 60))
        await asyncio.sleep(0)
        clock.advance(3)
        assert await asyncio.wait_for(waiting, SECONDS)
        assert [delivery.attempt for delivery in await shared.pull("s", 1)] == [2]
        await shared.close()
        await asyncio.sleep(0)
        assert clock.alarms == 0

    asyncio.run(story())


@pytest.mark.parametrize("durable", [False, True])
def test_publishes_keep_the_order_of_their_calls(durable: bool, tmp_path: Path) -> None:
    queue, shared = prepared(tmp_path / "data" if durable else None)

    async def story() -> None:
        shared.begin()
        await asyncio.gather(*[shared.publish("t", [Draft(b"%d" % number)]) for number in range(100)])
        deliveries = await shared.pull("s", 100)
        assert [int(delivery.message.data) for delivery in deliveries] == list(range(100))
        await shared.close()

    asyncio.run(story())
    queue.close()


def test_a_second_loop_has_to_wait_for_the_first_to_be_closed() -> None:
    _, shared = prepared()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_begin(shared))

    async def story() -> None:
        with pytest.raises(FailedPreconditionError, match="belongs to another event loop"):
            shared.begin()

    asyncio.run(story())
    shared.loop._keeper.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    asyncio.run(_begin_and_close(shared))


async def _begin(shared: AsyncMessageQueue) -> None:
    shared.begin()
    shared.begin()


async def _begin_and_close(shared: AsyncMessageQueue) -> None:
    shared.begin()
    with pytest.raises(NotFoundError):
        await shared.wait_for_messages("nothing", 1)
    await shared.close()
