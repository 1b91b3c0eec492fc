"""Where the doors' queues live among the broker's topics and subscriptions.

Every door spells a resource alike, so that what one door writes another can read. A queue is a topic and one
subscription of the same id, in a project; it comes into being when a client first names it.
"""

from __future__ import annotations

from penstock.broker.model import SubscriptionOptions
from penstock.engine.async_queue import AsyncMessageQueue

DEFAULT_PROJECT = "penstock"

# A queue keeps what it has until somebody acks it, and is never deleted for want of readers; a receipt is good until
# the message is delivered again.
QUEUE_OPTIONS = SubscriptionOptions(strict_receipts=False, retention_seconds=0)


def topic_name(project: str, topic_id: str) -> str:
    return f"projects/{project}/topics/{topic_id}"


def subscription_name(project: str, subscription_id: str) -> str:
    return f"projects/{project}/subscriptions/{subscription_id}"


def open_queue(queue: AsyncMessageQueue, project: str, name: str) -> tuple[str, str]:
    """The topic and the subscription of a queue, made together if they are not there; decided at once.

    Whatever is decided next becomes durable after them, so a caller that waits for its own commit waits for this one.
    """
    topic, subscription = topic_name(project, name), subscription_name(project, name)
    if not queue.reads(subscription, topic):
        queue.provide_queue(topic, subscription, QUEUE_OPTIONS)
    return topic, subscription


async def ensure_queue(queue: AsyncMessageQueue, project: str, name: str) -> tuple[str, str]:
    """The same, durable when it returns. Any number of callers may name a new queue at once: it is made once."""
    names = open_queue(queue, project, name)
    await queue.commit()
    return names
