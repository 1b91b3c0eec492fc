"""The values options can have: a parser takes text, and raises ValueError for what it does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
    return value.strip() or refuse(value)


def refuse(value: str) -> Any:
    raise ValueError(value)


def truth(value: str) -> bool:
    known = value.strip().lower()
    return known == "true" if known in {"true", "false"} else refuse(value)


def count(value: str) -> int:
    return number if (number := int(value)) > 0 else refuse(value)


def whole(value: str) -> int:
    return number if (number := int(value)) >= 0 else refuse(value)


def size(value: str) -> int:
    return int(_measured(value, SIZES)) or refuse(value)


def duration(value: str) -> float:
    return _measured(value, DURATIONS)


def seconds(value: str) -> float:
    return number if 0 <= (number := float(value)) < float("inf") else refuse(value)


def _measured(value: str, units: dict[str, int] | dict[str, float]) -> float:
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())
    return int(found[1]) * units[found[2]] if found and found[2] in units else refuse(value)


def names(value: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in value.split(","))
    return found if all(found) and len(set(found)) == len(found) else refuse(value)


def pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(value) from error
    return text(value)


def endpoint(value: str) -> str:
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", value.strip())
    return value.strip() if found and 0 < int(found[2]) < 65536 else refuse(value)


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
    identities = said.get(IDENTITIES, {})
    if not isinstance(identities, dict) or not all(isinstance(each, str) for each in identities.values()):
        raise ValueError(value)
    offsets = [place for name, place in said.items() if name != IDENTITIES]
    if not all(isinstance(each, int) and not isinstance(each, bool) and each >= EARLIEST for each in offsets):
        raise ValueError(value)
    return said


def position(value: str) -> str | dict[str, Any]:
    known = value.strip().lower()
    return known if known in {"earliest", "latest"} else offsets(value)


def strategy(value: str) -> str:
    known = value.strip().lower()
    return known if known in {"error", "latest"} else refuse(value)


def certificates(value: str) -> bytes:
    """PEM text, or the file it is in: read here, on the driver, so that executors need no such file."""
    if value.lstrip().startswith("-----BEGIN"):
        return value.encode()
    try:
        return Path(value).expanduser().read_bytes()
    except OSError as error:
        raise ValueError(value) from error


# What each parser expects, as the end of "option NAME must be ...".
EXPECTS: dict[Callable[[str], Any], str] = {
    truth: "true or false",
    count: "a whole number above 0",
    whole: "a whole number, 0 or more",
    size: "a size above 0, as 67108864 or 64m",
    duration: "a time, as 30s, 15m or 1h",
    seconds: "a number of seconds, 0 or more",
    names: "names separated by commas, each once",
    pattern: "a regular expression",
    endpoint: "host:port",
    instant: "milliseconds since 1970 or ISO 8601, as 2024-05-01T12:00:00Z",
    position: 'earliest, latest or JSON, as {"projects/p/topics/t": 12}',
    strategy: "error or latest",
    certificates: "PEM text or the path of a file that can be read",
}
