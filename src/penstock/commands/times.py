"""Durations, sizes, instants and places in a topic as people type them.

10s 1h30m 500ms        10k 1MiB        -10m now 2026-11-15T10:00Z 1763200800000        beginning -100 @-10m s@..
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from penstock.commands.exits import WrongUsageError
from penstock.durations import seconds_in

SIZES = {"": 1, "b": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "kb": 1000, "mb": 1000**2, "gb": 1000**3}
SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_MILLISECONDS_FROM = 100_000_000_000  # a number of seconds so large would be in the year 5138
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds(text: str, what: str = "A duration") -> float:
    """`90`, `90s`, `1.5m`, `1h30m`, `500ms`, `2d`."""
    text = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    found = seconds_in(text)
    if found is None:
        raise WrongUsageError(f"{what} is a number with ms, s, m, h, d or w, such as 10s or 1h30m, not {text[:40]!r}")
    return found


def size(text: str, what: str = "A size") -> int:
    """`512`, `10k`, `1MiB`."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z]*)", text.strip(), re.ASCII)
    if not found or found[2].lower() not in SIZES:
        raise WrongUsageError(f"{what} is a number of bytes, or one with k, M, G, KiB, MiB or GiB, not {text[:40]!r}")
    return int(float(found[1]) * SIZES[found[2].lower()])


def instant(text: str, now: datetime) -> datetime:
    """`now`, `-10m`, `2026-11-15`, `2026-11-15T10:00Z`, or seconds or milliseconds since 1970. UTC unless it says."""
    text = text.strip()
    try:
        if text == "now":
            return now
        if text.startswith("-"):
            return now - timedelta(seconds=seconds(text[1:]))
        if text.isascii() and text.isdigit():
            number = int(text)
            return EPOCH + timedelta(seconds=number / 1000 if number >= _MILLISECONDS_FROM else number)
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError, WrongUsageError):
        raise WrongUsageError(
            f"A time is now, -10m, 2026-11-15T10:00Z or milliseconds since 1970, not {text[:40]!r}"
        ) from None


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def local_now() -> datetime:
    return datetime.now(UTC)


class Window(NamedTuple):
    """Which messages of a topic: from where, until where."""

    first: int | None = None  # an offset; negative: so many before the end
    at_end: bool = False  # only what comes from now on
    since: str | None = None  # an instant, RFC 3339
    until_time: str | None = None

    def query(self, next_offset: int) -> dict[str, object]:
        """For the messages of a topic, whose next offset that is."""
        first = next_offset if self.at_end else self.first
        asked = {"from": first, "at": self.since, "until_time": self.until_time}
        return {name: value for name, value in asked.items() if value is not None}


def window(starts: Sequence[str], now: datetime, default: Window) -> Window:
    """What `-o`, given once or as a start and an end, means."""
    found: Window | None = None
    until: str | None = None
    for text in starts:
        if text.startswith("e@"):
            until = rfc3339(instant(text[2:], now))
        elif found is not None:
            raise WrongUsageError("Give one start with -o, and perhaps an end with -o e@TIME")
        else:
            found = _start(text, now)
    return (found or (Window(first=0) if until else default))._replace(until_time=until)


def _start(text: str, now: datetime) -> Window:
    if text == "beginning":
        return Window(first=0)
    if text == "end":
        return Window(at_end=True)
    if text.startswith(("@", "s@")):
        return Window(since=rfc3339(instant(text.partition("@")[2], now)))
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return Window(first=int(text)) if text != "-0" else Window(at_end=True)
    raise WrongUsageError(
        f"A start is beginning, end, an offset, -100 (the last 100), @-10m or @2026-11-15T10:00Z, not {text!r}"
    )
