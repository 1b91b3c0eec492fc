"""A store that is reopened with a clock behind the last one: durations keep their length, counted from the start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from penstock import Draft, Limits, ManualClock, MessageQueue, SubscriptionOptions, TopicOptions
from tests.simulation.stores import MemoryStore, SqliteStore

START = 1_700_000_000
HOUR = 3600
Again: TypeAlias = Callable[[MessageQueue], tuple[MessageQueue, ManualClock]]


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: pytest.FixtureRequest) -> Iterator[MemoryStore | SqliteStore]:
    store = request.param(clock=ManualClock(START * 10**9), limits=Limits())
    yield store
    store.remove()


@pytest.fixture(params=["closed", "killed"])
def again(request: pytest.FixtureRequest, store: MemoryStore | SqliteStore) -> Again:
    """Reopen the store with a clock that is an hour behind."""

    def reopen(queue: MessageQueue) -> tuple[MessageQueue, ManualClock]:
        clock = store.parts["clock"] = ManualClock((START - HOUR) * 10**9)
        if request.param == "killed":
            return store.crash(queue), clock
        queue.close()
        return store.open(), clock

    return reopen


def opened(store: MemoryStore | SqliteStore, options: SubscriptionOptions) -> tuple[MessageQueue, ManualClock]:
    queue = store.open()
    queue.register_topic("topic", TopicOptions(retention_seconds=60))
    queue.register_subscription("sub", "topic", options)
    return queue, store.parts["clock"]


def test_a_lease_ends_after_its_own_length(store: MemoryStore, again: Again) -> None:
    """004 BR-007: the lease ends at most ten seconds after the start, and not after an hour and ten seconds."""
    queue, clock = opened(store, SubscriptionOptions(lease_seconds=10))
    queue.publish("topic", [b"x"])
    clock.advance(5)
    assert queue.pull("sub", 1)
    clock.advance(3)
    queue, clock = again(queue)
    assert not queue.pull("sub", 1)
    clock.advance(10)
    (message,) = queue.pull("sub", 1)
    assert message.delivery_attempt == 2


def test_a_retry_comes_after_its_backoff(store: MemoryStore, again: Again) -> None:
    queue, clock = opened(
        store, SubscriptionOptions(lease_seconds=10, retry_minimum_seconds=20, retry_maximum_seconds=20)
    )
    queue.publish("topic", [b"x"])
    queue.nack(queue.pull("sub", 1)[0].ack_id)
    queue, clock = again(queue)
    clock.advance(19)
    assert not queue.pull("sub", 1)
    clock.advance(1)
    assert queue.pull("sub", 1)


def test_a_delay_and_a_life_end_when_they_should(store: MemoryStore, again: Again) -> None:
    """This includes messages that no consumer has pulled yet."""
    queue, clock = opened(store, SubscriptionOptions())
    queue.publish("topic", [Draft(b"late", delay_seconds=20), Draft(b"mortal", ttl_seconds=15)])
    queue, clock = again(queue)
    clock.advance(15)
    assert not queue.pull("sub", 2)
    clock.advance(5)
    assert [each.data for each in queue.pull("sub", 2)] == [b"late"]


def test_acked_messages_are_retained_for_the_configured_time(store: MemoryStore, again: Again) -> None:
    queue, clock = opened(store, SubscriptionOptions())
    queue.publish("topic", [b"x"])
    queue.ack(queue.pull("sub", 1)[0].ack_id)
    queue, clock = again(queue)
    clock.advance(50)
    queue.pull("sub", 1)
    assert len(queue.read("topic", 0, 1)) == 1
    clock.advance(20)
    queue.pull("sub", 1)
    assert queue.read("topic", 0, 1) == []


def test_publish_times_keep_rising(store: MemoryStore, again: Again) -> None:
    queue, clock = opened(store, SubscriptionOptions())
    queue.publish("topic", [b"1"])
    queue, clock = again(queue)
    for body in (b"2", b"3"):
        clock.advance(1)
        queue.publish("topic", [body])
    first, second, third = (message.publish_time for message in queue.read("topic", 0, 3))
    assert first < second < third


def test_a_warning_is_logged(store: MemoryStore, again: Again, caplog: pytest.LogCaptureFixture) -> None:
    queue, _ = opened(store, SubscriptionOptions())
    with caplog.at_level(logging.WARNING, "penstock"):
        again(queue)
    assert any("clock" in line and "3600" in line for line in caplog.messages)
