"""Clocks of namespaces: beside the server's clock, after a restart, and their scope."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Draft, ManualClock, SubscriptionOptions
from penstock.assembly import open_journal
from penstock.broker.model import SECOND
from penstock.doors.resources import project_of
from penstock.engine.namespaces import NamespaceClock
from tests.unit.services.timed_queue import TimedQueue

DAY = 86400 * SECOND
TOPIC, SUB = "projects/p/topics/t", "projects/p/subscriptions/s"
OTHER, OTHER_SUB = "projects/other/topics/t", "projects/other/subscriptions/s"


def test_a_clock_runs_is_frozen_and_is_moved() -> None:
    base = ManualClock(now=100 * SECOND)
    clock, rung = NamespaceClock(base), list[tuple[str, int]]()
    for name, at in (("first", 110), ("second", 130), ("third", 150)):
        clock.alarm(at * SECOND, lambda name=name: rung.append((name, clock.now() // SECOND)))  # type: ignore[misc]
    base.advance(10)
    assert rung == [("first", 110)]
    clock.stand()
    base.advance(1000)
    assert (clock.now(), clock.ahead) == (110 * SECOND, -1000 * SECOND)
    assert len(rung) == 1
    clock.move(140 * SECOND)
    assert rung[1:] == [("second", 140)]
    clock.run()
    base.advance(9)
    assert len(rung) == 2
    base.advance(1)
    assert rung[2:] == [("third", 150)]


def test_a_cancelled_alarm_is_silent_whatever_moves() -> None:
    base = ManualClock(now=0)
    clock = NamespaceClock(base)
    for at in (5, 10):
        clock.alarm(at * SECOND, pytest.fail).cancel()
    base.advance(6)
    clock.move(20 * SECOND)
    assert clock.next_alarm() > 20 * SECOND


def test_the_wall_of_a_clock_is_as_far_away_as_that_of_its_base() -> None:
    base = ManualClock(now=1000 * SECOND)
    base.set_wall(-60)
    clock = NamespaceClock(base)
    clock.move(5000 * SECOND)
    assert clock.wall() == (5000 - 60) * SECOND


MOVES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["stand", "run", "dump"]), st.just(0)),
        st.tuples(st.sampled_from(["move", "base", "not before"]), st.integers(0, 10 * DAY)),
    )
)


@given(MOVES)
def test_time_never_goes_back_and_is_in_the_dump(moves: list[tuple[str, int]]) -> None:
    base = ManualClock(now=DAY)
    clock = NamespaceClock(base)
    for move, by in moves:
        before = clock.now()
        if move == "stand":
            clock.stand()
        elif move == "run":
            clock.run()
        elif move == "dump":
            clock = NamespaceClock.load(base, clock.dump())
        elif move == "move":
            clock.move(before + by - DAY)
        elif move == "base":
            base.advance(by / SECOND)
        else:
            clock.not_before(by)
        assert clock.now() >= before


# ---------------------------------------------------------------------- after a restart


def opened(folder: Path, clock: ManualClock) -> TimedQueue:
    return TimedQueue(open_journal(folder), clock=clock, namespace_of=project_of)


async def fill(queue: TimedQueue) -> None:
    await queue.start()
    for topic, subscription in ((TOPIC, SUB), (OTHER, OTHER_SUB)):
        await queue.create_topic(topic)
        await queue.create_subscription(subscription, topic, SubscriptionOptions(lease_seconds=10))
    await queue.time.freeze("p")
    await queue.time.advance("p", 8 * 86400)
    for topic, subscription in ((TOPIC, SUB), (OTHER, OTHER_SUB)):
        await queue.publish(topic, [Draft(b"m")])
        await queue.pull(subscription, 1)


def test_a_frozen_namespace_keeps_its_time_and_does_not_affect_others(tmp_path: Path) -> None:
    """No lease lasts longer than its own length."""
    clock = ManualClock()
    began = clock.now()

    async def story() -> None:
        queue = opened(tmp_path, clock)
        await fill(queue)
        await queue.close()
        clock.advance(3600)
        queue = opened(tmp_path, clock)
        await queue.start()
        assert clock.now() == began + 3600 * SECOND, "the server's time did not change"
        assert (await queue.time.show("p")).now == began + 8 * DAY
        assert (await queue.time.show("p")).mode == "frozen"
        assert [each.message.data for each in await queue.pull(OTHER_SUB, 1)] == [b"m"]
        assert await queue.pull(SUB, 1) == []
        await queue.time.advance("p", 10)
        assert [each.message.data for each in await queue.pull(SUB, 1)] == [b"m"]
        await queue.close()

    asyncio.run(story())


def test_a_running_clock_stays_as_far_ahead_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    began = clock.now()

    async def story() -> None:
        queue = opened(tmp_path, clock)
        await fill(queue)
        await queue.time.release("p")
        await queue.close()
        clock.advance(11)
        queue = opened(tmp_path, clock)
        await queue.start()
        shown = await queue.time.show("p")
        assert (shown.mode, shown.now) == ("running", began + 8 * DAY + 11 * SECOND)
        assert [each.message.data for each in await queue.pull(SUB, 1)] == [b"m"]
        await queue.close()

    asyncio.run(story())


def test_a_server_killed_while_time_was_moved_continues_at_the_last_known_time(tmp_path: Path) -> None:
    clock = ManualClock()

    async def story() -> None:
        queue = opened(tmp_path, clock)
        await fill(queue)
        own = queue.engine.own_clocks["p"]
        own.move(own.now() + 600 * SECOND)  # and its document does not mention it
        sent = await queue.publish(TOPIC, [Draft(b"late")])
        await queue.loop.end()
        queue.engine.commits.close()
        queue = opened(tmp_path, clock)
        await queue.start()
        assert (await queue.time.show("p")).now == sent.at
        await queue.close()

    asyncio.run(story())


def test_endless_leases_of_a_namespace_end_in_its_own_time(tmp_path: Path) -> None:
    clock = ManualClock()

    async def story() -> None:
        queue = opened(tmp_path, clock)
        await queue.start()
        await queue.time.freeze("p", 1_000_000_000 * SECOND)
        await queue.create_topic(TOPIC)
        await queue.create_subscription(SUB, TOPIC)
        await queue.publish(TOPIC, [Draft(b"m")])
        assert await queue.pull(SUB, 1, lease_seconds=float("inf"))
        await queue.close()
        queue = opened(tmp_path, clock)
        await queue.start()
        assert [each.message.data for each in await queue.pull(SUB, 1)] == [b"m"]
        await queue.close()

    asyncio.run(story())
