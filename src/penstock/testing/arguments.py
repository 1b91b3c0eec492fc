"""The checks of arguments. An invalid argument raises InvalidArgumentError before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from numbers import Real

from penstock.errors import InvalidArgumentError


def number(value: object, name: str) -> float:
    try:
        result = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise InvalidArgumentError(f"{name} must be a number, not {repr(value)[:60]}")
    return result


def moment(value: object, name: str) -> str:
    """Return a time as text for the admin API."""
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, datetime):
        raise InvalidArgumentError(f"{name} must be a datetime or a str such as 2100-01-01T00:00:00Z, not {value!r}")
    if value.tzinfo is None:
        raise InvalidArgumentError(f"{name} needs a time zone, such as datetime.timezone.utc: {value!r}")
    return value.isoformat()


def duration(seconds: object, units: dict[str, float]) -> float:
    """Return the sum of `seconds` and the units, such as minutes and days, in seconds."""
    by = seconds.total_seconds() if isinstance(seconds, timedelta) else number(seconds, "seconds")
    try:
        return by + timedelta(**{unit: number(value, unit) for unit, value in units.items()}).total_seconds()
    except (TypeError, OverflowError):
        passed = ", ".join(f"{unit}={value!r}" for unit, value in units.items())
        raise InvalidArgumentError(f"Pass time as seconds, minutes=, hours=, days= or weeks=, not {passed}") from None


def check_message(data: object, attributes: object, key: object, times: object) -> None:
    """Raise InvalidArgumentError if no message can match these arguments."""
    if not isinstance(data, bytes | str | None):
        raise InvalidArgumentError(f"Message data must be bytes or str, not {repr(data)[:100]}")
    pairs = attributes.items() if isinstance(attributes, Mapping) else ()
    if not isinstance(attributes, Mapping | None) or not all(isinstance(part, str) for pair in pairs for part in pair):
        raise InvalidArgumentError(f"Attributes must be a mapping of str to str, not {repr(attributes)[:100]}")
    if not isinstance(key, str | None):
        raise InvalidArgumentError(f"The ordering key must be str, not {repr(key)[:100]}")
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 0):
        raise InvalidArgumentError(f"times must be a number of messages, 0 or more, not {times!r}")
