"""Short and full names of topics, subscriptions and snapshots.

A name that is only looked up may be any name in the store. A new name follows one rule in all doors (`check_new_name`).
A door with a stricter vendor applies the vendor's rule as well. See decision 0015.
"""

from __future__ import annotations

import re
import string
from typing import Final

from penstock.errors import InvalidArgumentError

DEFAULT_PROJECT = "penstock"
TOPICS: Final = "topics"
SUBSCRIPTIONS: Final = "subscriptions"
SNAPSHOTS: Final = "snapshots"

ID_BYTES_MAX = 256  # in UTF-8
NEW_NAME_RULE = (
    f"A new name has 1 to {ID_BYTES_MAX} bytes of printable characters without a slash, does not begin or end with a "
    "space, and is not . or .."
)
PUBSUB_RULE = (
    "A name that Pub/Sub clients can use has 3 to 255 letters, digits and . _ ~ + % -, begins with a letter, and does "
    "not begin with goog"
)

# What users call the protocol of a door, by the name of the door.
PROTOCOLS = {
    "pubsub": "Pub/Sub API",
    "azure": "Azure Queue API",
    "text": "text protocol",
    "flight": "Flight",
    "http": "admin API",
}

# Characters that Python calls printable, but that show nothing: fillers, variation selectors, the blank of Braille.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_PUBSUB_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._~+%-")
_PUBSUB_MIN, _PUBSUB_MAX = 3, 255


def prefix(project: str, kind: str) -> str:
    return f"projects/{project}/{kind}/"


def full_name(project: str, kind: str, name: object) -> str:
    """Return `projects/p/topics/orders` for `orders` or for the full name itself."""
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"A name in {kind} must be a non-empty string")
    if "/" not in name:
        return f"{prefix(project, kind)}{name}"
    if not parts_of(name, kind)[0] or name.endswith("/"):
        raise InvalidArgumentError(f"Not a name in {kind}: {name}. Give NAME or projects/PROJECT/{kind}/NAME")
    return name


def parts_of(name: str, kind: str = TOPICS) -> tuple[str, str]:
    """Return the project and the short name of a resource. The project is "" if the name is not a full name."""
    parts = name.split("/")
    is_ours = len(parts) == 4 and parts[::2] == ["projects", kind]
    return (parts[1], parts[3]) if is_ours else ("", name)


def project_of(name: str) -> str:
    """Return the project of a resource of any kind, or "" if it has none. Resources of one project share a clock."""
    start, _, rest = name.partition("/")
    owner, slash, _ = rest.partition("/")
    return owner if start == "projects" and slash else ""


# ---------------------------------------------------------------------- rules for new names


def is_new_id(text: str) -> bool:
    """Return whether a short name is allowed: every character is visible, and a URL can contain the name."""
    if (
        len(text) > ID_BYTES_MAX
        or not text.isprintable()
        or _INVISIBLE.search(text)
        or "/" in text
        or text.strip(" ") != text
        or text in (".", "..")
    ):
        return False
    return 0 < len(text.encode()) <= ID_BYTES_MAX


def is_pubsub_id(text: str) -> bool:
    """Return whether Pub/Sub allows the short name: `google.pubsub.v1.Topic.name`."""
    if not _PUBSUB_MIN <= len(text) <= _PUBSUB_MAX or text.startswith("goog"):
        return False
    return text[0] in string.ascii_letters and _PUBSUB_CHARACTERS.issuperset(text)


def is_pubsub_project(text: str) -> bool:
    return 0 < len(text) <= _PUBSUB_MAX and _PUBSUB_CHARACTERS.issuperset(text.replace(":", ""))


def is_new_name(name: str, kind: str) -> bool:
    return all(map(is_new_id, parts_of(name, kind)))


def check_new_name(name: str, kind: str) -> str:
    """Return the full name, or raise InvalidArgumentError if a new resource may not have it."""
    if not is_new_name(name, kind):
        raise InvalidArgumentError(f"{NEW_NAME_RULE}: {_ascii(name)}")
    return name


def check_pubsub_name(name: str, kind: str) -> str:
    """Return the full name, or raise InvalidArgumentError if Pub/Sub clients cannot use it. For names from data."""
    project, last = parts_of(name, kind)
    if not is_pubsub_project(project) or not is_pubsub_id(last):
        raise InvalidArgumentError(f"{PUBSUB_RULE}: {_ascii(name)}")
    return name


def _ascii(name: str) -> str:
    """Return the name in ASCII, so that invisible characters are visible."""
    return ascii(name[:300])
