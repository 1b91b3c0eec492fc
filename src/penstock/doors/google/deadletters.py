"""What a dead letter says of where it came from, in production's words.

It needs nothing but the standard library: every server has dead letters, whichever doors it opens.
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
    """The subscription that gave up on a message, if it is a dead letter."""
    name, project = attributes.get(f"{_PREFIX}Subscription"), attributes.get(f"{_PREFIX}SubscriptionProject")
    if not name:
        return None
    return f"projects/{project}/subscriptions/{name}" if project else name


def without_source(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes that a dead letter had before it was one."""
    return {name: value for name, value in attributes.items() if not name.startswith(_PREFIX)}


def rfc3339(nanoseconds: int) -> str:
    """An instant as the wire writes it: UTC, to the millisecond."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03}Z"
