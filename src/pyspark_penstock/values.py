"""Parsers of option values. Each takes text and raises ValueError if the text is invalid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EARLIEST, LATEST = -2, -1  # as in Kafka's JSON
IDENTITIES = "identities"  # key of the topic identities in a checkpoint's offsets

SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
SIZES |= {"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}
# Seconds by unit. A bare number is milliseconds, as in Spark.
DURATIONS = {"": 0.001, "ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def text(value: str) -> str:
    return value.strip() or refuse(value)


def refuse(value: str) -> Any:
    raise ValueError(value)


def truth(value: str) -> bool:
    word = value.strip().lower()
    return word == "true" if word in {"true", "false"} else refuse(value)


def count(value: str) -> int:
    return number if (number := int(value)) > 0 else refuse(value)


def whole(value: str) -> int:
    return number if (number := int(value)) >= 0 else refuse(value)


def size(value: str) -> int:
    return int(_measure(value, SIZES)) or refuse(value)


def duration(value: str) -> float:
    return _measure(value, DURATIONS)


def seconds(value: str) -> float:
    return number if 0 <= (number := float(value)) < float("inf") else refuse(value)


def _measure(value: str, units: dict[str, int] | dict[str, float]) -> float:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())
    return int(match[1]) * units[match[2]] if match and match[2] in units else refuse(value)


def names(value: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in value.split(","))
    return parts if all(parts) and len(set(parts)) == len(parts) else refuse(value)


def pattern(value: str) -> str:
    matches_whole(value, "")
    return text(value)


def matches_whole(pattern: str, name: str) -> bool:
    """Tell whether a regular expression of RE2 matches a whole name. Raise ValueError if it is invalid."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pc.match_substring_regex(pa.scalar(""), pattern)  # alone: in a group, a parenthesis too many would be valid
    return bool(pc.match_substring_regex(pa.scalar(name), rf"\A(?:{pattern})\z").as_py())


def endpoint(value: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", value.strip())
    return value.strip() if match and 0 < int(match[2]) < 65536 else refuse(value)


def instant(value: str) -> int | datetime:
    """Parse milliseconds or ISO 8601 to microseconds since 1970. Return a datetime for a time without a zone."""
    if re.fullmatch(r"\s*\d+\s*", value):
        return int(value) * 1000
    moment = datetime.fromisoformat(value.strip())
    return microseconds(moment) if moment.tzinfo else moment


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970. A time without a zone is in this machine's zone."""
    return round(moment.timestamp() * 1_000_000)


def zone(value: str) -> tzinfo:
    """Parse a zone name or an offset from UTC, the two forms of Spark's session time zone."""
    try:
        if match := re.fullmatch(r"\s*([+-])(\d\d?):(\d\d)\s*", value):
            offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(-offset if match[1] == "-" else offset)
        return ZoneInfo(value.strip())
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(value) from error


def offsets(value: str) -> dict[str, Any]:
    """Parse offsets such as `{"topic": 12, "other": -1}`, as in a checkpoint or the progress of a query.

    They may include the identities of the topics, because a topic that is created again has the same name.
    """
    positions = json.loads(value)
    if not isinstance(positions, dict):
        raise ValueError(value)
    identities = positions.get(IDENTITIES, {})
    if not isinstance(identities, dict) or not all(isinstance(identity, str) for identity in identities.values()):
        raise ValueError(value)
    numbers = [offset for name, offset in positions.items() if name != IDENTITIES]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= EARLIEST for number in numbers):
        raise ValueError(value)
    return positions


def position(value: str) -> str | dict[str, Any]:
    word = value.strip().lower()
    return word if word in {"earliest", "latest"} else offsets(value)


def strategy(value: str) -> str:
    word = value.strip().lower()
    return word if word in {"error", "latest"} else refuse(value)


def certificates(value: str) -> bytes:
    """Return the bytes of PEM text or of a PEM file. The driver reads the file, so executors need no copy."""
    if value.lstrip().startswith("-----BEGIN"):
        return value.encode()
    try:
        return Path(value).expanduser().read_bytes()
    except OSError as error:
        raise ValueError(value) from error


# The values that each parser accepts, as the end of "option NAME must be ...".
EXPECTS: dict[Callable[[str], Any], str] = {
    truth: "true or false",
    count: "a whole number above 0",
    whole: "a whole number, 0 or more",
    size: "a size above 0, such as 67108864 or 64m",
    duration: "a duration, such as 30s, 15m or 1h",
    seconds: "a number of seconds, 0 or more",
    names: "names separated by commas, without duplicates",
    pattern: "a regular expression",
    endpoint: "host:port",
    instant: "milliseconds since 1970 or ISO 8601, such as 2024-05-01T12:00:00Z",
    zone: "a time zone, such as Europe/Berlin or +02:00",
    position: 'earliest, latest or JSON such as {"projects/p/topics/t": 12}',
    strategy: "error or latest",
    certificates: "PEM text or the path of a readable file",
}
