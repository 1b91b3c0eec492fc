"""Instants as the wire writes them.

The rule kept here: RFC 3339 in UTC, to the millisecond, as production does.
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.broker.model import SECOND


def rfc3339(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03}Z"
