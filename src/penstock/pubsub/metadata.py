"""What topics and subscriptions tell about themselves, and how it is changed.

The rule kept here: a snapshot in the words of this API. It does not change when the topic or subscription does, and
what it shows can be handed back to `set_metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.engine.options import seconds, subscription_options
from penstock.engine.views import SubscriptionMetadata as StoredSubscription
from penstock.engine.views import TopicMetadata as StoredTopic
from penstock.errors import InvalidArgumentError
from penstock.pubsub.checks import checked, strings
from penstock.pubsub.options import check_names, stored_options

PUSH_CONFIG = "push_config"  # where it is kept among the extras of a subscription


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    created: datetime
    labels: dict[str, str]
    message_retention_duration: float  # seconds that acked messages are kept; 0: not

    @classmethod
    def of(cls, stored: StoredTopic) -> TopicMetadata:
        options = stored.options
        return cls(stored.name, stored.created, dict(options.labels), options.retention_seconds)


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
        options = stored.options
        return cls(
            stored.name,
            stored.topic,
            stored.created,
            stored.detached,
            options.lease_seconds,
            options.ordering,
            options.exactly_once,
            options.filter,
            _retry_policy(options),
            _dead_letter_policy(options),
            {"ttl": options.expiration_seconds} if options.expiration_seconds else None,
            options.retention_seconds,
            options.retain_acked,
            dict(options.labels),
            json.loads(options.extras.get(PUSH_CONFIG, "{}")),
        )


def _retry_policy(options: SubscriptionOptions) -> dict[str, float] | None:
    if not options.retry_minimum_seconds and not options.retry_maximum_seconds:
        return None
    return {"minimum_backoff": options.retry_minimum_seconds, "maximum_backoff": options.retry_maximum_seconds}


def _dead_letter_policy(options: SubscriptionOptions) -> dict[str, Any] | None:
    if not options.dead_letter_topic:
        return None
    return {
        "dead_letter_topic": options.dead_letter_topic,
        "max_delivery_attempts": options.max_delivery_attempts,
    }


def changed_subscription(start: SubscriptionOptions, changes: Mapping[str, Any]) -> SubscriptionOptions:
    """The broker's options after these changes, by the names of this API."""
    check_names(changes)
    options = subscription_options(stored_options(changes), start)
    push_config = changes.get("push_config")
    return options if push_config is None else with_push_config(options, push_config)


def with_push_config(options: SubscriptionOptions, push_config: object) -> SubscriptionOptions:
    text = json.dumps(strings(push_config, PUSH_CONFIG), sort_keys=True)
    return replace(options, extras={**options.extras, PUSH_CONFIG: text})


_TOPIC = {"labels": strings, "message_retention_duration": seconds}


def changed_topic(start: TopicOptions, changes: Mapping[str, Any]) -> TopicOptions:
    names = {"labels": "labels", "message_retention_duration": "retention_seconds"}
    given = checked(changes, _TOPIC, "topic option")
    return replace(start, **{names[name]: value for name, value in given.items()})


def given_options(options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Options may come as one dictionary, by name, or both."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(f"Options must be a dictionary, not {type(options).__name__}")
    return {**(options or {}), **more}
