"""Timers: they end in order, are kept for the remaining messages, and cost nothing without messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.leases import Timer, Timers
from penstock.broker.model import FOREVER


def taken(timers: Timers, now: int) -> list[int]:
    dues = []
    while (timer := timers.take_due(now)) is not None:
        dues.append(timer.due)
    return dues


def test_timers_come_when_they_are_due_and_the_earliest_first() -> None:
    timers = Timers()
    for due in (30, 10, 20):
        timers.make(due, [due])
    assert (timers.next_due(), len(timers)) == (10, 3)
    assert taken(timers, 9) == []
    assert taken(timers, 20) == [10, 20]
    assert (timers.next_due(), len(timers)) == (30, 1)


def test_nothing_is_due_without_timers() -> None:
    timers = Timers()
    assert (timers.next_due(), timers.take_due(FOREVER), len(timers)) == (FOREVER, None, 0)


def test_an_endless_lease_needs_no_timer() -> None:
    timers = Timers()
    assert timers.make(FOREVER, [1]) is None
    timers.leave(None)
    assert len(timers) == 0


def test_a_timer_is_kept_until_the_last_has_left() -> None:
    timers = Timers()
    timer = timers.make(10, [1, 2])
    timers.leave(timer)
    assert timers.next_due() == 10
    timers.leave(timer)
    assert timers.next_due() == FOREVER
    assert taken(timers, 100) == []


def test_timers_of_the_same_moment_come_in_the_order_of_making() -> None:
    timers = Timers()
    for number in range(100):
        timers.make(5, [number])
    offsets = []
    while (timer := timers.take_due(5)) is not None:
        offsets += timer.offsets
    assert offsets == list(range(100))


def test_a_timer_put_back_comes_again() -> None:
    timers = Timers()
    timers.make(5, [1])
    timer = timers.take_due(5)
    assert timer is not None
    assert timers.take_due(5) is None
    timers.put_back(timer)
    assert timers.take_due(5) is timer


def test_abandoned_timers_are_swept() -> None:
    timers = Timers()
    for number in range(100_000):
        timers.leave(timers.make(10**9 + number, [number]))
    assert len(timers) == 0
    assert len(timers._heap) < 200


@given(st.lists(st.tuples(st.sampled_from(["make", "leave", "take", "again"]), st.integers(0, 50)), max_size=200))
def test_timers_agree_with_a_list(steps: list[tuple[str, int]]) -> None:
    timers, kept, out = Timers(), [], []
    for action, number in steps:
        if action == "make":
            made = timers.make(number, [number])
            assert made is not None
            kept.append(made)
        elif action == "leave" and kept:
            timers.leave(kept.pop(number % len(kept)))
        elif action == "again" and out:
            back: Timer = out.pop()
            timers.put_back(back)
            kept.append(back)
        elif action == "take":
            found = timers.take_due(number)
            due = [each for each in kept if each.due <= number]
            assert (found is None) == (not due)
            if found is not None:
                assert found.due == min(each.due for each in due)
                kept.remove(found)
                out.append(found)
        assert len(timers) == len(kept)
        assert timers.next_due() == min((each.due for each in kept), default=FOREVER)
