"""The names of resources, shared by all doors.

Every door uses the same names, so that one door can read messages of another. A queue is a topic and one subscription
with the same id, in a project. It is created when a client first names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock import names
from penstock.broker.model import SubscriptionOptions
from penstock.names import (
    SNAPSHOTS,
    SUBSCRIPTIONS,
    TOPICS,
    check_new_name,
    full_name,
    is_new_name,
    parts_of,
    project_of,
)

if TYPE_CHECKING:
    from penstock.doors.port import Door

__all__ = ["CLIENTS", "QUEUE_OPTIONS", "SNAPSHOTS", "SUBSCRIPTIONS", "TOPICS", "Names"]
__all__ += ["check_new_name", "full_name", "is_new_name", "parts_of", "project_of", "subscription_name", "topic_name"]

# A queue keeps its messages until they are acked, and never expires. A receipt is valid until the message is
# redelivered.
QUEUE_OPTIONS = SubscriptionOptions(retention_seconds=0)

CLIENTS = {"pubsub": "pubsub", "azure": "azure", "text": "text", "spark": "flight"}  # door by client
OF_QUEUES = {"azure"}  # clients that reach existing queues only. Other clients create a queue by naming it


def topic_name(project: str, topic_id: str) -> str:
    return f"{names.prefix(project, TOPICS)}{topic_id}"


def subscription_name(project: str, subscription_id: str) -> str:
    return f"{names.prefix(project, SUBSCRIPTIONS)}{subscription_id}"


class Names:
    """The names of a topic for the clients of all doors."""

    def __init__(self, doors: Iterable[Door] = (), default_project: str = "") -> None:
        self._doors = {door.name: door for door in doors}
        self._project = default_project

    def of(self, topic: str, *, is_queue: bool) -> dict[str, str | None]:
        """Return the names of a topic by client. None: that client cannot reach the topic.

        `is_queue`: whether the topic has a subscription with the same id.
        """
        project, short = parts_of(topic)
        names_by_client = {client: self._at(door, topic) for client, door in CLIENTS.items()}
        if not is_queue:
            names_by_client |= dict.fromkeys(OF_QUEUES)
        return names_by_client | {"python": short if project == self._project else topic}

    def of_subscription(self, subscription: str, topic: str) -> dict[str, str | None]:
        """Return the names of a subscription by client. Only Pub/Sub and Python reach one that is not a queue."""
        project, short = parts_of(subscription, SUBSCRIPTIONS)
        here: dict[str, str | None] = {"python": short if project == self._project else subscription}
        here |= {"pubsub": subscription if "pubsub" in self._doors else None}
        if project and (project, short) == parts_of(topic):
            return self.of(topic, is_queue=True) | here
        return dict.fromkeys(CLIENTS) | here

    def _at(self, door: str, topic: str) -> str | None:
        return self._doors[door].name_of(topic) if door in self._doors else None
