"""Leases: the held messages, their size, and their release."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ManualClock
from penstock.broker.consuming import Delivery
from penstock.broker.model import Message as Stored
from penstock.pubsub.leases import Leases
from penstock.pubsub.message import Received


class Store:
    """Leases, their clock, and the calls that they made."""

    def __init__(self, max_extension_seconds: float = 0) -> None:
        self.clock = ManualClock(now=0)
        self.freed = 0
        self.extended: list[tuple[int, float]] = []
        me: Any = self  # stands for the acks and the signal
        self.leases = Leases(self.clock, me, me)
        self.leases.max_extension_seconds = max_extension_seconds

    def wake(self) -> None:
        self.freed += 1

    def hold(self, messages: list[Received], seconds: float) -> None:
        self.extended.append((len(messages), seconds))

    def add(self, count: int = 1, lease_seconds: float = 10, size: int = 5) -> list[Received]:
        messages = [message(size, self.clock.now()) for _ in range(count)]
        self.leases.add(messages, lease_seconds)
        return messages

    @property
    def held(self) -> tuple[int, int]:
        return len(self.leases.held), self.leases.bytes


def message(size: int, now: int) -> Received:
    stored = Stored(b"x" * size, {}, "", now, 0, 0, size, 0, 0)
    acks: Any = None
    return Received(Delivery(stored, 1, 2, 3, 1), acks, now)


def test_an_answered_message_is_released_once() -> None:
    store = Store()
    first, _ = store.add(2)
    assert store.held == (2, 10)
    store.leases.release(first)
    store.leases.release(first)
    assert store.held == (1, 5)
    assert store.freed == 1


def test_an_unanswered_message_is_released_when_its_lease_ends() -> None:
    store = Store()
    messages = store.add(3)
    store.leases.release(messages[1])
    store.clock.advance(9.9)
    assert store.held == (2, 10)
    store.clock.advance(0.1)
    assert store.held == (0, 0)
    assert store.clock.alarms == 0


def test_a_moved_lease_ends_at_its_new_time() -> None:
    store = Store()
    early, late, usual = store.add(3)
    store.leases.move(early, 1)
    store.leases.move(late, 60)
    store.clock.advance(2)
    assert early not in list(store.leases.held)
    store.clock.advance(10)
    assert list(store.leases.held) == [late]
    assert usual not in store.leases.held
    store.clock.advance(60)
    assert store.held == (0, 0)


def test_leases_are_extended_up_to_the_maximum() -> None:
    store = Store(max_extension_seconds=25)
    store.add(2, lease_seconds=10)
    store.clock.advance(24.9)
    assert store.held == (2, 10)
    assert [count for count, _ in store.extended] == [2, 2]
    assert sum(seconds for _, seconds in store.extended) == pytest.approx(10 + 9)
    store.clock.advance(0.2)
    assert store.held == (0, 0)


def test_a_maximum_below_the_lease_extends_nothing() -> None:
    store = Store(max_extension_seconds=5)
    store.add(1, lease_seconds=10)
    store.clock.advance(9.9)
    assert store.held == (1, 5)
    store.clock.advance(0.1)
    assert (store.held, store.extended) == ((0, 0), [])


def test_clear_returns_the_held_messages() -> None:
    store = Store()
    messages = store.add(2) + store.add(1, lease_seconds=99)
    store.leases.release(messages[0])
    assert store.leases.clear() == messages[1:]
    assert store.held == (0, 0)
    assert store.clock.alarms == 0


def test_empty_batches_are_removed() -> None:
    """A stream that acks at once must not accumulate the batches of the last ten seconds."""
    store = Store()
    for _ in range(1000):
        for each in store.add(2):
            store.leases.release(each)
    assert len(store.leases._batches) <= 2
    assert store.clock.alarms <= 1


@given(
    st.lists(st.tuples(st.sampled_from(["add", "release", "move", "wait", "clear"]), st.integers(0, 30)), max_size=40)
)
def test_counts_match_the_held_messages(steps: list[tuple[str, int]]) -> None:
    store = Store(max_extension_seconds=15)
    known: list[Received] = []
    for action, number in steps:
        if action == "add":
            known += store.add(1 + number % 3, lease_seconds=1 + number, size=number)
        elif action == "wait":
            store.clock.advance(number / 4)
        elif action == "clear":
            store.leases.clear()
        elif known and action == "release":
            store.leases.release(known[number % len(known)])
        elif known:
            store.leases.move(known[number % len(known)], 1 + number)
        held = list(store.leases.held)
        assert len(held) == len(set(held)) == len(store.leases.held)
        assert sum(each.length for each in held) == store.leases.bytes
        assert store.clock.alarms == bool(held) or store.clock.alarms <= 1
    store.clock.advance(100)
    assert store.held == (0, 0)
