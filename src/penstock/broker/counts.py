"""The counters of a topic or a subscription, each described once.

Counters begin at 0 when the process starts and are not part of the state. Statistics, /metrics, samples, the admin API
and `penstock top` are made from the descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple


class Counter(NamedTuple):
    metric: str  # its series in /metrics
    help: str
    rate: str = ""  # its rate per second in the admin API. Empty: it is not sampled
    name: str = ""  # in the admin API. Empty: the name of its field
    unit: str = "messages"
    field: str = ""  # filled in by `counters_of`


def counter(metric: str, help: str, **more: str) -> int:  # noqa: A002 - as in settings
    made: int = field(default=0, metadata={"counter": Counter(metric, help, **more)})
    return made


@dataclass(slots=True)
class TopicCounts:
    published: int = counter("penstock_messages_published_total", "Messages accepted.", rate="publish_rate")
    bytes: int = counter(
        "penstock_bytes_published_total",
        "Bytes of the messages accepted.",
        rate="publish_bytes_rate",
        name="published_bytes",
        unit="bytes",
    )
    unread: int = 0  # messages published while no subscription and no retention needed them


@dataclass(slots=True)
class SubscriptionCounts:
    delivered: int = counter(
        "penstock_messages_delivered_total", "Deliveries, repeated ones included.", rate="deliver_rate"
    )
    acked: int = counter("penstock_messages_acked_total", "Messages acked.", rate="ack_rate")
    returned: int = counter(
        "penstock_messages_returned_total", "Deliveries that were nacked, or not acked in time.", rate="return_rate"
    )
    dead_lettered: int = counter(
        "penstock_messages_dead_lettered_total", "Messages moved to a dead letter topic.", rate="dead_letter_rate"
    )
    dead_letter_failures: int = counter(
        "penstock_dead_letter_failures_total", "Messages returned because their dead letter topic does not exist."
    )
    dead_letters_unread: int = counter(
        "penstock_dead_letters_unread_total", "Messages moved to a dead letter topic without a subscription."
    )
    filtered: int = 0  # messages that the filter kept out
    dropped: dict[str, int] = field(default_factory=dict)  # messages by reason: expired, retention, capacity

    def drop(self, reason: str, count: int) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count


def counters_of(record: type[TopicCounts | SubscriptionCounts]) -> tuple[Counter, ...]:
    specs = ((f.name, f.metadata.get("counter")) for f in fields(record))
    return tuple(spec._replace(name=spec.name or name, field=name) for name, spec in specs if spec is not None)


TOPIC_COUNTERS = counters_of(TopicCounts)
SUBSCRIPTION_COUNTERS = counters_of(SubscriptionCounts)
SAMPLED_OF_TOPICS = tuple(spec for spec in TOPIC_COUNTERS if spec.rate)
SAMPLED_OF_SUBSCRIPTIONS = tuple(spec for spec in SUBSCRIPTION_COUNTERS if spec.rate)
SAMPLED = SAMPLED_OF_TOPICS + SAMPLED_OF_SUBSCRIPTIONS
