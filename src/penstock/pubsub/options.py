"""The options of subscriptions, consumers and publishers under this API's names, and their metadata records."""

from __future__ import annotations

import asyncio
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
    """Options of a handle that reads a subscription."""

    # Maximum of unanswered messages.
    max_messages: int = option(1000, count, "flow_control.max_messages")
    max_bytes: int = option(100 * MIB, count, "flow_control.max_bytes")
    # True: with room for one message, pull a whole batch.
    allow_excess_messages: bool = option(False, flag, "flow_control.allow_excess_messages")
    # Maximum time to extend leases while listeners run. 0: leases are not extended.
    max_extension_seconds: float = option(3600.0, seconds, "max_extension_time", alias="flow_control.max_extension")
    # Batches of acks and nacks. 0 seconds: the answers of one turn of the event loop.
    batch_messages: int = option(3000, count, "batching.max_messages")
    batch_seconds: float = option(0.0, milliseconds, "batching.max_milliseconds")
    # None: the subscription's.
    ack_deadline_seconds: float | None = option(None, ack_deadline, "ack_deadline_seconds", alias="ack_deadline")
    min_ack_deadline_seconds: float = option(0.0, ack_deadline, "min_ack_deadline")
    max_ack_deadline_seconds: float = option(float(ACK_DEADLINE_MAX_SECONDS), ack_deadline, "max_ack_deadline")
    close_behavior: str = option(WAIT, one_of(NACK, WAIT), "close_options.behavior")
    # None: until all messages are answered or their leases end.
    close_timeout_seconds: float | None = option(None, seconds, "close_options.timeout")
    # Timeout of `create`. None: no timeout.
    call_timeout_seconds: float | None = option(None, milliseconds, "gax_opts.timeout")
    # These have no effect in one process.
    call_retry: object = option(None, anything, "gax_opts.retry")
    auto_paginate: bool = option(True, flag, "gax_opts.auto_paginate")
    max_streams: int = option(5, count, "streaming_options.max_streams")
    stream_timeout_seconds: float = option(300.0, milliseconds, "streaming_options.timeout")
    use_legacy_flow_control: bool = option(False, flag, "use_legacy_flow_control")

    def lease_seconds(self, stored: float) -> float:
        """Return the lease to pull with. `stored` is the subscription's ack deadline."""
        wanted = stored if self.ack_deadline_seconds is None else self.ack_deadline_seconds
        return max(self.min_ack_deadline_seconds, min(wanted, self.max_ack_deadline_seconds))


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """Options of a handle that publishes to a topic."""

    # Batches of messages. 0 seconds: the messages of one turn of the event loop.
    max_messages: int = option(100, count, "batching.max_messages")
    max_bytes: int = option(MIB, count, "batching.max_bytes")
    max_seconds: float = option(0.0, milliseconds, "batching.max_milliseconds")
    # Maximum of messages and bytes that are not stored yet. 0: no limit.
    outstanding_messages: int = option(0, count, "flow_control.max_outstanding_messages")
    outstanding_bytes: int = option(0, count, "flow_control.max_outstanding_bytes")
    limit_exceeded_behavior: str = option(BLOCK, one_of(BLOCK, ERROR, IGNORE), "flow_control.limit_exceeded_behavior")
    # True: a failed publish pauses its ordering key.
    ordering: bool = option(True, flag, "enable_message_ordering")


@dataclass(frozen=True, slots=True)
class CallOptions:
    timeout_seconds: float | None = option(None, milliseconds, "timeout")  # None: no timeout
    # These have no effect in one process.
    retry: object = option(None, anything, "retry")
    auto_paginate: bool = option(True, flag, "auto_paginate")


@dataclass(frozen=True, slots=True)
class PullOptions:
    max_messages: int = option(100, count, "max_messages")
    wait_seconds: float = option(0.0, seconds, "wait_seconds")  # maximum wait for the first message
    timeout_seconds: float | None = option(None, milliseconds, "timeout")  # None: no timeout
    retry: object = option(None, anything, "retry")  # no effect in one process


# The stored options of a subscription. In this API, `flow_control` belongs to the consumer.
_SHARED = {field: shared for field, shared in SUBSCRIPTION.options.items() if not field.startswith("flow_")}
_retention = seconds_within(600, 7 * 86400, "Message retention must be between 10 minutes and 7 days")
STORED = Options(
    "subscription option",
    {**_SHARED, "retention_seconds": Option(_retention, "message_retention_duration")},
    unknown_part="Unknown part of {0}: {1}",
)
CONSUMER = Options("subscription option", declared(ConsumerOptions))
PUBLISHER = Options("topic option", declared(PublisherOptions))

CALL = Options("call option", declared(CallOptions))
PULL = Options("pull option", declared(PullOptions))

PUSH_CONFIG = "push_config"
SUBSCRIPTION_NAMES = STORED.names | CONSUMER.names | {"topic", PUSH_CONFIG}


def given_options(options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options from a dictionary and from keyword arguments."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(f"Options must be a dictionary, not {type(options).__name__}")
    return {**(options or {}), **more}


def consumer_options(given: Mapping[str, Any], start: ConsumerOptions) -> ConsumerOptions:
    """Return `start` changed by the consumer's options. Stored options are ignored."""
    return CONSUMER.read(given, start, others=SUBSCRIPTION_NAMES)


def publisher_options(given: Mapping[str, Any], start: PublisherOptions) -> PublisherOptions:
    return PUBLISHER.read(given, start)


def call_timeout(options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> asyncio.Timeout:
    """Return a context manager that raises TimeoutError after the `timeout` of a call."""
    return asyncio.timeout(CALL.read(given_options(options, more), CallOptions()).timeout_seconds)


def pull_options(given: Mapping[str, Any]) -> PullOptions:
    return PULL.read(given, PullOptions())


def changed_subscription(start: SubscriptionOptions, changes: Mapping[str, Any]) -> SubscriptionOptions:
    """Return the stored options with these changes. A push configuration is stored in the extras, as JSON."""
    options = STORED.read(changes, start, others=SUBSCRIPTION_NAMES)
    if changes.get(PUSH_CONFIG) is None:
        return options
    push_config = json.dumps(strings(changes[PUSH_CONFIG], PUSH_CONFIG), sort_keys=True)
    return replace(options, extras={**options.extras, PUSH_CONFIG: push_config})


# The metadata that get_metadata and set_metadata return. The dictionaries can be passed to set_metadata.


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of a topic when it was read."""

    name: str
    created: datetime
    labels: dict[str, str]
    message_retention_duration: float  # seconds to keep acked messages; 0: not kept

    @classmethod
    def of(cls, stored: StoredTopic) -> TopicMetadata:
        return cls(stored.name, stored.created, **TOPIC.show(stored.options))


@dataclass(frozen=True, slots=True)
class SubscriptionMetadata:
    """The metadata of a subscription when it was read."""

    name: str
    topic: str  # also after the topic was deleted
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
