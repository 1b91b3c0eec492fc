"""Options of subscriptions, consumers and publishers by the names of this API, and the records that show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from penstock.broker.model import SubscriptionOptions
from penstock.engine.options import (
    ACK_DEADLINE_MAX_SECONDS,
    SUBSCRIPTION,
    TOPIC,
    Option,
    Options,
    ack_deadline,
    count,
    declared,
    flag,
    milliseconds,
    one_of,
    option,
    seconds,
    seconds_within,
    strings,
)
from penstock.engine.views import SubscriptionMetadata as StoredSubscription
from penstock.engine.views import TopicMetadata as StoredTopic
from penstock.errors import InvalidArgumentError

MIB = 1024 * 1024

NACK = "NACK"
WAIT = "WAIT"
BLOCK = "BLOCK"
ERROR = "ERROR"
IGNORE = "IGNORE"


def anything(value: Any, name: str) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    # How much is held at a time.
    max_messages: int = option(1000, count, "flow_control.max_messages")
    max_bytes: int = option(100 * MIB, count, "flow_control.max_bytes")
    # With room for one, take as many as come at once.
    allow_excess_messages: bool = option(False, flag, "flow_control.allow_excess_messages")
    # How long leases are extended while listeners run; 0: not at all.
    max_extension_seconds: float = option(3600.0, seconds, "max_extension_time", alias="flow_control.max_extension")
    # How many acks and nacks travel together; 0 seconds: those of one turn of the event loop.
    batch_messages: int = option(3000, count, "batching.max_messages")
    batch_seconds: float = option(0.0, milliseconds, "batching.max_milliseconds")
    # None: that of the subscription.
    ack_deadline_seconds: float | None = option(None, ack_deadline, "ack_deadline_seconds", alias="ack_deadline")
    min_ack_deadline_seconds: float = option(0.0, ack_deadline, "min_ack_deadline")
    max_ack_deadline_seconds: float = option(float(ACK_DEADLINE_MAX_SECONDS), ack_deadline, "max_ack_deadline")
    close_behavior: str = option(WAIT, one_of(NACK, WAIT), "close_options.behavior")
    # None: until all is answered or the leases end.
    close_timeout_seconds: float | None = option(None, seconds, "close_options.timeout")
    # Of the call that creates it; None: as long as that takes.
    call_timeout_seconds: float | None = option(None, milliseconds, "gax_opts.timeout")
    # Without effect in one process.
    call_retry: object = option(None, anything, "gax_opts.retry")
    auto_paginate: bool = option(True, flag, "gax_opts.auto_paginate")
    max_streams: int = option(5, count, "streaming_options.max_streams")
    stream_timeout_seconds: float = option(300.0, milliseconds, "streaming_options.timeout")
    use_legacy_flow_control: bool = option(False, flag, "use_legacy_flow_control")

    def lease_seconds(self, stored: float) -> float:
        """The lease a consumer asks for, where the subscription has `stored`."""
        wanted = stored if self.ack_deadline_seconds is None else self.ack_deadline_seconds
        return max(self.min_ack_deadline_seconds, min(wanted, self.max_ack_deadline_seconds))


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    # How many messages travel together; 0 seconds: those of one turn of the event loop.
    max_messages: int = option(100, count, "batching.max_messages")
    max_bytes: int = option(MIB, count, "batching.max_bytes")
    max_seconds: float = option(0.0, milliseconds, "batching.max_milliseconds")
    # Accepted and not yet stored; 0: no limit.
    outstanding_messages: int = option(0, count, "flow_control.max_outstanding_messages")
    outstanding_bytes: int = option(0, count, "flow_control.max_outstanding_bytes")
    limit_exceeded_behavior: str = option(BLOCK, one_of(BLOCK, ERROR, IGNORE), "flow_control.limit_exceeded_behavior")
    # After a failure, its ordering key is paused.
    ordering: bool = option(True, flag, "enable_message_ordering")


# What the broker keeps of a subscription; `flow_control` is the consumer's here.
_SHARED = {field: each for field, each in SUBSCRIPTION.options.items() if not field.startswith("flow_")}
_retention = seconds_within(600, 7 * 86400, "Message retention must be between 10 minutes and 7 days")
STORED = Options(
    "subscription option",
    {**_SHARED, "retention_seconds": Option(_retention, "message_retention_duration")},
    unknown_part="Unknown part of {0}: {1}",
)
CONSUMER = Options("subscription option", declared(ConsumerOptions))
PUBLISHER = Options("topic option", declared(PublisherOptions))

PUSH_CONFIG = "push_config"
SUBSCRIPTION_NAMES = STORED.names | CONSUMER.names | {"topic", PUSH_CONFIG}


def given_options(options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Options may come as one dictionary, by name, or both."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(f"Options must be a dictionary, not {type(options).__name__}")
    return {**(options or {}), **more}


def consumer_options(given: Mapping[str, Any], start: ConsumerOptions) -> ConsumerOptions:
    """What was given for the consumer; what is the subscription's is left."""
    return CONSUMER.read(given, start, others=SUBSCRIPTION_NAMES)


def publisher_options(given: Mapping[str, Any], start: PublisherOptions) -> PublisherOptions:
    return PUBLISHER.read(given, start)


def changed_subscription(start: SubscriptionOptions, changes: Mapping[str, Any]) -> SubscriptionOptions:
    """The broker's options after these changes; a push configuration is kept among the extras, as JSON."""
    options = STORED.read(changes, start, others=SUBSCRIPTION_NAMES)
    if changes.get(PUSH_CONFIG) is None:
        return options
    push_config = json.dumps(strings(changes[PUSH_CONFIG], PUSH_CONFIG), sort_keys=True)
    return replace(options, extras={**options.extras, PUSH_CONFIG: push_config})


# What topics and subscriptions show: it does not change when they do, and can be handed back to `set_metadata`.


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    created: datetime
    labels: dict[str, str]
    message_retention_duration: float  # seconds that acked messages are kept; 0: not

    @classmethod
    def of(cls, stored: StoredTopic) -> TopicMetadata:
        return cls(stored.name, stored.created, **TOPIC.show(stored.options))


@dataclass(frozen=True, slots=True)
class SubscriptionMetadata:
    name: str
    topic: str  # still its name after the topic was deleted
    created: datetime
    detached: bool
    ack_deadline_seconds: float
    enable_message_ordering: bool
    enable_exactly_once_delivery: bool
    filter: str
    retry_policy: dict[str, float] | None
    dead_letter_policy: dict[str, Any] | None
    expiration_policy: dict[str, float] | None
    message_retention_duration: float
    retain_acked_messages: bool
    labels: dict[str, str]
    push_config: dict[str, str]

    @classmethod
    def of(cls, stored: StoredSubscription) -> SubscriptionMetadata:
        shown = STORED.show(stored.options)
        push_config = json.loads(stored.options.extras.get(PUSH_CONFIG, "{}"))
        return cls(stored.name, stored.topic, stored.created, stored.detached, push_config=push_config, **shown)
