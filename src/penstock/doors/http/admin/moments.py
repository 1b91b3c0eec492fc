"""Instants as people write them: RFC 3339, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from penstock.broker.model import SECOND
from penstock.doors.http.admin.records import EPOCH
from penstock.durations import seconds_in
from penstock.errors import InvalidArgumentError

_STARTS_LIKE_A_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def moment(text: str, name: str, now: int) -> int:
    """Nanoseconds since 1970 for `2026-11-15T10:00:00Z`, or for `-10m` before `now`."""
    ago = seconds_in(text[1:]) if text.startswith("-") else None
    if ago is not None:
        return max(0, now - int(ago * SECOND))
    try:
        if not _STARTS_LIKE_A_DATE.match(text):
            raise ValueError
        found = datetime.fromisoformat(text.replace(" ", "+", 1) if text[10:11] != " " else text)
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return max(0, (found - EPOCH) // timedelta(microseconds=1) * 1000)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"{name} must be an instant such as 2026-11-15T10:00:00Z, or -10m") from None
