"""Durations, sizes, times and positions in a topic, as people type them.

10s 1h30m 500ms        10k 1MiB        -10m now 2026-11-15T10:00Z 1763200800000        beginning -100 @-10m s@..
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from penstock.commands.exit_codes import WrongUsageError
from penstock.durations import seconds_in

SIZES = {"": 1, "b": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "kb": 1000, "mb": 1000**2, "gb": 1000**3}
SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_MILLISECONDS_FROM = 100_000_000_000  # as seconds, the year 5138
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str, what: str = "A duration") -> float:
    """Read `90`, `90s`, `1.5m`, `1h30m`, `500ms` or `2d`."""
    text = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    duration = seconds_in(text)
    if duration is None:
        raise WrongUsageError(
            f"{what} must be a number with ms, s, m, h, d or w, such as 10s or 1h30m, not {text[:40]!r}"
        )
    return duration


def parse_size(text: str, what: str = "A size") -> int:
    """Read `512`, `10k` or `1MiB`."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z]*)", text.strip(), re.ASCII)
    if not match or match[2].lower() not in SIZES:
        raise WrongUsageError(
            f"{what} must be a number of bytes, or a number with k, M, G, KiB, MiB or GiB, not {text[:40]!r}"
        )
    return int(float(match[1]) * SIZES[match[2].lower()])


def parse_time(text: str, now: datetime) -> datetime:
    """Read `now`, `-10m`, `2026-11-15`, `2026-11-15T10:00Z`, or seconds or milliseconds since 1970. UTC by default."""
    text = text.strip()
    try:
        if text == "now":
            return now
        if text.startswith("-"):
            return now - timedelta(seconds=parse_duration(text[1:]))
        if text.isascii() and text.isdigit():
            number = int(text)
            return EPOCH + timedelta(seconds=number / 1000 if number >= _MILLISECONDS_FROM else number)
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError, WrongUsageError):
        raise WrongUsageError(
            f"A time must be now, -10m, 2026-11-15T10:00Z or milliseconds since 1970, not {text[:40]!r}"
        ) from None


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    return datetime.now(UTC)


class Window(NamedTuple):
    """A range of messages in a topic."""

    first: int | None = None  # an offset; -N means the last N messages
    at_end: bool = False  # only new messages
    since: str | None = None  # an instant, RFC 3339
    until_time: str | None = None

    def query(self, next_offset: int) -> dict[str, object]:
        """Return the parameters of a request for the messages of a topic, given the next offset of the topic."""
        first = next_offset if self.at_end else self.first
        parameters = {"from": first, "at": self.since, "until_time": self.until_time}
        return {name: value for name, value in parameters.items() if value is not None}


def parse_window(starts: Sequence[str], now: datetime, default: Window) -> Window:
    """Return the range of the values of `-o`: a start, an end or both."""
    chosen: Window | None = None
    until: str | None = None
    for text in starts:
        if text.startswith("e@"):
            until = rfc3339(parse_time(text[2:], now))
        elif chosen is not None:
            raise WrongUsageError("Give at most one start with -o, and at most one end with -o e@TIME")
        else:
            chosen = _parse_start(text, now)
    return (chosen or (Window(first=0) if until else default))._replace(until_time=until)


def _parse_start(text: str, now: datetime) -> Window:
    if text == "beginning":
        return Window(first=0)
    if text == "end":
        return Window(at_end=True)
    if text.startswith(("@", "s@")):
        return Window(since=rfc3339(parse_time(text.partition("@")[2], now)))
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return Window(first=int(text)) if text != "-0" else Window(at_end=True)
    raise WrongUsageError(
        f"A start must be beginning, end, an offset, -100 (the last 100), @-10m or @2026-11-15T10:00Z, not {text!r}"
    )
