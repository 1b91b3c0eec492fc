"""The clock of a namespace: it moves from one due time to the next, like time that passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import (
    Draft,
    FailedPreconditionError,
    InvalidArgumentError,
    Limits,
    SubscriptionOptions,
    TopicOptions,
)
from penstock.broker.model import FOREVER, SECOND
from penstock.doors.resources import project_of
from penstock.engine.clock import turns
from penstock.errors import UnavailableError
from penstock.journal.memory import MemoryJournal
from penstock.services.time_travel.time_travel import Pace
from tests.unit.engine.virtual import LoopClock, run
from tests.unit.services.timed_queue import TimedQueue

P, OTHER = "p", "other"
TOPIC, DEAD, ELSEWHERE = "projects/p/topics/t", "projects/p/topics/dead", "projects/other/topics/t"
SUB, DEAD_SUB, ELSEWHERE_SUB = "projects/p/subscriptions/s", "projects/p/subscriptions/dead", "projects/other/subs/s"


async def opened(**limits: Any) -> TimedQueue:
    clock = LoopClock(asyncio.get_running_loop())
    queue = TimedQueue(MemoryJournal(), clock=clock, limits=Limits(**limits), namespace_of=project_of)
    await queue.start()
    return queue


def story(test: Callable[[TimedQueue], Any]) -> Callable[[], None]:
    async def told() -> None:
        queue = await opened()
        await queue.create_topic(TOPIC)
        await queue.create_subscription(SUB, TOPIC, SubscriptionOptions(lease_seconds=10))
        await queue.create_topic(ELSEWHERE)
        await queue.create_subscription(ELSEWHERE_SUB, ELSEWHERE, SubscriptionOptions(lease_seconds=10))
        await test(queue)
        await queue.close()

    def wrapped() -> None:
        run(told())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


async def data_of(queue: TimedQueue, name: str, **how: Any) -> list[bytes]:
    return [each.message.data for each in await queue.pull(name, 10, **how)]


@story
async def test_a_lease_ends_only_in_the_project_whose_time_is_moved(queue: TimedQueue) -> None:
    for topic, subscription in ((TOPIC, SUB), (ELSEWHERE, ELSEWHERE_SUB)):
        await queue.publish(topic, [Draft(b"m")])
        assert await data_of(queue, subscription) == [b"m"]
    server = queue.clock.now()
    await queue.time.advance(P, 9.999)
    assert await data_of(queue, SUB) == []
    shown = await queue.time.advance(P, 0.001)
    assert (shown.mode, shown.ahead, queue.clock.now()) == ("running", 10 * SECOND, server)
    assert await data_of(queue, SUB) == [b"m"]
    assert await data_of(queue, ELSEWHERE_SUB) == []
    assert (await queue.time.show(OTHER)).mode == "shared"


@story
async def test_a_frozen_clock_stops_every_duration(queue: TimedQueue) -> None:
    await queue.time.freeze(P)
    await queue.publish(TOPIC, [Draft(b"soon", delay_seconds=5), Draft(b"now")])
    assert await data_of(queue, SUB) == [b"now"]
    await asyncio.sleep(3600)  # seconds of the server
    assert await data_of(queue, SUB) == []
    await queue.time.advance(P, 5)
    assert await data_of(queue, SUB) == [b"soon"]


@story
async def test_a_waiting_pull_is_woken_at_the_due_time(queue: TimedQueue) -> None:
    await queue.time.freeze(P)
    await queue.publish(TOPIC, [Draft(b"later", delay_seconds=600)])
    waiting = asyncio.create_task(data_of(queue, SUB, wait_seconds=1000))
    await asyncio.sleep(500)
    assert not waiting.done()
    assert (await queue.time.show(P)).next_due == queue.clock_of(TOPIC).now() + 600 * SECOND
    await queue.time.advance(P, 600)
    assert waiting.done()
    assert await waiting == [b"later"]


@story
async def test_a_pull_that_waits_when_time_is_stopped_keeps_waiting(queue: TimedQueue) -> None:
    """The alarm of the waiting call was set on the server's clock."""
    await queue.publish(TOPIC, [Draft(b"later", delay_seconds=60)])
    waiting = asyncio.create_task(data_of(queue, SUB, wait_seconds=1000))
    await asyncio.sleep(1)
    await queue.time.freeze(P)
    await asyncio.sleep(100)
    assert not waiting.done()
    await queue.time.release(P)
    await asyncio.sleep(58)
    assert not waiting.done()
    await asyncio.sleep(1.1)
    assert await waiting == [b"later"]


