"""Samples of each second: of the server, of each door, and of the topics and subscriptions with traffic.

Samples are in memory and bounded. At most RINGS_MAX topics and RINGS_MAX subscriptions have a series. Idle ones make
room for busy ones. A subscription whose backlog changes counts as busy. A series belongs to the number of a topic or a
subscription, so a new resource with an old name starts without samples.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.broker.counts import SAMPLED, SAMPLED_OF_SUBSCRIPTIONS, SAMPLED_OF_TOPICS
from penstock.broker.model import SECOND
from penstock.engine.port import Alarm, Clock
from penstock.engine.statistics import DOOR_COUNTS, CommitStatistics
from penstock.errors import InvalidArgumentError, PenstockError
from penstock.services.process import Process, process
from penstock.services.series import LAST, MOST, Field, Rows, Series
from penstock.services.traffic import (
    GAUGES,
    NO_SUBSCRIPTION_COUNTS,
    NO_TOPIC_COUNTS,
    Counted,
    Interval,
    SubscriptionTraffic,
    Traffic,
)

log = logging.getLogger("penstock.doors.http")

RINGS_MAX = 100  # series of topics, and as many of subscriptions
IDLE_SECONDS = 60  # without traffic, before another resource may replace a series
RATE_SECONDS = 10  # a rate is the mean of this many seconds

TOPIC_FIELDS = tuple(Field(counter.name) for counter in SAMPLED_OF_TOPICS)
SUBSCRIPTION_FIELDS = (
    *(Field(counter.name) for counter in SAMPLED_OF_SUBSCRIPTIONS),
    *(Field(name, LAST) for name in GAUGES),
)
SERVER_FIELDS = (
    *TOPIC_FIELDS,
    *SUBSCRIPTION_FIELDS,
    Field("commits"),
    Field("commit_p50_seconds", MOST),
    Field("commit_p99_seconds", MOST),
    Field("cpu"),
    Field("memory_bytes", LAST),
)
DOOR_FIELDS = tuple(Field(name) for name in DOOR_COUNTS)


class Flow(NamedTuple):
    source: str
    target: str
    per_second: float


class Chosen(NamedTuple):
    """The traffic of some topics and subscriptions, by name."""

    topics: Mapping[str, Counted]
    subscriptions: Mapping[str, SubscriptionTraffic]


class Samples:
    """Takes a sample each second between `start` and `stop`, and then calls `on_sample`."""

    def __init__(self, traffic: Traffic, clock: Clock, used: Callable[[], Process] = process) -> None:
        self._traffic = traffic
        self._clock = clock
        self._used = used
        self._alarm: Alarm | None = None
        now = clock.now()
        self.server = Series(SERVER_FIELDS, now // SECOND)
        self.doors: dict[str, Series] = {}
        self.last_doors: dict[str, dict[str, float]] = {}
        self._topics: OrderedDict[int, Series] = OrderedDict()  # by number, the least recently busy first
        self._subscriptions: OrderedDict[int, Series] = OrderedDict()
        self._busy_at: dict[int, int] = {}  # of every series
        self.recent: deque[Interval] = deque([traffic.take()], RATE_SECONDS + 1)  # the first is the start of the rates
        for number in self.recent[0].subscriptions:  # subscriptions with a backlog from before the start
            self._keep(self._subscriptions, number, SUBSCRIPTION_FIELDS, now // SECOND, asked=False)
        self.process = used()
        self.cpu = 0.0  # of one processor, in the last second
        self.totals = dict.fromkeys((counter.name for counter in SAMPLED), 0)  # since the start of the server
        self.last_row: Sequence[float] = [0.0] * len(SERVER_FIELDS)
        self.on_sample: list[Callable[[Interval], None]] = []

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        self._alarm = self._clock.alarm((self._clock.now() // SECOND + 1) * SECOND, self._ring)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._traffic.close()

    def _ring(self) -> None:
        try:
            self.take()
        except PenstockError as error:  # the queue is closed
            log.debug("no sample: %s", error.message)
            return
        finally:
            self.start()

    def take(self) -> None:
        interval = self._traffic.take(self._subscriptions)
        at, seconds = interval.at // SECOND, max(1, round(interval.seconds))  # a count divided by the seconds is a rate
        before, self.process = self.process, self._used()
        self.cpu = max(0.0, self.process.cpu_seconds - before.cpu_seconds) / (interval.seconds or 1.0)
        last = self.recent[-1]
        self.recent.append(interval)
        counted = _sums(interval)
        self.totals = {name: was + new for (name, was), new in zip(self.totals.items(), counted, strict=True)}
        self.last_row = [
            *(round(count / seconds, 3) for count in counted),
            interval.backlog_messages,
            interval.in_flight_messages,
            round(interval.oldest_age_seconds, 3),
            round((interval.commit.commits - last.commit.commits) / seconds, 3),
            quantile(last.commit, interval.commit, 0.5),
            quantile(last.commit, interval.commit, 0.99),
            round(self.cpu, 4),
            self.process.memory_bytes,
        ]
        self.server.add(at, self.last_row)
        for door, counts in interval.doors.items():
            was = last.doors.get(door, (0,) * len(counts))
            series = self.doors.setdefault(door, Series(DOOR_FIELDS, at - 1))
            row = [round((new - old) / seconds, 3) for new, old in zip(counts, was, strict=True)]
            series.add(at, row)
            self.last_doors[door] = {field.name: value for field, value in zip(DOOR_FIELDS, row, strict=True)}
        self._add_topics(interval, at, seconds)
        self._add_subscriptions(interval, at, seconds)
        for call in self.on_sample:
            call(interval)

    def _add_topics(self, interval: Interval, at: int, seconds: int) -> None:
        for number in interval.topics:
            self._keep(self._topics, number, TOPIC_FIELDS, at)
        for number, series in self._topics.items():
            series.add(at, [round(count / seconds, 3) for count in interval.topics.get(number, NO_TOPIC_COUNTS)])

    def _add_subscriptions(self, interval: Interval, at: int, seconds: int) -> None:
        before = self.recent[-2].subscriptions
        for number, traffic in interval.subscriptions.items():
            was = before.get(number)
            if any(traffic.counted) or was is None or was.backlog_messages != traffic.backlog_messages:
                self._keep(self._subscriptions, number, SUBSCRIPTION_FIELDS, at)
        nothing = SubscriptionTraffic()
        for number, series in self._subscriptions.items():
            traffic = interval.subscriptions.get(number, nothing)
            series.add(at, [*(round(count / seconds, 3) for count in traffic.counted), *traffic[1:]])

    def _keep(
        self, rings: OrderedDict[int, Series], number: int, fields: Sequence[Field], at: int, *, asked: bool = False
    ) -> None:
        """Give a series to a busy or requested resource, if one is free or idle."""
        if number in rings:
            rings.move_to_end(number)
        else:
            if len(rings) >= RINGS_MAX:
                oldest = next(iter(rings))
                if not asked and at - self._busy_at[oldest] < IDLE_SECONDS:
                    return
                del rings[oldest], self._busy_at[oldest]
            rings[number] = Series(fields, at if asked else at - 1)
        self._busy_at[number] = at

    # ------------------------------------------------------------------ answers

    def of_topic(self, name: str) -> Sequence[float]:
        """Return the recent rates of the sampled counters of a topic."""
        number = self._traffic.find_topic(name)
        counts = [interval.topics[number] for interval in self._intervals if number in interval.topics]
        return [self._mean(total) for total in _sums_of(NO_TOPIC_COUNTS, counts)]

    def of_subscription(self, name: str) -> Sequence[float]:
        """Return the recent rates of the sampled counters of a subscription."""
        number = self._traffic.find_subscription(name)
        traffic = [interval.subscriptions.get(number) for interval in self._intervals]
        counts = [subscription.counted for subscription in traffic if subscription is not None]
        return [self._mean(total) for total in _sums_of(NO_SUBSCRIPTION_COUNTS, counts)]

    def busy_topics(self) -> set[str]:
        """Return topics with recent traffic."""
        return {interval.names[number] for interval in self._intervals for number in interval.topics}

    def busy_subscriptions(self) -> set[str]:
        """Return subscriptions with recent traffic, and watched ones."""
        return {interval.names[number] for interval in self._intervals for number in interval.subscriptions}

    def rates(self) -> Mapping[str, float]:
        """Return the rates of the whole server."""
        sums = _sums_of((0,) * len(SAMPLED), map(_sums, self._intervals))
        return {counter.name: self._mean(total) for counter, total in zip(SAMPLED, sums, strict=True)}

    def of_doors(self) -> dict[str, dict[str, float]]:
        first, last = self.recent[0].doors, self.recent[-1].doors
        none = (0,) * len(DOOR_COUNTS)
        return {
            door: {
                name: self._mean(new - old)
                for name, new, old in zip(DOOR_COUNTS, counts, first.get(door, none), strict=True)
            }
            for door, counts in last.items()
        }

    def flows(self, most: int) -> tuple[list[Flow], list[Flow]]:
        """Return the largest flows from doors to topics, and from subscriptions to doors."""
        entered: Counter[tuple[str, str]] = Counter()
        left: Counter[tuple[str, str]] = Counter()
        for interval in self._intervals:
            entered.update(interval.entered)
            left.update(interval.left)
        return self._flows(entered, most), self._flows(left, most)

    def _flows(self, counted: Counter[tuple[str, str]], most: int) -> list[Flow]:
        return [Flow(source, target, self._mean(number)) for (source, target), number in counted.most_common(most)]

    def recent_of_topic(self, name: str, seconds: int) -> list[float]:
        """Return messages published in each of the last seconds, or nothing if no samples of the topic are kept."""
        return _first_column(self._topics.get(self._traffic.find_topic(name)), seconds)

    def recent_of_subscription(self, name: str, seconds: int) -> list[float]:
        return _first_column(self._subscriptions.get(self._traffic.find_subscription(name)), seconds)

    def topic(self, name: str, step: int, count: int) -> Rows:
        self.watch([name], [])
        return self._rows(self._topics.get(self._traffic.find_topic(name)), step, count)

    def subscription(self, name: str, step: int, count: int) -> Rows:
        self.watch([], [name])
        return self._rows(self._subscriptions.get(self._traffic.find_subscription(name)), step, count)

    def _rows(self, series: Series | None, step: int, count: int) -> Rows:
        return series.rows(step, count) if series is not None else Rows(self._clock.now() // SECOND, [])

    def door(self, name: str, step: int, count: int) -> Rows:
        if name not in self._traffic.doors:
            raise InvalidArgumentError(f"Samples are kept of these protocols: {', '.join(self._traffic.doors)}")
        return self._rows(self.doors.get(name), step, count)

    def watch(self, topics: Iterable[str], subscriptions: Iterable[str]) -> None:
        """Give series to topics and subscriptions that a client looks at."""
        at = self._clock.now() // SECOND
        for number in map(self._traffic.find_topic, topics):
            if number:
                self._keep(self._topics, number, TOPIC_FIELDS, at, asked=True)
        for number in map(self._traffic.find_subscription, subscriptions):
            if number:
                self._keep(self._subscriptions, number, SUBSCRIPTION_FIELDS, at, asked=True)

    def traffic_of(self, interval: Interval, topics: Iterable[str], subscriptions: Iterable[str]) -> Chosen:
        """Return the traffic of topics and subscriptions by their current names. Those without traffic are left out."""
        of_topics = ((name, self._traffic.find_topic(name)) for name in topics)
        of_subscriptions = ((name, self._traffic.find_subscription(name)) for name in subscriptions)
        return Chosen(
            {name: interval.topics[number] for name, number in of_topics if number in interval.topics},
            {
                name: interval.subscriptions[number]
                for name, number in of_subscriptions
                if number in interval.subscriptions
            },
        )

    @property
    def _intervals(self) -> list[Interval]:
        return list(self.recent)[1:]

    def _mean(self, amount: float) -> float:
        seconds = sum(interval.seconds for interval in self._intervals)
        return round(amount / seconds, 3) if seconds else 0.0


def _first_column(series: Series | None, seconds: int) -> list[float]:
    return [row[0] for row in series.rows(1, seconds).rows] if series is not None else []


def _sums_of(start: Counted, counted: Iterable[Counted]) -> Counted:
    return tuple(sum(column) for column in zip(start, *counted, strict=True))


def _sums(interval: Interval) -> Counted:
    """Return the sampled counters of all topics and subscriptions together, in the order of SAMPLED."""
    subscriptions = (subscription.counted for subscription in interval.subscriptions.values())
    return _sums_of(NO_TOPIC_COUNTS, interval.topics.values()) + _sums_of(NO_SUBSCRIPTION_COUNTS, subscriptions)


def quantile(before: CommitStatistics, after: CommitStatistics, share: float) -> float:
    """Return a quantile of the commit times between two samples, interpolated within its bucket."""
    total = after.commits - before.commits
    if total <= 0:
        return 0.0
    wanted, below, floor = share * total, 0, 0.0
    for (bound, count), (_, earlier) in zip(after.buckets, before.buckets, strict=True):
        through = count - earlier
        if through >= wanted:
            inside = (wanted - below) / (through - below) if through > below else 1.0
            return round(floor + (bound - floor) * inside, 6)
        below, floor = through, bound
    return floor
