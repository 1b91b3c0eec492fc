"""Records of messages and producers, and the options of topics and subscriptions.

Instants are nanoseconds since 1970 (`now`, `*_at`, `deadline`, `due`), durations are seconds, sizes are bytes. An
exclusive end is called `until`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

SECOND = 1_000_000_000
FOREVER = 2**63 - 1  # the deadline of a lease that lasts as long as the process

NO_ATTRIBUTES: dict[str, str] = {}  # shared by every message without attributes; never written to


class Draft(NamedTuple):
    """A message as a publisher hands it in, before the broker turns it into a Message."""

    data: bytes
    attributes: dict[str, str] = NO_ATTRIBUTES
    ordering_key: str = ""
    delay_seconds: float = 0  # time after the publish in which the message is not delivered
    ttl_seconds: float = 0  # 0: the message does not expire


class Message(NamedTuple):
    """A message in the log of its topic. It is stored once, however many subscriptions read it."""

    data: bytes
    attributes: dict[str, str]
    ordering_key: str
    publish_time: int  # never runs backwards within a topic
    offset: int
    position: int  # bytes of the topic's messages before this one, so that any two offsets give a size
    size: int  # data, attributes and ordering key, in bytes
    visible_at: int  # 0: at once
    expires_at: int  # 0: never


class Batch(NamedTuple):
    """Consecutive messages of one topic, written together."""

    topic: int
    first: int
    messages: list[Message]


class Producer(NamedTuple):
    """The last publishes of a publisher that numbers them, by which a topic recognizes a repeated publish."""

    epoch: int
    seen_at: int
    answers: dict[int, tuple[int, int]]  # sequence -> (first offset, count) of this epoch
    digests: dict[int, int] = {}  # sequence -> digest of the messages, if the publisher gave one


OptionKind: TypeAlias = Literal["duration", "bytes", "count", "text", "switch", "labels", "topic"]


class OptionSpec(NamedTuple):
    """A description of one option. Every API, command-line flag and form that has the option is made from it."""

    kind: OptionKind  # durations are seconds
    title: str  # a label for forms
    help: str  # one or two sentences for --help and for the OpenAPI document
    name: str = ""  # in the APIs; "retry_policy.minimum_backoff" is one part of an object. Empty: the field's name
    python_name: str | None = None  # in the Python API. None: the same name, empty: the Python API cannot set it
    alias: str = ""  # a second name that the APIs accept
    flag: str = ""  # on the command line, without its dashes. Empty: there is no flag
    least: float = 0
    most: float | None = None  # None: no limit
    part_default: object = None  # the value of a part when its object is given without it. None: unchanged
    read_only: bool = False  # the APIs show the option, only seeds and other doors set it


V = TypeVar("V")


def option(default: V, kind: OptionKind, title: str, help: str, **more: Any) -> V:  # noqa: A002 - as in settings
    """Return a field of a record of options, described by an OptionSpec."""
    made: V = field(default=default, metadata={"spec": OptionSpec(kind, title, help, **more)})
    return made


def option_specs(record: type[Options]) -> dict[str, OptionSpec]:
    """Return the public options of a record by the names of their fields, each spec with its public name."""
    specs = {f.name: f.metadata.get("spec") for f in fields(record)}  # type: ignore[arg-type]
    return {name: spec._replace(name=spec.name or name) for name, spec in specs.items() if spec is not None}


class Options:
    """A record of options. Durations are stored as floats, so that options read back are the same to the byte."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, f.name)
            if f.name.endswith("_seconds") and type(value) is int:
                object.__setattr__(self, f.name, float(value))


LABELS = OptionSpec("labels", "Labels", "Labels of the resource, as key-value pairs.", flag="label")


@dataclass(frozen=True, slots=True)
class TopicOptions(Options):
    retention_seconds: float = option(
        0,
        "duration",
        "Retention",
        "Keep acked messages for this time. 0 uses the server's setting.",
        python_name="message_retention_duration",
        flag="retention",
        most=1e9,
    )
    retention_bytes: int = option(
        0,
        "bytes",
        "Retention size",
        "Keep at most this many bytes of acked messages. 0 uses the server's setting.",
        python_name="",
        flag="retention-bytes",
        most=1 << 60,
    )
    labels: dict[str, str] = field(default_factory=dict, metadata={"spec": LABELS})
    extras: dict[str, str] = field(default_factory=dict)  # settings that a door stores here, opaque to the broker


