"""A lane: leased, then waiting, then held, always in publish order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.ordering import Lane


def filled(leased: int = 0, held: int = 0) -> Lane:
    lane = Lane()
    for offset in range(leased):
        lane.lease(offset)
    for offset in range(leased, leased + held):
        lane.hold(offset, 10 + offset)
    return lane


def test_the_next_to_leave_is_the_oldest_that_is_not_leased() -> None:
    lane = filled(leased=2, held=2)
    assert (lane.waiting(0), lane.waiting(1), lane.waiting(2)) == (2, 3, None)
    assert (lane.waiting_count(), lane.live[0]) == (2, 0)


def test_a_held_message_that_is_leased_is_no_longer_held() -> None:
    lane = filled(leased=1, held=2)
    lane.lease(1)
    assert (lane.live, lane.leased, list(lane.held), list(lane.held_sizes)) == ([0, 1], 2, [2], [12])


def test_a_message_that_came_back_is_leased_again_in_its_place() -> None:
    lane = filled(leased=3)
    lane.leased = 0  # all messages were returned
    assert lane.waiting(0) == 0
    lane.lease(0)
    assert (lane.live, lane.leased, lane.waiting(0)) == ([0, 1, 2], 1, 1)


def test_a_return_brings_back_the_later_ones() -> None:
    lane = filled(leased=4, held=1)
    assert lane.later_leased(1) == [1, 2, 3]
    assert lane.later_leased(3) == [3]


def test_a_removed_message_makes_room_only_if_it_was_leased() -> None:
    lane = filled(leased=2)
    lane.wait(5)
    lane.leave(5)
    assert (lane.live, lane.leased) == ([0, 1], 2)
    lane.leave(0)
    assert (lane.live, lane.leased) == ([1], 1)
    lane.leave(1)
    assert not lane


@given(st.lists(st.sampled_from(["lease", "hold", "ack first", "ack last", "return"]), max_size=100), st.integers(1, 4))
def test_a_lane_is_always_three_runs_in_order(actions: list[str], window: int) -> None:
    lane, next_offset = Lane(), 0
    for action in actions:
        waiting = lane.waiting(0)
        if action == "hold" and lane:
            lane.hold(next_offset, 1)
            next_offset += 1
        elif action == "lease" and lane.leased < window:
            lane.lease(next_offset if waiting is None else waiting)
            next_offset += waiting is None
        elif action.startswith("ack") and lane.leased:
            lane.leave(lane.live[0 if action == "ack first" else lane.leased - 1])
        elif action == "return" and lane.leased:
            lane.leased -= len(lane.later_leased(lane.live[lane.leased // 2]))
        everything = [*lane.live, *lane.held]
        assert everything == sorted(set(everything))
        assert 0 <= lane.leased <= min(window, len(lane.live))
        assert lane.waiting_count() == len(everything) - lane.leased
        assert lane.waiting(0) == (everything[lane.leased] if lane.leased < len(everything) else None)
        assert bool(lane) == bool(everything)
        assert len(lane.held) == len(lane.held_sizes)