@story
async def test_a_wait_is_as_long_as_its_caller_asked_by_the_time_of_its_caller(queue: TimedQueue) -> None:
    await queue.time.freeze(P)
    begun = queue.clock.now()
    assert await data_of(queue, SUB, wait_seconds=30) == []
    assert queue.clock.now() - begun == 30 * SECOND


@story
async def test_time_does_not_go_back(queue: TimedQueue) -> None:
    await queue.time.advance(P, 61)
    now = queue.clock_of(TOPIC).now()
    for moved in (
        queue.time.freeze(P, now - SECOND),
        queue.time.advance(P, until=now - SECOND),
        queue.time.release(P, catch_up=True),
    ):
        with pytest.raises(FailedPreconditionError, match=r"Time does not go back: p is .* seconds ahead of that"):
            await moved
    assert queue.clock_of(TOPIC).now() >= now
    assert (await queue.time.freeze(P, now + SECOND)).now == now + SECOND


@story
async def test_time_has_bounds_and_a_move_beyond_them_changes_nothing(queue: TimedQueue) -> None:
    """64 bits of nanoseconds end in 2262, and every duration must end before that."""
    await queue.time.freeze(P)
    now = queue.clock_of(TOPIC).now()
    for moved in (
        queue.time.freeze(P, 2**63 - 1),
        queue.time.freeze("new", 0),
        queue.time.advance(P, until=300 * 366 * 86400 * SECOND),
        queue.time.advance(P, 200 * 366 * 86400),
    ):
        with pytest.raises(InvalidArgumentError, match="Time can be moved from 1971-01-01 to 2200-01-01"):
            await moved
    assert queue.clock_of(TOPIC).now() == now
    latest = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp()) * SECOND
    await queue.time.advance(P, until=latest)
    await queue.publish(TOPIC, [Draft(b"m", delay_seconds=600)])
    await queue.time.freeze("new", int(datetime(1971, 1, 1, tzinfo=UTC).timestamp()) * SECOND)


@story
async def test_a_namespace_may_be_forgotten_while_its_time_is_moved(queue: TimedQueue) -> None:
    (number,) = [each.number for each in await queue.subscriptions(TOPIC)]
    queue.connect_consumer(number, "stream", 10)
    await queue.publish(TOPIC, [Draft(b"m")])
    await queue.pull(SUB, 1, holder="stream")
    moving = asyncio.create_task(queue.time.advance(P, 60, pace=Pace(patience_seconds=5)))
    await asyncio.sleep(1)
    assert not moving.done()
    await queue.delete_topic(TOPIC)
    await queue.time.forget(P)
    await moving
    assert await queue.documents("clocks") == {}, "otherwise a restarted server would have it"
    assert (await queue.time.show(P)).mode == "shared"


@story
async def test_an_empty_namespace_begins_when_it_likes(queue: TimedQueue) -> None:
    then = 1_000_000_000 * SECOND
    assert (await queue.time.freeze("new", then)).now == then
    made = await queue.create_topic("projects/new/topics/t")
    assert made.created_at == then
    assert (await queue.publish("projects/new/topics/t", [Draft(b"m")])).at == then


@story
async def test_catching_up_makes_it_one_with_the_server_again(queue: TimedQueue) -> None:
    await queue.time.freeze(P)
    await queue.publish(TOPIC, [Draft(b"m")])
    await data_of(queue, SUB)
    await asyncio.sleep(60)
    shown = await queue.time.release(P, catch_up=True)
    assert (shown.mode, shown.now) == ("shared", queue.clock.now())
    assert not queue.engine.own_clocks
    assert await queue.documents("clocks") == {}
    assert await data_of(queue, SUB) == [b"m"]


@story
async def test_a_clock_that_is_not_ahead_catches_up(queue: TimedQueue) -> None:
    """After two looks at running clocks, the later one is ahead."""
    await queue.time.advance(P, 0)
    now, ticks = queue.clock.now, count(1)
    with patch.object(queue.clock, "now", lambda: now() + next(ticks)):
        shown = await queue.time.release(P, catch_up=True)
    assert shown.mode == "shared"


