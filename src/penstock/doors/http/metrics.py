"""Statistics in, Prometheus text out (exposition format 0.0.4), without I/O.

Written by hand, because the numbers are there already: 10,000 topics and 10,000 subscriptions took 80 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from penstock.doors.http.process import ProcessStatistics
from penstock.engine.statistics import BrokerStatistics, CommitStatistics, SubscriptionStatistics
from penstock.wire.budget import Budget

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Number: TypeAlias = int | float


class Metric(NamedTuple):
    name: str  # what ends in _total is a counter, anything else a gauge
    field: str  # of the record it is read from
    about: str


OF_TOPICS = [
    Metric("penstock_messages_published_total", "messages_published", "Messages accepted."),
    Metric("penstock_bytes_published_total", "bytes_published", "Bytes of the messages accepted."),
    Metric("penstock_topic_head_offset", "head", "First offset still kept."),
    Metric("penstock_topic_tail_offset", "tail", "Offset the next message gets."),
]

OF_SUBSCRIPTIONS = [
    Metric("penstock_messages_delivered_total", "delivered", "Deliveries, repeated ones included."),
    Metric("penstock_messages_acked_total", "acked", "Messages acked."),
    Metric("penstock_messages_returned_total", "returned", "Deliveries given back or not acked in time."),
    Metric("penstock_messages_dead_lettered_total", "dead_lettered", "Messages moved to a dead letter topic."),
    Metric("penstock_dead_letter_failures_total", "dead_letter_failures", "Failed: no dead letter topic to move to."),
    Metric("penstock_dead_letters_unread_total", "dead_letters_unread", "Moved to a topic without a subscription."),
    Metric("penstock_backlog_messages", "backlog_messages", "Messages not yet acked."),
    Metric("penstock_backlog_bytes", "backlog_bytes", "Bytes of the messages not yet acked."),
    Metric("penstock_in_flight_messages", "in_flight_messages", "Messages delivered and not yet settled."),
    Metric("penstock_in_flight_bytes", "in_flight_bytes", "Bytes of the messages in flight."),
    Metric("penstock_oldest_unacked_age_seconds", "oldest_unacked_age_seconds", "Age of the oldest unacked message."),
]

OF_THE_BUDGET = [
    Metric("penstock_buffer_bytes", "in_use_bytes", "Bytes of requests being read and answers not taken."),
    Metric("penstock_buffer_bytes_max", "limit_bytes", "How many of them there may be; 0: no limit."),
    Metric("penstock_buffer_refusals_total", "refusals", "Requests and answers given up because there were too many."),
]

DROPPED = "penstock_messages_dropped_total"
REFUSED = "penstock_publishes_refused_total"
DOORS = "penstock_door_events_total"
COMMIT = "penstock_commit_seconds"
INTERNAL = "penstock_internal_errors_total"


def render(
    statistics: BrokerStatistics,
    process: ProcessStatistics,
    budget: Budget,
    doors: Mapping[str, Mapping[str, int]],
    *,
    version: str,
) -> Iterator[str]:
    """The whole page, line by line, so that the caller can let others run in between."""
    yield from _family("penstock_build_info", "The version that runs.", [(f'{{version="{escape(version)}"}}', 1)])
    yield from _table(OF_TOPICS, [(f'{{topic="{escape(one.topic)}"}}', one) for one in statistics.topics])
    yield from _table(OF_SUBSCRIPTIONS, [(_subscription_labels(one), one) for one in statistics.subscriptions])
    yield from _family(DROPPED, "Messages that left without being acked, by reason.", _dropped(statistics))
    refused = [(f'{{reason="{escape(reason)}"}}', n) for reason, n in sorted(statistics.publishes_refused.items())]
    yield from _family(REFUSED, "Publishes not accepted, by reason.", refused)
    yield from _family(DOORS, "What the doors count: refusals, connections turned away, by kind.", _events(doors))
    bugs = [(f'{{place="{escape(place)}"}}', n) for place, n in sorted(statistics.internal_errors.items())]
    yield from _family(INTERNAL, "Commands that met a bug and were undone, by its place in the code.", bugs)
    yield from _table(OF_THE_BUDGET, [("", budget)])
    yield from _commits(statistics.commit)
    yield from _process(process)


def escape(text: str) -> str:
    """A label value: whatever a name holds, it stays one line within its quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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


def _dropped(statistics: BrokerStatistics) -> Iterator[tuple[str, Number]]:
    for topic in statistics.topics:
        yield from _by_reason(topic.topic, "", topic.dropped)
    for one in statistics.subscriptions:
        yield from _by_reason(one.topic, one.subscription, one.dropped)


def _by_reason(topic: str, subscription: str, dropped: Mapping[str, int]) -> Iterator[tuple[str, Number]]:
    place = f'topic="{escape(topic)}",subscription="{escape(subscription)}"'
    for reason, count in sorted(dropped.items()):
        yield f'{{{place},reason="{escape(reason)}"}}', count


def _events(doors: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, Number]]:
    for door, counts in doors.items():
        for event, count in sorted(counts.items()):
            yield f'{{door="{escape(door)}",event="{escape(event)}"}}', count


def _commits(commit: CommitStatistics) -> Iterator[str]:
    yield f"# HELP {COMMIT} Time one commit took, until it was durable.\n# TYPE {COMMIT} histogram\n"
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
