"""Names of topics, subscriptions and snapshots: short as programs write them, full as the queue knows them."""

from __future__ import annotations

from penstock.errors import InvalidArgumentError

DEFAULT_PROJECT = "penstock"
TOPICS, SUBSCRIPTIONS, SNAPSHOTS = "topics", "subscriptions", "snapshots"


def prefix(project: str, kind: str) -> str:
    return f"projects/{project}/{kind}/"


def full_name(project: str, kind: str, name: object) -> str:
    """`orders` or `projects/p/topics/orders` -> `projects/p/topics/orders`."""
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"A name in {kind} must be a non-empty string")
    if "/" not in name:
        return f"{prefix(project, kind)}{name}"
    if not parts_of(name, kind)[0] or name.endswith("/"):
        raise InvalidArgumentError(f"Not a name in {kind}: {name}. Give NAME or projects/PROJECT/{kind}/NAME")
    return name


def parts_of(name: str, kind: str = TOPICS) -> tuple[str, str]:
    """The project of a topic and its name there; a topic that no door has named is in none. So for other kinds."""
    parts = name.split("/")
    is_ours = len(parts) == 4 and parts[::2] == ["projects", kind]
    return (parts[1], parts[3]) if is_ours else ("", name)
