"""Clocks with alarms: in real time with the loop's timers, and in tests moved by hand."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ManualClock, SystemClock
from penstock.broker.model import SECOND
from penstock.engine.clock import STRETCH_SECONDS, sleep_until
from penstock.errors import InvalidArgumentError
from tests.unit.engine.virtual import run


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


# ---------------------------------------------------------------------- monotonic time and wall time


class Machine:
    """The clocks of a machine that sleeps and whose time is set.

    `counts_sleep` is the behaviour of Linux's CLOCK_BOOTTIME.
    """

    def __init__(self, *, counts_sleep: bool = True) -> None:
        self.wall = 1_700_000_000 * SECOND
        self.elapsed = 5_000 * SECOND
        self.counts_sleep = counts_sleep
        self.clock = SystemClock(lambda: self.wall, lambda: self.elapsed)

    def run(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)
        self.elapsed += int(seconds * SECOND)

    def sleep(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)
        self.elapsed += int(seconds * SECOND) if self.counts_sleep else 0

    def set(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)


@pytest.mark.parametrize("counts_sleep", [False, True])
def test_after_a_sleep_both_times_are_right(counts_sleep: bool) -> None:
    machine = Machine(counts_sleep=counts_sleep)
    machine.clock.now()
    machine.sleep(3600)
    machine.run(0.1)
    assert machine.clock.wall() == machine.wall
    assert machine.clock.now() == machine.wall


def test_a_clock_set_forward_is_followed_soon_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.set(900)
    assert machine.clock.wall() == machine.wall
    machine.run(0.1)
    assert machine.clock.now() == machine.wall
    assert "the clock was set forward by 900.0 s" in caplog.text


def test_a_clock_set_back_shows_on_the_wall_and_stops_nothing() -> None:
    machine = Machine()
    before = machine.clock.now()
    machine.set(-7200)
    assert machine.clock.wall() == machine.wall == before - 7200 * SECOND
    machine.run(10)
    assert machine.clock.now() == before + 10 * SECOND, "ten seconds are ten seconds"


_MOVES = st.tuples(st.sampled_from(["run", "sleep", "set", "set back"]), st.floats(0, 100_000))


@given(st.lists(_MOVES, max_size=30), st.booleans())
def test_time_never_goes_back(moves: list[tuple[str, float]], counts_sleep: bool) -> None:
    """No lease is longer than its seconds, and the wall time is that of the machine."""
    machine = Machine(counts_sleep=counts_sleep)
    before, passed = machine.clock.now(), machine.elapsed
    for move, seconds in moves:
        if move == "set back":
            machine.set(-seconds)
        else:
            getattr(machine, move)(seconds)
        machine.run(0.1)
        now = machine.clock.now()
        assert now - before >= machine.elapsed - passed
        assert now >= machine.wall == machine.clock.wall()
        before, passed = now, machine.elapsed


def test_the_manual_clock_behaves_like_that_of_the_system() -> None:
    """A test of a door may set the wall clock, and then sees the behaviour of a server."""
    clock, machine = ManualClock(1_700_000_000 * SECOND), Machine()
    for seconds in (-3600, 1800, 7200, -60, 60, 5):
        clock.set_wall(seconds)
        machine.set(seconds)
        clock.advance(0.1)
        machine.run(0.1)
        assert (clock.now(), clock.wall()) == (machine.clock.now(), machine.clock.wall())


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_the_manual_clock_is_moved_forward_alone(seconds: float) -> None:
    clock = ManualClock()
    before = clock.now()
    with pytest.raises(InvalidArgumentError, match="Time is moved forward"):
        clock.advance(seconds)
    with pytest.raises(InvalidArgumentError, match="Time is moved forward"):
        asyncio.run(clock.pass_by(seconds))
    assert clock.now() == before


def test_a_long_alarm_looks_at_the_clock_on_its_way() -> None:
    """The timers of the loop stand still while the machine sleeps. An alarm is late by at most one stretch."""

    async def story() -> None:
        loop, machine = asyncio.get_running_loop(), Machine()
        began, rung = loop.time(), loop.create_future()
        machine.clock.alarm(machine.clock.now() + 3600 * SECOND, lambda: rung.set_result(loop.time() - began))
        machine.sleep(4000)
        assert await rung == pytest.approx(STRETCH_SECONDS, abs=0.1)

    run(story())


def test_an_alarm_is_never_early() -> None:
    """The timers of a loop use another clock, in whole milliseconds."""

    async def story() -> None:
        machine, rung = Machine(), list[int]()
        at = machine.clock.now() + SECOND
        machine.clock.alarm(at, lambda: rung.append(machine.clock.now()))
        machine.run(0.9996)
        await asyncio.sleep(1.5)  # seconds of the virtual loop, long after the timer
        assert rung == []
        machine.run(0.0004)
        await asyncio.sleep(0.01)
        assert rung == [at]

    run(story())


def test_a_cancelled_alarm_of_the_system_is_silent() -> None:
    async def story() -> None:
        clock = SystemClock()
        clock.alarm(clock.now() + 25 * SECOND, pytest.fail).cancel()
        await asyncio.sleep(60)  # seconds of the virtual loop, without real time

    run(story())


def test_a_clock_behind_continues_from_a_given_time_until_the_wall_time_reaches_it() -> None:
    """The clock follows the wall time again later, as on a machine that started with a wrong date and was corrected."""
    wall, elapsed = 1_000 * SECOND, 0
    clock = SystemClock(wall=lambda: wall, elapsed=lambda: elapsed)
    clock.not_before(5_000 * SECOND)
    assert clock.now() == 5_000 * SECOND
    wall, elapsed = 1_010 * SECOND, 10 * SECOND
    assert clock.now() == 5_010 * SECOND
    assert clock.wall() == 1_010 * SECOND
    wall, elapsed = 6_000 * SECOND, 11 * SECOND
    assert clock.now() == 6_000 * SECOND
    clock.not_before(3_000 * SECOND)
    assert clock.now() == 6_000 * SECOND
