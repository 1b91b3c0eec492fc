"""Checks of numbers and durations against their bounds, with production's errors."""

from __future__ import annotations

import math
from typing import Any

from penstock.doors.google.errors import invalid

MINUTE, DAY, SECOND = 60, 86400, 10**9
DURATION_MAX_SECONDS = 315_576_000_000  # 10,000 years


def within(name: str, value: float, least: float | None, most: float | None) -> None:
    if least is not None and value < least:
        raise invalid(
            f"The value for {name} is too small. You passed {format_number(value)} in the request, "
            f"but the minimum value is {format_number(least)}."
        )
    if most is not None and value > most:
        raise invalid(
            f"The value for {name} is too large. You passed {format_number(value)} in the request, "
            f"but the maximum value is {format_number(most)}."
        )


def format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def seconds(duration: Any) -> float:
    """Convert a google.protobuf.Duration to seconds."""
    return float(duration.seconds + duration.nanos / 1e9)


def set_duration(duration: Any, value: float) -> None:
    """Set a google.protobuf.Duration. One beyond its range, which another protocol may have set, becomes the longest.

    Otherwise it cannot be shown as JSON, and neither can a list with it.
    """
    whole = math.floor(value)
    nanos = round((value - whole) * 1e9)
    if nanos == SECOND:
        whole, nanos = whole + 1, 0
    duration.seconds, duration.nanos = (whole, nanos) if whole < DURATION_MAX_SECONDS else (DURATION_MAX_SECONDS, 0)
    duration.SetInParent()
