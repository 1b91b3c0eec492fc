"""Where the doors' queues live among the broker's topics and subscriptions.

Every door spells a resource alike, so that what one door writes another can read. A queue is a topic and one
subscription of the same id, in a project; it comes into being when a client first names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.model import SubscriptionOptions
from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from penstock.doors.port import Door

# A queue keeps what it has until it is acked, and is never deleted for want of readers; a receipt is good until the
# message is delivered again.
QUEUE_OPTIONS = SubscriptionOptions(strict_receipts=False, retention_seconds=0)

CLIENTS = {"pubsub": "pubsub", "azure": "azure", "text": "text", "spark": "flight"}  # and the door of each
TOPICS, SUBSCRIPTIONS, SNAPSHOTS = "topics", "subscriptions", "snapshots"


def full_name(project: str, kind: str, name: str) -> str:
    """`orders` or `projects/p/topics/orders` -> `projects/p/topics/orders`."""
    if "/" not in name:
        name = f"projects/{project}/{kind}/{name}"
    start, _, rest = name.partition("/")
    owner, _, rest = rest.partition("/")
    found, _, last = rest.partition("/")
    if start != "projects" or found != kind or not owner or not last or "/" in last or not name.isprintable():
        raise InvalidArgumentError(f"Not a name in {kind}: give NAME or projects/PROJECT/{kind}/NAME")
    return name


def topic_name(project: str, topic_id: str) -> str:
    return f"projects/{project}/topics/{topic_id}"


def subscription_name(project: str, subscription_id: str) -> str:
    return f"projects/{project}/subscriptions/{subscription_id}"


def parts_of(name: str, kind: str = TOPICS) -> tuple[str, str]:
    """The project of a topic and its name there; a topic that no door has named is in none. So for other kinds."""
    parts = name.split("/")
    is_ours = len(parts) == 4 and parts[::2] == ["projects", kind]
    return (parts[1], parts[3]) if is_ours else ("", name)


class Names:
    """How clients call a topic: the one place that knows it for all of them."""

    def __init__(self, doors: Iterable[Door] = (), default_project: str = "") -> None:
        self._doors = {door.name: door for door in doors}
        self._project = default_project

    def of(self, topic: str) -> dict[str, str | None]:
        """By kind of client; None where that client cannot reach the topic: no such name there, or no such door."""
        project, short = parts_of(topic)
        names = {client: self._at(door, topic) for client, door in CLIENTS.items()}
        return names | {"python": short if project == self._project else topic}

    def of_subscription(self, subscription: str, topic: str) -> dict[str, str | None]:
        """Of one that is a queue, as its topic; others are known to Pub/Sub and to Python alone."""
        project, short = parts_of(subscription, SUBSCRIPTIONS)
        here: dict[str, str | None] = {"python": short if project == self._project else subscription}
        here |= {"pubsub": subscription if "pubsub" in self._doors else None}
        if project and (project, short) == parts_of(topic):
            return self.of(topic) | here
        return dict.fromkeys(CLIENTS) | here

    def _at(self, door: str, topic: str) -> str | None:
        return self._doors[door].name_of(topic) if door in self._doors else None
