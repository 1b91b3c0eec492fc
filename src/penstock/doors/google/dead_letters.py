"""The attributes of a dead letter that name its source, as production writes them.

This module needs only the standard library, because every server has dead letters, whichever doors it opens.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from penstock.broker.model import SECOND
from penstock.broker.retry import Source

_PREFIX = "CloudPubSubDeadLetterSource"


def source_attributes(source: Source) -> dict[str, str]:
    parts = source.subscription.split("/")
    project = parts[1] if len(parts) == 4 and parts[0] == "projects" else ""
    return {
        f"{_PREFIX}DeliveryCount": str(source.attempts),
        f"{_PREFIX}Subscription": parts[-1],
        f"{_PREFIX}SubscriptionProject": project,
        f"{_PREFIX}TopicPublishTime": rfc3339(source.publish_time),
    }


def source_subscription(attributes: Mapping[str, str]) -> str | None:
    """Return the subscription that a dead letter comes from, or None if the message is not a dead letter."""
    name, project = attributes.get(f"{_PREFIX}Subscription"), attributes.get(f"{_PREFIX}SubscriptionProject")
    if not name:
        return None
    return f"projects/{project}/subscriptions/{name}" if project else name


def without_source(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes without those that name the source of a dead letter."""
    return {name: value for name, value in attributes.items() if not name.startswith(_PREFIX)}


def rfc3339(nanoseconds: int) -> str:
    """Format an instant in UTC with milliseconds."""
    seconds, remainder = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{remainder // 1_000_000:03}Z"
