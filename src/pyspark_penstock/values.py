"""The values options can have: text in, a value or the reason why not out.

The rule kept here: a parser raises ValueError for text it does not know and never guesses; the sentence around it,
with the name of the option and what it expects, is made in one place, `options.py`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EARLIEST, LATEST = -2, -1  # as Kafka's JSON says them
IDENTITIES = "identities"  # the key beside the topics of a set of offsets

SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
SIZES |= {"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}
# A bare number is milliseconds, as it is for Spark.
DURATIONS = {"": 0.001, "ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def text(value: str) -> str:
    if not value.strip():
        raise ValueError(value)
    return value.strip()


def truth(value: str) -> bool:
    known = {"true": True, "false": False}
    if value.strip().lower() not in known:
        raise ValueError(value)
    return known[value.strip().lower()]


def count(value: str) -> int:
    number = int(value)
    if number <= 0:
        raise ValueError(value)
    return number


def whole(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def size(value: str) -> int:
    return int(_measured(value, SIZES) or _refuse(value))


def duration(value: str) -> float:
    return _measured(value, DURATIONS)


def seconds(value: str) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(value)
    return number


def _measured(value: str, units: dict[str, int] | dict[str, float]) -> float:
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())
    if not found or found[2] not in units:
        raise ValueError(value)
    return int(found[1]) * units[found[2]]


def _refuse(value: str) -> int:
    raise ValueError(value)


def names(value: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in value.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise ValueError(value)
    return found


def pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(value) from error
    return text(value)


def endpoint(value: str) -> str:
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", value.strip())
    if not found or not 0 < int(found[2]) < 65536:
        raise ValueError(value)
    return value.strip()


def instant(value: str) -> int:
    """Microseconds since 1970, from milliseconds or ISO 8601; a time without a zone is in UTC."""
    if re.fullmatch(r"\s*\d+\s*", value):
        return int(value) * 1000
    moment = datetime.fromisoformat(value.strip())
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def offsets(value: str) -> dict[str, Any]:
    """`{"topic": 12, "other": -1}`, as a checkpoint and the progress of a query print them.

    Those also say which topics they mean, as a topic that is made again has the same name.
    """
    said = json.loads(value)
    if not isinstance(said, dict):
        raise ValueError(value)
    places = {name: place for name, place in said.items() if name != IDENTITIES}
    identities = said.get(IDENTITIES, {})
    if not isinstance(identities, dict) or not all(isinstance(each, str) for each in identities.values()):
        raise ValueError(value)
    if not all(_is_offset(place) for place in places.values()):
        raise ValueError(value)
    return said


def _is_offset(place: object) -> bool:
    return isinstance(place, int) and not isinstance(place, bool) and place >= EARLIEST


def position(value: str) -> str | dict[str, Any]:
    known = value.strip().lower()
    return known if known in {"earliest", "latest"} else offsets(value)


def strategy(value: str) -> str:
    if value.strip().lower() not in {"error", "latest"}:
        raise ValueError(value)
    return value.strip().lower()


def certificates(value: str) -> bytes:
    """PEM text, or the file it is in: read here, on the driver, so that executors need no such file."""
    if value.lstrip().startswith("-----BEGIN"):
        return value.encode()
    try:
        return Path(value).expanduser().read_bytes()
    except OSError as error:
        raise ValueError(value) from error
