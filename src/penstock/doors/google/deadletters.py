"""What a dead letter says of where it came from, in production's words.

The rule kept here: this module needs nothing but the standard library, because every server has dead letters,
whichever doors it opens.
"""

from __future__ import annotations

from penstock.broker.retry import Source
from penstock.doors.google.instants import rfc3339

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
