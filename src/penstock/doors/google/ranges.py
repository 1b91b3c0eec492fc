"""Checks of numbers and durations against their bounds, with production's errors."""

from __future__ import annotations

import math
from typing import Any

from penstock.doors.google.errors import invalid

MINUTE, DAY = 60, 86400


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
    whole = math.floor(value)
    duration.seconds, duration.nanos = whole, round((value - whole) * 1e9)
    duration.SetInParent()
