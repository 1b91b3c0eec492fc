"""What a dead letter says of where it came from, in production's words.

It needs nothing but the standard library: every server has dead letters, whichever doors it opens.
"""

from __future__ import annotations

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


def rfc3339(nanoseconds: int) -> str:
    """An instant as the wire writes it: UTC, to the millisecond."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03}Z"
