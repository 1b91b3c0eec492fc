"""Statistics in, Prometheus text out (exposition format 0.0.4), without I/O.

Totals of the server are always on the page. Only as many topics and subscriptions as are handed in have series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeVar

from penstock.broker.counts import SAMPLED, SUBSCRIPTION_COUNTERS, TOPIC_COUNTERS
from penstock.engine.statistics import BrokerStatistics, CommitStatistics, SubscriptionStatistics
from penstock.services.process import ProcessStatistics
from penstock.wire.budget import Budget

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Number: TypeAlias = int | float
T = TypeVar("T")


class Metric(NamedTuple):
    name: str  # names that end in _total are counters, all others gauges
    field: str  # of the statistics record
    about: str


OF_TOPICS = [
    *(Metric(counter.metric, f"counts.{counter.field}", counter.help) for counter in TOPIC_COUNTERS),
    Metric("penstock_topic_head_offset", "head", "First offset still kept."),
    Metric("penstock_topic_tail_offset", "tail", "Offset of the next message."),
]

OF_SUBSCRIPTIONS = [
    *(Metric(counter.metric, f"counts.{counter.field}", counter.help) for counter in SUBSCRIPTION_COUNTERS),
    Metric("penstock_backlog_messages", "backlog_messages", "Messages not yet acked."),
    Metric("penstock_backlog_bytes", "backlog_bytes", "Bytes of the messages not yet acked."),
    Metric("penstock_in_flight_messages", "in_flight_messages", "Messages delivered and not yet settled."),
    Metric("penstock_in_flight_bytes", "in_flight_bytes", "Bytes of the messages in flight."),
    Metric("penstock_oldest_unacked_age_seconds", "oldest_unacked_age_seconds", "Age of the oldest unacked message."),
]

OF_THE_BUDGET = [
    Metric("penstock_buffer_bytes", "in_use_bytes", "Bytes of requests being read and of answers not yet sent."),
    Metric("penstock_buffer_bytes_max", "limit_bytes", "Limit of penstock_buffer_bytes. 0 means no limit."),
    Metric("penstock_buffer_refusals_total", "refusals", "Requests and answers refused because of the limit."),
]

OF_THE_SERVER = [
    *(
        Metric(
            f"penstock_server_{counter.metric.removeprefix('penstock_')}", counter.name, f"{counter.help} Whole server."
        )
        for counter in SAMPLED
    ),
    Metric("penstock_server_backlog_messages", "backlog_messages", "Messages not yet acked, of all subscriptions."),
    Metric("penstock_server_in_flight_messages", "in_flight_messages", "Messages delivered and not yet settled."),
    Metric("penstock_server_oldest_unacked_age_seconds", "oldest_age_seconds", "Age of the oldest unacked message."),
]

RESOURCES = "penstock_resources"
LEFT_OUT = "penstock_metrics_left_out"
DROPPED = "penstock_messages_dropped_total"
REFUSED = "penstock_publishes_refused_total"
DOORS = "penstock_door_events_total"
COMMIT = "penstock_commit_seconds"
INTERNAL = "penstock_internal_errors_total"


class Resources(NamedTuple):
    """The number of topics or of subscriptions."""

    kind: str
    existing: int
    left_out: int  # without series on the page


def render(
    statistics: BrokerStatistics,
    process: ProcessStatistics,
    budget: Budget,
    doors: Mapping[str, Mapping[str, int]],
    *,
    version: str,
    totals: Mapping[str, Number] | None = None,
    resources: Sequence[Resources] = (),
) -> Iterator[str]:
    """Yield the page line by line, so that the caller can let others run in between. Some lines are empty.

    `totals`: the counters since the start of all topics and subscriptions together, and the current gauges, by name.
    """
    yield from _family("penstock_build_info", "The version that runs.", [(f'{{version="{escape(version)}"}}', 1)])
    if totals is not None:
        for metric in OF_THE_SERVER:
            yield from _family(metric.name, metric.about, [("", totals[metric.field])])
    about = "Topics and subscriptions that exist."
    yield from _family(RESOURCES, about, ((f'{{kind="{one.kind}"}}', one.existing) for one in resources))
    about = "Topics and subscriptions without their own series; see the setting http_metrics_resources."
    yield from _family(LEFT_OUT, about, ((f'{{kind="{one.kind}"}}', one.left_out) for one in resources))
    yield from _series(OF_TOPICS, statistics.topics, lambda one: f'{{topic="{escape(one.topic)}"}}')
    yield from _series(OF_SUBSCRIPTIONS, statistics.subscriptions, _subscription_labels)
    yield from _family(DROPPED, "Messages dropped without an ack, by reason.", _drop_counts(statistics))
    refused = [(f'{{reason="{escape(reason)}"}}', n) for reason, n in sorted(statistics.publishes_refused.items())]
    yield from _family(REFUSED, "Publishes refused, by reason.", refused)
    yield from _family(DOORS, "Refused requests and connections of each protocol, by kind.", _events(doors))
    bugs = [(f'{{place="{escape(place)}"}}', n) for place, n in sorted(statistics.internal_errors.items())]
    yield from _family(INTERNAL, "Commands undone because of a bug, by its place in the code.", bugs)
    yield from _table(OF_THE_BUDGET, [("", budget)])
    yield from _commits(statistics.commit)
    yield from _process(process)


def escape(text: str) -> str:
    """Return a label value with special characters escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _series(metrics: list[Metric], rows: Sequence[T], labels_of: Callable[[T], str]) -> Iterator[str]:
    labelled: list[tuple[str, object]] = []
    for row in rows:
        labelled.append((labels_of(row), row))
        yield ""  # the caller may let others run
    yield from _table(metrics, labelled)


