"""Clocks that ring: in real time by the loop's timers, in tests by hand."""

from __future__ import annotations

import asyncio

import pytest

from penstock import ManualClock, SystemClock
from penstock.broker.model import SECOND
from penstock.faces.clock import sleep_until


def test_alarms_ring_in_their_order_and_at_their_time() -> None:
    clock = ManualClock(now=0)
    rung: list[tuple[str, int]] = []
    for name, seconds in (("second", 2), ("first", 1), ("also second", 2), ("never", 3)):
        clock.alarm(seconds * SECOND, lambda name=name: rung.append((name, clock.now() // SECOND)))  # type: ignore[misc]
    clock.advance(2.5)
    assert rung == [("first", 1), ("second", 2), ("also second", 2)]
    assert clock.now() == 2.5 * SECOND
    assert clock.alarms == 1


def test_an_alarm_set_by_an_alarm_rings_in_the_same_advance() -> None:
    clock = ManualClock(now=0)
    rung: list[int] = []

    def ring() -> None:
        rung.append(clock.now() // SECOND)
        if len(rung) < 5:
            clock.alarm(clock.now() + SECOND, ring)

    clock.alarm(SECOND, ring)
    clock.advance(3)
    assert rung == [1, 2, 3]


def test_a_cancelled_alarm_is_silent() -> None:
    clock = ManualClock()
    alarm = clock.alarm(clock.now(), pytest.fail)
    assert clock.alarms == 1
    alarm.cancel()
    assert clock.alarms == 0
    clock.advance(1)


def test_an_alarm_for_the_past_rings_at_the_next_move() -> None:
    clock = ManualClock(now=5 * SECOND)
    rung: list[int] = []
    clock.alarm(0, lambda: rung.append(clock.now()))
    clock.advance(0)
    assert rung == [5 * SECOND]


def test_sleeping_ends_when_the_clock_says_so() -> None:
    async def story() -> None:
        clock = ManualClock()
        sleeping = asyncio.create_task(sleep_until(clock, clock.now() + 3600 * SECOND))
        await asyncio.sleep(0)
        clock.advance(3599)
        await asyncio.sleep(0)
        assert not sleeping.done()
        clock.advance(1)
        await sleeping
        cancelled = asyncio.create_task(sleep_until(clock, clock.now() + SECOND))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert clock.alarms == 0

    asyncio.run(story())


def test_the_system_clock_rings_in_the_loop() -> None:
    async def story() -> None:
        clock = SystemClock()
        await asyncio.wait_for(sleep_until(clock, clock.now() - SECOND), 5)
        await asyncio.wait_for(sleep_until(clock, clock.now() + SECOND // 1000), 5)

    asyncio.run(story())
