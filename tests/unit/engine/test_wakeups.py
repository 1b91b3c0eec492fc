"""Pulls that wait: they are woken exactly when they can continue, and never without a reason.

Time is that of the virtual loop, so `elapsed` is exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from penstock import Draft, NotFoundError, SubscriptionOptions, UnavailableError
from penstock.broker.consuming import Delivery
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from tests.unit.engine.virtual import LoopClock, run

Story = Callable[[AsyncMessageQueue], Coroutine[Any, Any, None]]


def tell(story: Story, **options: Any) -> None:
    """Run a story on a queue with a topic and a subscription."""

    async def main() -> None:
        queue = AsyncMessageQueue(MemoryJournal(), clock=LoopClock(asyncio.get_running_loop()))
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic", SubscriptionOptions(**options))
        try:
            await story(queue)
        finally:
            await queue.close()

    run(main())


async def elapsed(action: Awaitable[Any]) -> tuple[float, Any]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    result = await action
    return round(loop.time() - started, 3), result


def waiting(queue: AsyncMessageQueue, count: int = 1, seconds: float = 60) -> list[asyncio.Task[list[Delivery]]]:
    return [asyncio.ensure_future(queue.pull("sub", 1, wait_seconds=seconds)) for _ in range(count)]


async def settle() -> None:
    """Run every task that is ready."""
    for _ in range(20):
        await asyncio.sleep(0)


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [each.message.data for each in deliveries]


def is_empty(queue: AsyncMessageQueue) -> bool:
    return not queue.loop.wakeups._waiting and not queue.loop.wakeups._topics


def test_a_pull_waits_for_the_given_time() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        assert await elapsed(queue.pull("sub", 1, wait_seconds=7)) == (7, [])
        assert await elapsed(queue.pull("sub", 1)) == (0, [])
        assert is_empty(queue)

    tell(story)


def test_a_publish_ends_the_wait() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        (pull,) = waiting(queue)
        await asyncio.sleep(3)  # seconds of the virtual loop, without real time
        await queue.publish("topic", [Draft(b"a")])
        assert (await elapsed(pull))[0] == 0
        assert bodies(pull.result()) == [b"a"]
        assert is_empty(queue)

    tell(story)


def test_of_ten_thousand_waiting_pulls_one_gets_the_message() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        pulls = waiting(queue, 10_000)
        await settle()
        await queue.publish("topic", [Draft(b"a")])
        await settle()
        done = [pull for pull in pulls if pull.done()]
        assert [bodies(pull.result()) for pull in done] == [[b"a"]]
        looked = queue.engine.broker.state.subscription("sub").stamp
        assert looked == 1
        assert (await elapsed(asyncio.gather(*pulls)))[0] == 60

    tell(story, lease_seconds=600)


def test_a_publish_of_several_wakes_as_many() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        pulls = waiting(queue, 5)
        await settle()
        await queue.publish("topic", [Draft(b"a"), Draft(b"b"), Draft(b"c")])
        await settle()
        assert sorted(b"".join(bodies(pull.result())) for pull in pulls if pull.done()) == [b"a", b"b", b"c"]

    tell(story, lease_seconds=600)


def test_a_lease_that_runs_out_ends_the_wait() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        await queue.publish("topic", [Draft(b"a")])
        await queue.pull("sub", 1)
        seconds, again = await elapsed(queue.pull("sub", 1, wait_seconds=60))
        assert seconds == pytest.approx(10, abs=0.01)
        assert [each.attempt for each in again] == [2]

    tell(story, lease_seconds=10)


def test_a_lease_taken_during_the_wait_ends_it_too() -> None:
    """Two callers wait, and one gets the message and disconnects.

    The other gets the message at the end of the lease.
    """

    async def story(queue: AsyncMessageQueue) -> None:
        pulls = waiting(queue, 2)
        await settle()
        await queue.publish("topic", [Draft(b"a")])
        seconds, (first, second) = await elapsed(asyncio.gather(*pulls))
        assert seconds == pytest.approx(10, abs=0.01)
        assert [each.attempt for each in [*first, *second]] == [1, 2]

    tell(story, lease_seconds=10)


def test_a_delay_that_is_over_ends_the_wait() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        (pull,) = waiting(queue)
        await settle()
        await queue.publish("topic", [Draft(b"a", delay_seconds=5)])
        seconds, deliveries = await elapsed(pull)
        assert (round(seconds, 2), bodies(deliveries)) == (5, [b"a"])

    tell(story)


def test_a_return_with_a_delay_ends_the_wait_when_the_delay_is_over() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        await queue.publish("topic", [Draft(b"a")])
        (leased,) = await queue.pull("sub", 1)
        (pull,) = waiting(queue)
        await settle()
        await queue.nack([leased.receipt], delay_seconds=4)
        seconds, deliveries = await elapsed(pull)
        assert (round(seconds, 2), bodies(deliveries)) == (4, [b"a"])

    tell(story, lease_seconds=600)


def test_a_nack_ends_the_wait() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        await queue.publish("topic", [Draft(b"a")])
        (leased,) = await queue.pull("sub", 1)
        (pull,) = waiting(queue)
        await settle()
        await queue.nack([leased.receipt])
        assert (await elapsed(pull))[0] == 0
        assert [each.attempt for each in pull.result()] == [2]

    tell(story, lease_seconds=600)


@pytest.mark.parametrize("options", [{"ordering": True}, {"flow_max_messages": 1}])
def test_an_ack_that_makes_room_ends_the_wait(options: dict[str, Any]) -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        await queue.publish("topic", [Draft(b"a", ordering_key="k"), Draft(b"b", ordering_key="k")])
        (leased,) = await queue.pull("sub", 1)
        (pull,) = waiting(queue)
        await settle()
        await queue.ack([leased.receipt])
        assert await elapsed(pull) == (0, pull.result())
        assert bodies(pull.result()) == [b"b"]

    tell(story, lease_seconds=600, **options)


def test_a_dead_letter_ends_the_wait_on_its_topic() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        await queue.create_topic("dead")
        await queue.create_subscription("letters", "dead")
        options = SubscriptionOptions(dead_letter_topic="dead", max_delivery_attempts=1)
        await queue.change_subscription("sub", options)
        await queue.publish("topic", [Draft(b"a")])
        (leased,) = await queue.pull("sub", 1)
        pull = asyncio.ensure_future(queue.pull("letters", 1, wait_seconds=60))
        await settle()
        await queue.nack([leased.receipt])
        assert (await elapsed(pull))[0] == 0
        assert bodies(pull.result()) == [b"a"]

    tell(story)


def test_a_seek_ends_the_wait() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        await queue.publish("topic", [Draft(b"a")])
        await queue.pull("sub", 1)
        (pull,) = waiting(queue)
        await settle()
        await queue.seek_to_offset("sub", 0)
        assert await elapsed(pull) == (0, pull.result())
        assert bodies(pull.result()) == [b"a"]

    tell(story, lease_seconds=600)


def test_deleting_the_topic_ends_the_wait_with_nothing() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        pulls = waiting(queue, 3)
        await settle()
        await queue.delete_topic("topic")
        assert await elapsed(asyncio.gather(*pulls)) == (0, [[], [], []])
        assert is_empty(queue)

    tell(story)


def test_deleting_the_subscription_ends_the_wait_with_an_error() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        (pull,) = waiting(queue)
        await settle()
        await queue.delete_subscription("sub")
        with pytest.raises(NotFoundError, match="Subscription not found: sub"):
            await pull
        assert is_empty(queue)

    tell(story)


def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        pulls = waiting(queue, 100)
        await settle()
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)
        assert is_empty(queue)
        await queue.publish("topic", [Draft(b"a")])
        assert bodies(await queue.pull("sub", 1)) == [b"a"]

    tell(story)


def test_the_wake_up_of_a_cancelled_caller_goes_to_the_next() -> None:
    """The first caller is woken and cancelled at the same time. The message must not wait for the next publish."""

    async def story(queue: AsyncMessageQueue) -> None:
        first, second = waiting(queue, 2)
        await settle()
        await queue.publish("topic", [Draft(b"a")])
        first.cancel()
        assert (await elapsed(second))[0] == 0
        assert bodies(second.result()) == [b"a"]
        assert first.cancelled()

    tell(story)


def test_closing_ends_every_wait() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        pulls = waiting(queue, 10)
        await settle()
        await queue.close()
        seconds, outcomes = await elapsed(asyncio.gather(*pulls, return_exceptions=True))
        assert seconds == 0
        assert [type(each) for each in outcomes] == [UnavailableError] * 10
        assert is_empty(queue)

    tell(story)


def test_waiting_for_messages_says_whether_to_look_again() -> None:
    async def story(queue: AsyncMessageQueue) -> None:
        wait = asyncio.ensure_future(queue.wait_for_messages("sub", 60))
        await settle()
        await queue.publish("topic", [Draft(b"a")])
        assert await elapsed(wait) == (0, True)
        await queue.detach_subscription("sub")
        assert await elapsed(queue.wait_for_messages("sub", 60)) == (0, False)

    tell(story)