def _table(metrics: list[Metric], rows: Sequence[tuple[str, object]]) -> Iterator[str]:
    for metric in metrics:
        value = attrgetter(metric.field)
        yield from _family(metric.name, metric.about, ((labels, value(row)) for labels, row in rows))


def _family(name: str, about: str, samples: Iterable[tuple[str, Number]]) -> Iterator[str]:
    kind = "counter" if name.endswith("_total") else "gauge"
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        yield f"{name}{labels} {value}\n"


def _subscription_labels(one: SubscriptionStatistics) -> str:
    return f'{{topic="{escape(one.topic)}",subscription="{escape(one.subscription)}"}}'


def _drop_counts(statistics: BrokerStatistics) -> Iterator[tuple[str, Number]]:
    for topic in statistics.topics:
        yield from _by_reason(topic.topic, "", topic.dropped)
    for one in statistics.subscriptions:
        yield from _by_reason(one.topic, one.subscription, one.dropped)


def _by_reason(topic: str, subscription: str, dropped: Mapping[str, int]) -> Iterator[tuple[str, Number]]:
    labels = f'topic="{escape(topic)}",subscription="{escape(subscription)}"'
    for reason, count in sorted(dropped.items()):
        yield f'{{{labels},reason="{escape(reason)}"}}', count


def _events(doors: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, Number]]:
    for door, counts in doors.items():
        for event, count in sorted(counts.items()):
            yield f'{{door="{escape(door)}",event="{escape(event)}"}}', count


def _commits(commit: CommitStatistics) -> Iterator[str]:
    yield f"# HELP {COMMIT} Seconds from the start of a commit until it is durable.\n# TYPE {COMMIT} histogram\n"
    for bound, count in commit.buckets:
        yield f'{COMMIT}_bucket{{le="{bound}"}} {count}\n'
    yield f'{COMMIT}_bucket{{le="+Inf"}} {commit.commits}\n'
    yield f"{COMMIT}_sum {commit.seconds}\n{COMMIT}_count {commit.commits}\n"
    yield from _family("penstock_commits_total", "Commits made.", [("", commit.commits)])
    yield from _family("penstock_facts_written_total", "Facts written.", [("", commit.facts)])
    yield from _family("penstock_bytes_written_total", "Bytes written.", [("", commit.bytes_written)])


def _process(process: ProcessStatistics) -> Iterator[str]:
    rows: list[tuple[str, str, Number | None]] = [
        ("process_cpu_seconds_total", "CPU time used, in seconds.", process.cpu_seconds),
        ("process_resident_memory_bytes", "Resident memory.", process.resident_bytes),
        ("process_open_fds", "Open file descriptors.", process.open_files),
        ("process_start_time_seconds", "Start of the process since 1970.", process.start_time_seconds),
    ]
    for name, about, value in rows:
        if value is not None:
            yield from _family(name, about, [("", value)])