@dataclass(frozen=True, slots=True)
class SubscriptionOptions(Options):
    """Options of a subscription. New fields go to the end, because records on disk have no names for fields."""

    lease_seconds: float = option(
        10,
        "duration",
        "Ack deadline",
        "Time a consumer has to ack a message before it is redelivered.",
        name="ack_deadline_seconds",
        alias="ack_deadline",
        flag="ack-deadline",
        least=1,
        most=600,
    )
    exactly_once: bool = option(
        False,
        "switch",
        "Exactly-once delivery",
        "Refuse acks that arrive after the ack deadline, and tell the consumer whether its ack counted.",
        name="enable_exactly_once_delivery",
        flag="exactly-once",
    )
    ordering: bool = option(
        False,
        "switch",
        "Message ordering",
        "Deliver messages with the same ordering key in publish order.",
        name="enable_message_ordering",
        alias="message_ordering",
        flag="ordering",
    )
    ordering_window: int = option(
        1,
        "count",
        "Ordering window",
        "Maximum number of outstanding messages with the same ordering key.",
        least=1,
        read_only=True,
    )
    filter: str = option(
        "",
        "text",
        "Filter",
        'Deliver only messages whose attributes match, such as attributes.kind = "order".',
        flag="filter",
    )
    # Both 0: messages are redelivered at once.
    retry_minimum_seconds: float = option(
        0,
        "duration",
        "Minimum backoff",
        "Delay before the second delivery. It doubles with every further delivery.",
        name="retry_policy.minimum_backoff",
        flag="retry-min",
        part_default=10.0,
    )
    retry_maximum_seconds: float = option(
        0,
        "duration",
        "Maximum backoff",
        "Longest delay between two deliveries.",
        name="retry_policy.maximum_backoff",
        flag="retry-max",
        part_default=600.0,
    )
    dead_letter_topic: str = option(
        "",
        "topic",
        "Dead letter topic",
        "Send messages to this topic after the maximum number of delivery attempts.",
        name="dead_letter_policy.dead_letter_topic",
        flag="dead-letter-topic",
    )
    # Without a dead letter topic the number of attempts has no effect.
    max_delivery_attempts: int = option(
        5,
        "count",
        "Delivery attempts",
        "Delivery attempts before a message is sent to the dead letter topic.",
        name="dead_letter_policy.max_delivery_attempts",
        flag="max-attempts",
        least=1,
        part_default=5,
    )
    expired_topic: str = option(
        "",
        "topic",
        "Topic of expired messages",
        "Send messages to this topic when their time to live ends. Empty means that they are dropped.",
        read_only=True,
    )
    # 0: no limit.
    flow_max_messages: int = option(
        0,
        "count",
        "Messages in flight",
        "Maximum number of messages in flight.",
        name="flow_control.max_messages",
        flag="flow-messages",
        least=1,
    )
    flow_max_bytes: int = option(
        0,
        "bytes",
        "Bytes in flight",
        "Maximum number of bytes in flight.",
        name="flow_control.max_bytes",
        flag="flow-bytes",
        least=1,
    )
    retention_seconds: float = option(
        7 * 86400,
        "duration",
        "Retention",
        "Drop messages that are not acked within this time. 0 means no limit.",
        name="message_retention_duration",
        flag="retention",
    )
    retain_acked: bool = option(
        False,
        "switch",
        "Retain acked messages",
        "Keep acked messages as long as unacked ones, so that a seek can go back to them.",
        name="retain_acked_messages",
        flag="retain-acked",
    )
    expiration_seconds: float = option(
        0,
        "duration",
        "Expiration",
        "Delete the subscription when it was not used for this time. 0 means never.",
        name="expiration_policy.ttl",
        flag="expires",
    )
    labels: dict[str, str] = field(default_factory=dict, metadata={"spec": LABELS})
    extras: dict[str, str] = field(default_factory=dict)  # as in TopicOptions