# ---------------------------------------------------------------------- durations


@story
async def test_retention_holds_from_the_first_answer_on(queue: TimedQueue) -> None:
    await queue.change_subscription(SUB, SubscriptionOptions(retention_seconds=7 * 86400))
    await queue.publish(TOPIC, [Draft(b"old")])
    await queue.time.advance(P, 7 * 86400 - 5)
    await queue.publish(TOPIC, [Draft(b"young")])
    assert (await queue.backlog(SUB)).messages == 2
    await queue.time.advance(P, 6)
    assert (await queue.backlog(SUB)).messages == 1
    assert await data_of(queue, SUB) == [b"young"]


@story
async def test_an_unused_subscription_expires_and_one_with_a_waiting_pull_does_not(queue: TimedQueue) -> None:
    day = 86400
    await queue.create_subscription("projects/p/subscriptions/idle", TOPIC, SubscriptionOptions(expiration_seconds=day))
    await queue.change_subscription(SUB, SubscriptionOptions(expiration_seconds=day))
    await queue.change_subscription(ELSEWHERE_SUB, SubscriptionOptions(expiration_seconds=day))
    waiting = asyncio.create_task(data_of(queue, SUB, wait_seconds=1000))
    await asyncio.sleep(0)
    await queue.time.advance(P, 3 * day)
    assert {each.name for each in await queue.subscriptions()} == {SUB, ELSEWHERE_SUB}
    waiting.cancel()


@story
async def test_snapshots_expire(queue: TimedQueue) -> None:
    await queue.create_snapshot("projects/p/snapshots/one", SUB)
    await queue.create_snapshot("projects/other/snapshots/one", ELSEWHERE_SUB)
    await queue.time.advance(P, 7 * 86400)
    assert [each.name for each in await queue.snapshots()] == ["projects/other/snapshots/one"]


@story
async def test_a_dead_letter_is_dated_where_it_arrives(queue: TimedQueue) -> None:
    options = SubscriptionOptions(lease_seconds=10, dead_letter_topic=ELSEWHERE, max_delivery_attempts=1)
    await queue.change_subscription(SUB, options)
    await queue.time.advance(P, 86400)
    await queue.publish(TOPIC, [Draft(b"bad")])
    await queue.pull(SUB, 1)
    await queue.time.advance(P, 11)
    (delivery,) = await queue.pull(ELSEWHERE_SUB, 1)
    assert delivery.message.publish_time == queue.clock.now()
    sent = await queue.publish(ELSEWHERE, [Draft(b"next")])
    assert sent.at == queue.clock.now()


@story
async def test_a_subscription_has_the_time_of_its_topic(queue: TimedQueue) -> None:
    await queue.create_subscription("projects/other/subscriptions/reader", TOPIC, SubscriptionOptions(lease_seconds=10))
    await queue.publish(TOPIC, [Draft(b"m")])
    assert await data_of(queue, "projects/other/subscriptions/reader") == [b"m"]
    await queue.time.advance(OTHER, 60)
    assert await data_of(queue, "projects/other/subscriptions/reader") == []
    await queue.time.advance(P, 10)
    assert await data_of(queue, "projects/other/subscriptions/reader") == [b"m"]


# ---------------------------------------------------------------------- connected consumers


@story
async def test_leases_of_a_connected_consumer_are_extended_for_an_hour(queue: TimedQueue) -> None:
    (number,) = [each.number for each in await queue.subscriptions(TOPIC)]
    queue.connect_consumer(number, "stream", 10)
    await queue.publish(TOPIC, [Draft(b"m")])
    assert await data_of(queue, SUB, holder="stream") == [b"m"]
    waiting = asyncio.create_task(data_of(queue, SUB, holder="other", wait_seconds=1000))
    await queue.time.advance(P, 3599)
    assert not waiting.done()
    await queue.time.advance(P, 1)
    assert waiting.done()
    assert await waiting == [b"m"]


@story
async def test_without_extension_or_connection_a_lease_ends_when_it_ends(queue: TimedQueue) -> None:
    (number,) = [each.number for each in await queue.subscriptions(TOPIC)]
    queue.connect_consumer(number, "stream", 10)
    await queue.publish(TOPIC, [Draft(b"m")])
    assert await data_of(queue, SUB, holder="stream") == [b"m"]
    await queue.time.advance(P, 30, pace=Pace(extension_seconds=0))
    assert await data_of(queue, SUB, holder="stream") == [b"m"]
    queue.disconnect_consumer(number, "stream")
    await queue.time.advance(P, 30)
    assert await data_of(queue, SUB) == [b"m"]


