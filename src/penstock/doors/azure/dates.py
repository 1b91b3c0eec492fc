"""Instants on this wire: RFC 1123 for messages and headers, ISO 8601 for policies, signatures and errors."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache

from penstock.broker.model import SECOND

NEVER = "Fri, 31 Dec 9999 23:59:59 GMT"
_NEVER_SECONDS = 253402300799

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,7})?)?(?:Z|[+-]00:00))?", re.ASCII)


@lru_cache(maxsize=4096)
def _rfc1123(seconds: int) -> str:
    return formatdate(seconds, usegmt=True) if seconds < _NEVER_SECONDS else NEVER


def rfc1123(instant: int) -> str:
    """`Sun, 15 Nov 2026 06:18:39 GMT` of nanoseconds since 1970."""
    return _rfc1123(instant // SECOND)


def expiry(instant: int) -> str:
    """The same, where 0 is never."""
    return _rfc1123(instant // SECOND) if instant else NEVER


def iso(instant: int) -> str:
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=1024)
def parse_iso(text: str) -> int | None:
    """Nanoseconds since 1970 of an ISO 8601 date or instant in UTC, or None."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    return int(moment.timestamp()) * SECOND


def parse_rfc1123(text: str) -> int | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if moment.tzinfo is None:
        return None
    return int(moment.timestamp()) * SECOND
