"""Where the doors' queues live among the broker's topics and subscriptions.

Every door spells a resource alike, so that what one door writes another can read. A queue is a topic and one
subscription of the same id, in a project; it comes into being when a client first names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock import names
from penstock.broker.model import SubscriptionOptions
from penstock.errors import InvalidArgumentError
from penstock.names import SNAPSHOTS, SUBSCRIPTIONS, TOPICS, parts_of

if TYPE_CHECKING:
    from penstock.doors.port import Door

__all__ = ["CLIENTS", "QUEUE_OPTIONS", "SNAPSHOTS", "SUBSCRIPTIONS", "TOPICS", "Names", "full_name", "parts_of"]
__all__ += ["subscription_name", "topic_name"]

# A queue keeps what it has until it is acked, and is never deleted for want of readers; a receipt is good until the
# message is delivered again.
QUEUE_OPTIONS = SubscriptionOptions(strict_receipts=False, retention_seconds=0)

CLIENTS = {"pubsub": "pubsub", "azure": "azure", "text": "text", "spark": "flight"}  # and the door of each
OF_QUEUES = {"azure"}  # clients whose door answers for queues that are there; to others naming one makes it


def full_name(project: str, kind: str, name: str) -> str:
    """As in programs, but that people can read it."""
    found = names.full_name(project, kind, name)
    if not found.isprintable():
        raise InvalidArgumentError(f"A name in {kind} has printable characters only")
    return found


def topic_name(project: str, topic_id: str) -> str:
    return f"{names.prefix(project, TOPICS)}{topic_id}"


def subscription_name(project: str, subscription_id: str) -> str:
    return f"{names.prefix(project, SUBSCRIPTIONS)}{subscription_id}"


def project_of(name: str) -> str:
    """The project that any name is in; empty if it is in none. What is in one project has one time."""
    start, _, rest = name.partition("/")
    owner, slash, _ = rest.partition("/")
    return owner if start == "projects" and slash else ""


class Names:
    """How clients call a topic: the one place that knows it for all of them."""

    def __init__(self, doors: Iterable[Door] = (), default_project: str = "") -> None:
        self._doors = {door.name: door for door in doors}
        self._project = default_project

    def of(self, topic: str, *, is_queue: bool) -> dict[str, str | None]:
        """By kind of client; None where that client cannot reach the topic: no such name there, or no such door.

        `is_queue`: a subscription of its name reads it.
        """
        project, short = parts_of(topic)
        found = {client: self._at(door, topic) for client, door in CLIENTS.items()}
        if not is_queue:
            found |= dict.fromkeys(OF_QUEUES)
        return found | {"python": short if project == self._project else topic}

    def of_subscription(self, subscription: str, topic: str) -> dict[str, str | None]:
        """Of one that is a queue, as its topic; others are known to Pub/Sub and to Python alone."""
        project, short = parts_of(subscription, SUBSCRIPTIONS)
        here: dict[str, str | None] = {"python": short if project == self._project else subscription}
        here |= {"pubsub": subscription if "pubsub" in self._doors else None}
        if project and (project, short) == parts_of(topic):
            return self.of(topic, is_queue=True) | here
        return dict.fromkeys(CLIENTS) | here

    def _at(self, door: str, topic: str) -> str | None:
        return self._doors[door].name_of(topic) if door in self._doors else None
