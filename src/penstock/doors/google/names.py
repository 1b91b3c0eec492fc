"""Resource names: what may be one, and how they are taken apart."""

from __future__ import annotations

import secrets
import string

from penstock.doors.google.errors import CallError, invalid

DELETED_TOPIC = "_deleted-topic_"
DELETED_SCHEMA = "_deleted-schema_"

_ID = frozenset(string.ascii_letters + string.digits + "._~+%-")
_PROJECT = frozenset(string.ascii_letters + string.digits + "._:~+%-")
_ID_MIN, _ID_MAX = 3, 255


def bad_name(name: str) -> CallError:
    return invalid(
        f"Invalid resource name given (name={name[:300]}). Refer to "
        "https://cloud.google.com/pubsub/docs/admin#resource_names for more information."
    )


def is_id(text: str) -> bool:
    if not _ID_MIN <= len(text) <= _ID_MAX or not text[0].isalpha() or text.startswith("goog"):
        return False
    return text.isascii() and _ID.issuperset(text)


def check(name: str, collection: str) -> str:
    """The name, if it is projects/P/<collection>/ID."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != collection or not is_id(parts[3]):
        raise bad_name(name)
    _check_project(parts[1], name)
    return name


def check_project(name: str) -> str:
    """The name, if it is projects/P."""
    parts = name.split("/")
    if len(parts) != 2 or parts[0] != "projects":
        raise bad_name(name)
    _check_project(parts[1], name)
    return name


def _check_project(project: str, name: str) -> None:
    if not 1 <= len(project) <= 255 or not _PROJECT.issuperset(project):
        raise bad_name(name)


def topic(name: str) -> str:
    return check(name, "topics")


def subscription(name: str) -> str:
    return check(name, "subscriptions")


def snapshot(name: str) -> str:
    return check(name, "snapshots")


def project_of(name: str) -> str:
    """projects/P of any resource's name."""
    return "/".join(name.split("/", 2)[:2])


def made_up(project: str, collection: str) -> str:
    """A name for something its creator did not name."""
    return f"{project}/{collection}/s-{secrets.token_hex(12)}"
