"""Arguments as tests give them: what cannot be meant is one sentence, before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from numbers import Real

from penstock.errors import InvalidArgumentError


def number(value: object, name: str) -> float:
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidArgumentError(f"{name} must be a number, not {repr(value)[:60]}")
    return found


def moment(value: object, name: str) -> str:
    """An instant as the admin API takes it."""
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, datetime):
        raise InvalidArgumentError(f"{name} must be a datetime or a text such as 2100-01-01T00:00:00Z, not {value!r}")
    if value.tzinfo is None:
        raise InvalidArgumentError(f"{name} has no time zone, {value!r}: give it one, such as datetime.timezone.utc")
    return value.isoformat()


def duration(seconds: object, units: dict[str, float]) -> float:
    """Seconds, or a timedelta, and further `minutes=`, `hours=`, `days=` ... as datetime.timedelta has them."""
    by = seconds.total_seconds() if isinstance(seconds, timedelta) else number(seconds, "seconds")
    try:
        return by + timedelta(**{unit: number(value, unit) for unit, value in units.items()}).total_seconds()
    except (TypeError, OverflowError):
        said = ", ".join(f"{unit}={value!r}" for unit, value in units.items())
        raise InvalidArgumentError(f"Time is given as seconds, minutes=, hours=, days= or weeks=, not {said}") from None


def check_message(data: object, attributes: object, key: object, times: object) -> None:
    """InvalidArgumentError for what no message can be like."""
    if not isinstance(data, bytes | str | None):
        raise InvalidArgumentError(f"The data of a message is bytes or text, not {repr(data)[:100]}")
    pairs = attributes.items() if isinstance(attributes, Mapping) else ()
    if not isinstance(attributes, Mapping | None) or not all(isinstance(each, str) for pair in pairs for each in pair):
        raise InvalidArgumentError(f"Attributes are names and values as texts, not {repr(attributes)[:100]}")
    if not isinstance(key, str | None):
        raise InvalidArgumentError(f"An ordering key is text, not {repr(key)[:100]}")
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 0):
        raise InvalidArgumentError(f"times is how many messages there should be, 0 or more, not {times!r}")
