"""Instants: nanoseconds since 1970 as datetimes, and the texts in which requests give them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from penstock.broker.model import FOREVER, SECOND
from penstock.durations import seconds_in
from penstock.errors import InvalidArgumentError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(9999, 12, 31, tzinfo=UTC)
_LAST = (LAST_INSTANT - EPOCH) // timedelta(microseconds=1) * 1000
_DATE_START = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def instant(nanoseconds: int) -> datetime | None:
    """Return an instant to the microsecond. None for 0 and for FOREVER, which mean never."""
    if not 0 < nanoseconds < FOREVER:
        return None
    return EPOCH + timedelta(microseconds=min(nanoseconds, _LAST) // 1000)


def made_at(nanoseconds: int) -> datetime:
    """Return an instant that is always known."""
    return instant(nanoseconds) or EPOCH


def parse_instant(text: str, name: str, now: int) -> int:
    """Return nanoseconds since 1970 for `2026-11-15T10:00:00Z`, or for `-10m`, which is before `now`."""
    ago = seconds_in(text[1:]) if text.startswith("-") else None
    if ago is not None:
        return max(0, now - int(ago * SECOND))
    try:
        if not _DATE_START.match(text):
            raise ValueError
        at = datetime.fromisoformat(text.replace(" ", "+", 1) if text[10:11] != " " else text)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return max(0, (at - EPOCH) // timedelta(microseconds=1) * 1000)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"{name} must be an instant such as 2026-11-15T10:00:00Z, or -10m") from None
