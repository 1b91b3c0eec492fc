"""Durations as people write them: 10s, 1h30m, 500ms."""

from __future__ import annotations

import re

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h|d|w)", re.ASCII)


def seconds_in(text: str) -> float | None:
    """Return the seconds of a duration with units, or None if the text is not a duration."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * UNITS[unit] for number, unit in parts)