@story
async def test_a_consumer_has_time_to_answer_before_time_moves_on(queue: TimedQueue) -> None:
    """A nack that takes a tenth of a real second is a nack at the time of the delivery."""
    options = SubscriptionOptions(lease_seconds=10, retry_minimum_seconds=10, retry_maximum_seconds=600)
    await queue.change_subscription(SUB, options)
    began, seen = queue.clock_of(TOPIC).now(), list[float]()

    async def consume() -> None:
        while True:
            for delivery in await queue.pull(SUB, 1, wait_seconds=10_000):
                seen.append((queue.clock_of(TOPIC).now() - began) / SECOND)
                await asyncio.sleep(0.1)
                await queue.nack([delivery.receipt])

    consumer = asyncio.create_task(consume())
    await queue.time.freeze(P)
    await queue.publish(TOPIC, [Draft(b"m")])
    await asyncio.sleep(1)
    await queue.time.advance(P, 1900)
    assert seen == [0, 10, 30, 70, 150, 310, 630, 1230, 1830]
    consumer.cancel()


@story
async def test_a_message_that_is_nacked_again_and_again_does_not_stop_time(
    queue: TimedQueue,
) -> None:
    seen = list[int]()

    async def consume() -> None:
        while True:
            for delivery in await queue.pull(SUB, 1, wait_seconds=10_000):
                seen.append(queue.clock_of(TOPIC).now())
                await asyncio.sleep(0.01)
                await queue.nack([delivery.receipt])

    consumer = asyncio.create_task(consume())
    await queue.time.freeze(P)
    await queue.publish(TOPIC, [Draft(b"poison")])
    real = queue.clock.now()
    await queue.time.advance(P, 3600)
    assert queue.clock.now() - real < SECOND, "it would have been 10 seconds at every stop"
    assert len(seen) >= 10
    await asyncio.sleep(1)
    assert seen[-1] - seen[0] == 3600 * SECOND
    consumer.cancel()


@story
async def test_an_automatic_clock_moves_to_the_next_awaited_event(queue: TimedQueue) -> None:
    await queue.time.automate(P)
    began = queue.clock_of(TOPIC).now()
    await queue.publish(TOPIC, [Draft(b"later", delay_seconds=3600)])
    await asyncio.sleep(10)
    assert queue.clock_of(TOPIC).now() == began, "no caller waits"
    assert await data_of(queue, SUB, wait_seconds=5) == [b"later"]
    assert queue.clock_of(TOPIC).now() == began + 3600 * SECOND
    assert (await queue.time.show(P)).mode == "automatic"
    await queue.time.freeze(P)
    await queue.publish(TOPIC, [Draft(b"never", delay_seconds=1)])
    assert await data_of(queue, SUB, wait_seconds=5) == []


@story
async def test_a_polling_consumer_counts_as_waiting_until_it_gets_a_message(queue: TimedQueue) -> None:
    await queue.time.automate(P)
    began = queue.clock_of(TOPIC).now()
    await queue.publish(TOPIC, [Draft(b"later", delay_seconds=60)])
    assert await data_of(queue, SUB) == []
    await asyncio.sleep(10)
    assert queue.clock_of(TOPIC).now() == began + 60 * SECOND
    assert await data_of(queue, SUB) == [b"later"]
    await asyncio.sleep(10)
    assert queue.clock_of(TOPIC).now() == began + 60 * SECOND, "its consumer may be busy with it"
    await queue.publish(TOPIC, [Draft(b"last", delay_seconds=5)])
    await asyncio.sleep(10)
    assert queue.clock_of(TOPIC).now() == began + 60 * SECOND, "no consumer has asked again"


@story
async def test_time_does_not_skip_while_a_connected_consumer_holds_something(queue: TimedQueue) -> None:
    (number,) = [each.number for each in await queue.subscriptions(TOPIC)]
    queue.connect_consumer(number, "stream", 10)
    await queue.time.automate(P)
    await queue.publish(TOPIC, [Draft(b"m"), Draft(b"later", delay_seconds=60)])
    (delivery,) = await queue.pull(SUB, 1, holder="stream")
    waiting = asyncio.create_task(data_of(queue, SUB, wait_seconds=1000))
    await asyncio.sleep(10)
    assert not waiting.done()
    await queue.ack([delivery.receipt])
    await asyncio.sleep(1)
    assert await waiting == [b"later"]


