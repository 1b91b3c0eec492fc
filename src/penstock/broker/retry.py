"""Retry backoff, and the attributes of dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from penstock.broker.model import SECOND, SubscriptionOptions

# Backoff of dead letters whose topic does not exist. They move soon after it is created, without a hot loop.
STUCK_MINIMUM_SECONDS, STUCK_MAXIMUM_SECONDS = 1, 60


class Source(NamedTuple):
    """The source of a dead letter."""

    subscription: str
    topic: str
    attempts: int
    publish_time: int


SourceAttributes: TypeAlias = Callable[[Source], dict[str, str]]


def backoff(options: SubscriptionOptions, attempts: int) -> int:
    """Return the nanoseconds until the next delivery, which double from the minimum up to the maximum."""
    minimum = options.retry_minimum_seconds
    if attempts < 1 or minimum <= 0:
        return 0
    doublings = min(attempts - 1, 60)  # beyond that any minimum has long reached its maximum
    return int(min(minimum * 2**doublings, max(minimum, options.retry_maximum_seconds)) * SECOND)


def stuck_backoff(options: SubscriptionOptions, attempts: int) -> int:
    """Return the nanoseconds until a spent message whose dead letter topic does not exist is delivered again."""
    doublings = min(max(attempts - options.max_delivery_attempts, 0), 60)
    return int(min(STUCK_MINIMUM_SECONDS * 2**doublings, STUCK_MAXIMUM_SECONDS) * SECOND)


def is_spent(options: SubscriptionOptions, attempts: int) -> bool:
    """Return whether a message has used up its delivery attempts."""
    return bool(options.dead_letter_topic) and attempts >= options.max_delivery_attempts


SOURCE_PUBLISH_TIME = "dead_letter_source_publish_time_ns"


def original_publish_time(attributes: Mapping[str, str], publish_time: int) -> int:
    """Return the publish time of a message. For a dead letter, return that of the message that failed."""
    text = attributes.get(SOURCE_PUBLISH_TIME, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else publish_time


def source_attributes(source: Source) -> dict[str, str]:
    """Return the attributes by which a dead letter names its source, unless a door provides its own."""
    return {
        "dead_letter_source_subscription": source.subscription,
        "dead_letter_source_topic": source.topic,
        "dead_letter_source_delivery_count": str(source.attempts),
        SOURCE_PUBLISH_TIME: str(source.publish_time),
    }
