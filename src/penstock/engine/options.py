"""The options of a subscription as programs write them, turned into the broker's.

The rule kept here: every option has one Python spelling (and the aliases the specifications use); what is not
an option is refused by name, and a value out of range says its range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.errors import InvalidArgumentError

ACK_DEADLINE_MIN_SECONDS = 1
ACK_DEADLINE_MAX_SECONDS = 600
RETRY_MINIMUM_SECONDS = 10.0
RETRY_MAXIMUM_SECONDS = 600.0
DELIVERY_ATTEMPTS = 5


def seconds(value: object, name: str) -> float:
    """A duration given as seconds, a timedelta, or {"seconds": ..., "nanos": ...}."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        unknown = [str(key) for key in value if key not in ("seconds", "nanos")]
        if unknown:
            raise InvalidArgumentError(f"{name}: unknown part of a duration: {unknown[0]}")
        return _number(value.get("seconds", 0), name) + _number(value.get("nanos", 0), name) / 1e9
    return _number(value, name)


def named(given: object) -> Mapping[str, Any]:
    """What a caller gave as its options, if that is a mapping."""
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"Options must be given by name, not as {type(given).__name__}")
    return given


def subscription_options(given: Mapping[str, Any], start: SubscriptionOptions | None = None) -> SubscriptionOptions:
    """The broker's options for what a caller wrote."""
    options = start or SubscriptionOptions()
    for name, value in given.items():
        option = OPTIONS.get(name)
        if option is None:
            raise InvalidArgumentError(f"Unknown subscription option: {name}")
        if value is not None:
            options = replace(options, **option(value, name))
    return options


def shown_options(options: SubscriptionOptions) -> dict[str, Any]:
    """What a program would write to get these options."""
    retry = {"minimum_backoff": options.retry_minimum_seconds, "maximum_backoff": options.retry_maximum_seconds}
    letters = {
        "dead_letter_topic": options.dead_letter_topic,
        "max_delivery_attempts": options.max_delivery_attempts,
    }
    flow = {"max_messages": options.flow_max_messages, "max_bytes": options.flow_max_bytes}
    return {
        "ack_deadline_seconds": options.lease_seconds,
        "message_ordering": options.ordering,
        "enable_message_ordering": options.ordering,
        "enable_exactly_once_delivery": options.exactly_once,
        "filter": options.filter,
        "flow_control": {name: value for name, value in flow.items() if value} or None,
        "retry_policy": retry if any(retry.values()) else None,
        "dead_letter_policy": letters if options.dead_letter_topic else None,
        "message_retention_duration": options.retention_seconds,
        "retain_acked_messages": options.retain_acked,
        "expiration_policy": {"ttl": options.expiration_seconds} if options.expiration_seconds else None,
        "labels": dict(options.labels),
    }


def topic_options(given: Mapping[str, Any]) -> TopicOptions:
    """The same for a topic. Its name and time of creation, as its metadata shows them, may be among them."""
    options = TopicOptions()
    for name, value in named(given).items():
        if name not in _TOPIC_OPTIONS and name not in ("name", "created"):
            raise InvalidArgumentError(f"Unknown topic option: {name}")
        if name in _TOPIC_OPTIONS and value is not None:
            options = replace(options, **_TOPIC_OPTIONS[name](value, name))
    return options


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgumentError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not 0 <= value < 1e10:
        raise InvalidArgumentError(f"{name} must not be negative or beyond reason: {value}")
    return float(value)


def _ack_deadline(value: object, name: str) -> dict[str, Any]:
    lease = seconds(value, name)
    if not ACK_DEADLINE_MIN_SECONDS <= lease <= ACK_DEADLINE_MAX_SECONDS:
        raise InvalidArgumentError(
            f"Ack deadline must be between {ACK_DEADLINE_MIN_SECONDS} and {ACK_DEADLINE_MAX_SECONDS} seconds"
        )
    return {"lease_seconds": lease}


def _flag(field: str) -> Callable[[object, str], dict[str, Any]]:
    def option(value: object, name: str) -> dict[str, Any]:
        if not isinstance(value, bool):
            raise InvalidArgumentError(f"{name} must be True or False, not {type(value).__name__}")
        return {field: value}

    return option


def _duration(field: str) -> Callable[[object, str], dict[str, Any]]:
    return lambda value, name: {field: seconds(value, name)}


def _count(field: str, least: int = 0) -> Callable[[object, str], dict[str, Any]]:
    def option(value: object, name: str) -> dict[str, Any]:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidArgumentError(f"{name} must be a whole number, at least {least}")
        return {field: value}

    return option


def _text(field: str) -> Callable[[object, str], dict[str, Any]]:
    def option(value: object, name: str) -> dict[str, Any]:
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} must be a string, not {type(value).__name__}")
        return {field: value}

    return option


def _strings(field: str) -> Callable[[object, str], dict[str, Any]]:
    def option(value: object, name: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for kv in value.items() for each in kv):
            raise InvalidArgumentError(f"{name} must be a dictionary of strings")
        return {field: dict(value)}

    return option


def _parts(
    parts: dict[str, Callable[[object, str], dict[str, Any]]], defaults: dict[str, Any]
) -> Callable[[object, str], dict[str, Any]]:
    """An option that is a dictionary of options."""

    def option(value: object, name: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidArgumentError(f"{name} must be a dictionary")
        result = dict(defaults)
        for key, each in value.items():
            if key not in parts:
                raise InvalidArgumentError(f"Unknown part of {name}: {key}")
            if each is not None:
                result.update(parts[key](each, f"{name}.{key}"))
        return result

    return option


_flow_control = _parts({"max_messages": _count("flow_max_messages", 1), "max_bytes": _count("flow_max_bytes", 1)}, {})
_retry_policy = _parts(
    {"minimum_backoff": _duration("retry_minimum_seconds"), "maximum_backoff": _duration("retry_maximum_seconds")},
    {"retry_minimum_seconds": RETRY_MINIMUM_SECONDS, "retry_maximum_seconds": RETRY_MAXIMUM_SECONDS},
)
_dead_letter_policy = _parts(
    {
        "dead_letter_topic": _text("dead_letter_topic"),
        "max_delivery_attempts": _count("max_delivery_attempts", 1),
    },
    {"max_delivery_attempts": DELIVERY_ATTEMPTS},
)

OPTIONS: dict[str, Callable[[object, str], dict[str, Any]]] = {
    "ack_deadline_seconds": _ack_deadline,
    "ack_deadline": _ack_deadline,
    "message_ordering": _flag("ordering"),
    "enable_message_ordering": _flag("ordering"),
    "enable_exactly_once_delivery": _flag("exactly_once"),
    "filter": _text("filter"),
    "flow_control": _flow_control,
    "retry_policy": _retry_policy,
    "dead_letter_policy": _dead_letter_policy,
    "message_retention_duration": _duration("retention_seconds"),
    "retain_acked_messages": _flag("retain_acked"),
    "expiration_policy": _parts({"ttl": _duration("expiration_seconds")}, {}),
    "labels": _strings("labels"),
}

_TOPIC_OPTIONS: dict[str, Callable[[object, str], dict[str, Any]]] = {
    "labels": _strings("labels"),
    "message_retention_duration": _duration("retention_seconds"),
}
