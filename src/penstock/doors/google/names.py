"""Resource names: checking, splitting and generating them."""

from __future__ import annotations

import secrets

from penstock.doors.google.errors import CallError, invalid
from penstock.names import is_pubsub_id, is_pubsub_project

DELETED_TOPIC = "_deleted-topic_"
DELETED_SCHEMA = "_deleted-schema_"


def bad_name(name: str) -> CallError:
    return invalid(
        f"Invalid resource name given (name={name[:300]}). Refer to "
        "https://cloud.google.com/pubsub/docs/admin#resource_names for more information."
    )


def check(name: str, collection: str) -> str:
    """Return the name. Raise CallError unless it is projects/P/<collection>/ID."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != collection or not is_pubsub_id(parts[3]):
        raise bad_name(name)
    _check_project(parts[1], name)
    return name


def check_project(name: str) -> str:
    """Return the name. Raise CallError unless it is projects/P."""
    parts = name.split("/")
    if len(parts) != 2 or parts[0] != "projects":
        raise bad_name(name)
    _check_project(parts[1], name)
    return name


def _check_project(project: str, name: str) -> None:
    if not is_pubsub_project(project):
        raise bad_name(name)


def topic(name: str) -> str:
    return check(name, "topics")


def subscription(name: str) -> str:
    return check(name, "subscriptions")


def snapshot(name: str) -> str:
    return check(name, "snapshots")


def project_of(name: str) -> str:
    """Return the projects/P of a resource name."""
    return "/".join(name.split("/", 2)[:2])


def generate_name(project: str, collection: str) -> str:
    """Return a random name for a resource that its creator did not name."""
    return f"{project}/{collection}/s-{secrets.token_hex(12)}"
