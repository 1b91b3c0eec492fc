"""Where the doors' queues live among the broker's topics and subscriptions.

Every door spells a resource alike, so that what one door writes another can read. A queue is a topic and one
subscription of the same id, in a project; it comes into being when a client first names it.
"""

from __future__ import annotations

from penstock.broker.model import SubscriptionOptions

# A queue keeps what it has until it is acked, and is never deleted for want of readers; a receipt is good until the
# message is delivered again.
QUEUE_OPTIONS = SubscriptionOptions(strict_receipts=False, retention_seconds=0)


def topic_name(project: str, topic_id: str) -> str:
    return f"projects/{project}/topics/{topic_id}"


def subscription_name(project: str, subscription_id: str) -> str:
    return f"projects/{project}/subscriptions/{subscription_id}"
