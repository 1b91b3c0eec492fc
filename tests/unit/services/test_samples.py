"""Samples: which resources have a ring, when a ring is reused, and the duration of commits."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock import ManualClock
from penstock.broker.model import SECOND
from penstock.engine.statistics import CommitMeter
from penstock.services import samples
from penstock.services.process import Process
from penstock.services.samples import Samples, quantile
from penstock.services.traffic import Counted, Interval, SubscriptionTraffic


class ToldTraffic:
    """Traffic of the next second, made up by a test."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.topics: dict[int, Counted] = {}
        self.subscriptions: dict[int, SubscriptionTraffic] = {}
        self.numbers = {name: number for number, name in enumerate("abcsz", 1)}
        self.commits = CommitMeter()
        self.watched: list[int] = []

    def take(self, watched: Iterable[int] = ()) -> Interval:
        self.watched = list(watched)
        topics, self.topics = self.topics, {}
        subscriptions, self.subscriptions = self.subscriptions, {}
        return Interval(self.clock.now(), 1.0, topics, subscriptions, 0, 0, 0.0, self.commits.statistics(), {})

    def find_topic(self, name: str) -> int:
        return self.numbers.get(name, 0)

    find_subscription = find_topic

    def close(self) -> None: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def traffic(clock: ManualClock) -> ToldTraffic:
    return ToldTraffic(clock)


@pytest.fixture
def taken(traffic: ToldTraffic, clock: ManualClock) -> Samples:
    made = Samples(traffic, clock, lambda: Process(clock.now() / SECOND / 4, 1000))  # type: ignore[arg-type]
    made.start()
    return made


def busy(traffic: ToldTraffic, clock: ManualClock, *topics: str) -> None:
    traffic.topics = {traffic.numbers[name]: (1, 10) for name in topics}
    clock.advance(1)


def test_the_least_recently_busy_makes_room_once_it_is_idle(
    taken: Samples, traffic: ToldTraffic, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "RINGS_MAX", 2)
    busy(traffic, clock, "a", "b")
    busy(traffic, clock, "b", "c")
    assert set(taken._topics) == {1, 2}, "a was busy a moment ago"
    assert taken.of_topic("c") == [0.5, 5.0], "rates need no ring"
    for _ in range(samples.IDLE_SECONDS):
        busy(traffic, clock, "b")
    busy(traffic, clock, "c")
    assert set(taken._topics) == {2, 3}


def test_a_requested_resource_gets_a_ring_at_once(
    taken: Samples, traffic: ToldTraffic, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "RINGS_MAX", 1)
    busy(traffic, clock, "a")
    assert taken.topic("z", 1, 10).rows == []
    assert set(taken._topics) == {5}
    taken.subscription("s", 1, 10)
    clock.advance(1)
    assert traffic.watched == [4]


def test_processor_time_is_that_of_the_last_second(taken: Samples, clock: ManualClock) -> None:
    clock.advance(1)
    assert taken.cpu == pytest.approx(0.25)
    assert taken.last_row[-2:] == [0.25, 1000]


def test_stopped_it_takes_no_more(taken: Samples, clock: ManualClock) -> None:
    clock.advance(3)
    taken.stop()
    clock.advance(3)
    assert len(taken.server.rows(1, 100).rows) == 3


def test_how_long_commits_took_is_read_from_the_buckets() -> None:
    meter = CommitMeter()
    before = meter.statistics()
    for _ in range(98):
        meter.note(0.0015, facts=1, bytes_written=1)
    for _ in range(2):
        meter.note(0.15, facts=1, bytes_written=1)
    after = meter.statistics()
    assert 0.001 < quantile(before, after, 0.5) <= 0.002
    assert 0.1 < quantile(before, after, 0.99) <= 0.2
    assert quantile(after, after, 0.5) == 0
    meter.note(60, facts=1, bytes_written=1)
    assert quantile(after, meter.statistics(), 0.5) == 5.0, "above all buckets: at least the last bound"
