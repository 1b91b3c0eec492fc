"""Names of topics, subscriptions and snapshots: short as programs write them, full as the queue knows them."""

from __future__ import annotations

from penstock.errors import InvalidArgumentError

DEFAULT_PROJECT = "penstock"

TOPICS = "topics"
SUBSCRIPTIONS = "subscriptions"
SNAPSHOTS = "snapshots"


def full_name(project: str, kind: str, name: object) -> str:
    """`orders` or `projects/p/topics/orders` -> `projects/p/topics/orders`."""
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"A name in {kind} must be a non-empty string")
    if "/" not in name:
        return f"{prefix(project, kind)}{name}"
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != kind or not parts[1] or not parts[3]:
        raise InvalidArgumentError(f"Not a name in {kind}: {name}. Give NAME or projects/PROJECT/{kind}/NAME")
    return name


def prefix(project: str, kind: str) -> str:
    return f"projects/{project}/{kind}/"
