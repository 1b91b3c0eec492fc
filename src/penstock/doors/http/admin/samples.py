"""Samples: once a second what happened in the server, at each door, and to the topics and subscriptions with traffic.

Kept in memory, and bounded: of topics and of subscriptions the RINGS_MAX that had traffic last have rings. Those that
had none for a while make room for those that do.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.broker.model import SECOND
from penstock.doors.http.admin.rings import LAST, MOST, Field, Rows, Series
from penstock.doors.http.process import Process, process
from penstock.engine.port import Alarm, Clock
from penstock.engine.statistics import DOOR_COUNTS, CommitStatistics
from penstock.engine.traffic import Interval, SubscriptionTraffic, TopicTraffic, Traffic
from penstock.errors import InvalidArgumentError, PenstockError

log = logging.getLogger("penstock.doors.http")

RINGS_MAX = 100  # of topics, and as many of subscriptions
IDLE_SECONDS = 60  # without traffic for so long, a ring may go to another
RATE_SECONDS = 10  # what "per second" is the mean of

SERVER_FIELDS = (
    Field("published"),
    Field("published_bytes"),
    Field("delivered"),
    Field("acked"),
    Field("returned"),
    Field("dead_lettered"),
    Field("backlog_messages", LAST),
    Field("in_flight_messages", LAST),
    Field("oldest_age_seconds", LAST),
    Field("commits"),
    Field("commit_p50_seconds", MOST),
    Field("commit_p99_seconds", MOST),
    Field("cpu"),
    Field("memory_bytes", LAST),
)
TOPIC_FIELDS = (Field("published"), Field("published_bytes"))
SUBSCRIPTION_FIELDS = SERVER_FIELDS[2:9]
DOOR_FIELDS = tuple(Field(name) for name in DOOR_COUNTS)


class Totals(NamedTuple):
    """Since the start of the server."""

    published: int = 0
    published_bytes: int = 0
    delivered: int = 0
    acked: int = 0
    returned: int = 0
    dead_lettered: int = 0


class Flow(NamedTuple):
    source: str
    target: str
    per_second: float


class Samples:
    """Takes a sample each second while it is started; `on_sample` is called after each."""

    def __init__(self, traffic: Traffic, clock: Clock, used: Callable[[], Process] = process) -> None:
        self._traffic = traffic
        self._clock = clock
        self._used = used
        self._alarm: Alarm | None = None
        now = clock.now()
        self.server = Series(SERVER_FIELDS, now // SECOND)
        self.doors: dict[str, Series] = {}
        self.last_doors: dict[str, dict[str, float]] = {}
        self._topics: OrderedDict[str, Series] = OrderedDict()  # least recently busy first
        self._subscriptions: OrderedDict[str, Series] = OrderedDict()
        self._busy_at: dict[str, int] = {}  # of what has a ring
        self.recent: deque[Interval] = deque([traffic.take()], RATE_SECONDS + 1)  # the first is where rates begin
        self.process = used()
        self.cpu = 0.0  # of one processor, in the last second
        self.totals = Totals()
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
        at, seconds = interval.at // SECOND, max(1, round(interval.seconds))  # what is counted in one second is a rate
        before, self.process = self.process, self._used()
        self.cpu = max(0.0, self.process.cpu_seconds - before.cpu_seconds) / (interval.seconds or 1.0)
        last = self.recent[-1]
        self.recent.append(interval)
        counted = _sums(interval)
        self.totals = Totals(*(a + b for a, b in zip(self.totals, counted, strict=True)))
        self.last_row = [
            *(round(each / seconds, 3) for each in counted),
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
        for name in interval.topics:
            self._keep(self._topics, name, TOPIC_FIELDS, at)
        nothing = TopicTraffic()
        for name, series in self._topics.items():
            series.add(at, [round(each / seconds, 3) for each in interval.topics.get(name, nothing)])

    def _add_subscriptions(self, interval: Interval, at: int, seconds: int) -> None:
        for name, traffic in interval.subscriptions.items():
            if any(traffic[:4]):
                self._keep(self._subscriptions, name, SUBSCRIPTION_FIELDS, at)
        nothing = SubscriptionTraffic()
        for name, series in self._subscriptions.items():
            traffic = interval.subscriptions.get(name, nothing)
            series.add(at, [*(round(each / seconds, 3) for each in traffic[:4]), *traffic[4:]])

    def _keep(
        self, rings: OrderedDict[str, Series], name: str, fields: Sequence[Field], at: int, *, asked: bool = False
    ) -> None:
        """A ring for what is busy, or asked for, if one is free or idle."""
        if name in rings:
            rings.move_to_end(name)
        else:
            if len(rings) >= RINGS_MAX:
                oldest = next(iter(rings))
                if not asked and at - self._busy_at[oldest] < IDLE_SECONDS:
                    return
                del rings[oldest], self._busy_at[oldest]
            rings[name] = Series(fields, at if asked else at - 1)
        self._busy_at[name] = at

    # ------------------------------------------------------------------ answers

    def of_topic(self, name: str) -> tuple[float, float]:
        """Messages and bytes published a second, of late."""
        found = [each.topics[name] for each in self._intervals if name in each.topics]
        return self._mean(sum(each.published for each in found)), self._mean(
            sum(each.published_bytes for each in found)
        )

    def of_subscription(self, name: str) -> Sequence[float]:
        """Messages delivered, acked, returned and dead-lettered a second, of late."""
        found = [each.subscriptions[name][:4] for each in self._intervals if name in each.subscriptions]
        return [self._mean(sum(column)) for column in zip((0, 0, 0, 0), *found, strict=True)]

    def rates(self) -> Mapping[str, float]:
        """Of the whole server."""
        sums = [sum(column) for column in zip(Totals(), *map(_sums, self._intervals), strict=True)]
        return {name: self._mean(each) for name, each in zip(Totals._fields, sums, strict=True)}

    def of_doors(self) -> dict[str, dict[str, float]]:
        """What each door counts, per second, of late."""
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
        """From doors into topics, and from subscriptions out of doors: those with the most messages of late."""
        entered: Counter[tuple[str, str]] = Counter()
        left: Counter[tuple[str, str]] = Counter()
        for each in self._intervals:
            entered.update(each.entered)
            left.update(each.left)
        return self._flows(entered, most), self._flows(left, most)

    def _flows(self, counted: Counter[tuple[str, str]], most: int) -> list[Flow]:
        return [Flow(source, target, self._mean(number)) for (source, target), number in counted.most_common(most)]

    def recent_of_topic(self, name: str, seconds: int) -> list[float]:
        """Messages published in each of the last seconds; none where nothing is kept of it."""
        return _first_column(self._topics.get(name), seconds)

    def recent_of_subscription(self, name: str, seconds: int) -> list[float]:
        return _first_column(self._subscriptions.get(name), seconds)

    def topic(self, name: str, step: int, count: int) -> Rows:
        self.watch([name], [])
        return self._topics[name].rows(step, count)

    def subscription(self, name: str, step: int, count: int) -> Rows:
        self.watch([], [name])
        return self._subscriptions[name].rows(step, count)

    def door(self, name: str, step: int, count: int) -> Rows:
        if name not in self._traffic.doors:
            raise InvalidArgumentError(f"There are samples of these doors: {', '.join(self._traffic.doors)}")
        series = self.doors.get(name)
        return series.rows(step, count) if series is not None else Rows(self._clock.now() // SECOND, [])

    def watch(self, topics: Iterable[str], subscriptions: Iterable[str]) -> None:
        """Somebody looks at these: let them have rings."""
        at = self._clock.now() // SECOND
        for name in topics:
            self._keep(self._topics, name, TOPIC_FIELDS, at, asked=True)
        for name in subscriptions:
            self._keep(self._subscriptions, name, SUBSCRIPTION_FIELDS, at, asked=True)

    @property
    def _intervals(self) -> list[Interval]:
        return list(self.recent)[1:]

    def _mean(self, amount: float) -> float:
        seconds = sum(each.seconds for each in self._intervals)
        return round(amount / seconds, 3) if seconds else 0.0


def _first_column(series: Series | None, seconds: int) -> list[float]:
    return [row[0] for row in series.rows(1, seconds).rows] if series is not None else []


def _sums(interval: Interval) -> Totals:
    topics, subscriptions = interval.topics.values(), interval.subscriptions.values()
    return Totals(
        sum(each.published for each in topics),
        sum(each.published_bytes for each in topics),
        sum(each.delivered for each in subscriptions),
        sum(each.acked for each in subscriptions),
        sum(each.returned for each in subscriptions),
        sum(each.dead_lettered for each in subscriptions),
    )


def quantile(before: CommitStatistics, after: CommitStatistics, share: float) -> float:
    """The time that a share of the commits between two looks did not exceed, within the bounds of the buckets."""
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