# ---------------------------------------------------------------------- the same effects as real time


class World(NamedTuple):
    """The configuration and the steps of a generated history, with the answers of its consumers."""

    lease: int
    backoff: tuple[int, int]
    attempts: int  # before a dead letter; 0 means no dead letters
    retention: int
    steps: list[tuple[str, int, int]]  # publish with a delay and a time to live, or let time pass
    answers: list[str]  # of the consumer, one after the other


class Seen(NamedTuple):
    deliveries: list[tuple[int, bytes, int]]
    backlog: int
    in_flight: int
    dead: list[tuple[bytes, int]]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from([0, 0, 7, 300]), st.sampled_from([0, 0, 20, 900])),
        st.tuples(st.just("pass"), st.sampled_from([1, 5, 10, 33, 100, 650]), st.just(0)),
    ),
    max_size=8,
)
WORLDS = st.builds(
    World,
    st.sampled_from([10, 60]),
    st.sampled_from([(0, 0), (10, 600), (3, 3)]),
    st.sampled_from([0, 2, 5]),
    st.sampled_from([600, 86400]),
    STEPS,
    st.lists(st.sampled_from(["ack", "nack", "keep"]), max_size=20),
)


async def live(world: World, *, travel: bool) -> Seen:
    queue = await opened()
    await queue.create_topic(TOPIC, TopicOptions(retention_seconds=world.retention))
    await queue.create_topic(DEAD)
    await queue.create_subscription(DEAD_SUB, DEAD)
    options = SubscriptionOptions(
        lease_seconds=world.lease,
        retry_minimum_seconds=world.backoff[0],
        retry_maximum_seconds=world.backoff[1],
        dead_letter_topic=DEAD if world.attempts else "",
        max_delivery_attempts=world.attempts or 5,
        retention_seconds=world.retention,
    )
    await queue.create_subscription(SUB, TOPIC, options)
    began, deliveries, answers = queue.clock.now(), list[tuple[int, bytes, int]](), iter(world.answers)

    def since(at: int) -> int:
        return round((at - began) / SECOND)

    async def consume() -> None:
        while True:
            try:
                pulled = await queue.pull(SUB, 1, wait_seconds=1e6)
            except UnavailableError:
                return
            for each in pulled:
                deliveries.append((since(queue.clock_of(TOPIC).now()), each.message.data, each.attempt))
                answer = next(answers, "ack")
                if answer != "keep":
                    await (queue.ack if answer == "ack" else queue.nack)([each.receipt])

    if travel:
        await queue.time.freeze(P)
    consumer = asyncio.create_task(consume())
    for number, (step, one, other) in enumerate(world.steps):
        if step == "publish":
            await queue.publish(TOPIC, [Draft(b"%d" % number, delay_seconds=one, ttl_seconds=other)])
            await turns()
        elif travel:
            await queue.time.advance(P, one)
        else:
            await asyncio.sleep(one)
    backlog = await queue.backlog(SUB) if travel else await _settled(queue)
    dead = [(each.message.data, since(each.message.publish_time)) for each in await queue.pull(DEAD_SUB, 100)]
    consumer.cancel()
    await queue.close()
    return Seen(deliveries, backlog.messages, backlog.in_flight_messages, dead)


async def _settled(queue: TimedQueue) -> Any:
    queue.engine.look_again()
    await queue.pull(DEAD_SUB, 1, lease_seconds=0.000001)  # housekeeping comes first
    await asyncio.sleep(0.001)
    return await queue.backlog(SUB)


@settings(max_examples=40, deadline=None)
@given(WORLDS)
def test_moved_time_has_the_same_effects_as_passing_time(world: World) -> None:
    travelled, lived = run(live(world, travel=True)), run(live(world, travel=False))
    assert travelled == lived


def test_forever_is_no_due_time() -> None:
    async def told() -> None:
        queue = await opened()
        assert (await queue.time.show(P)).next_due == FOREVER
        assert (await queue.time.freeze(P)).next_due == FOREVER
        await queue.close()

    run(told())
