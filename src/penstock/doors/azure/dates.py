"""Date formats: RFC 1123 for messages and headers, ISO 8601 for policies, signatures and errors."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache

from penstock.broker.model import SECOND

NEVER = "Fri, 31 Dec 9999 23:59:59 GMT"
_NEVER_SECONDS = 253402300799

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,7})?)?(?:Z|[+-]00:00))?", re.ASCII)
_VERSION = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@lru_cache(maxsize=64)  # a client has one version
def is_version(text: str) -> bool:
    """Return whether a text can be a version of the service, which is any date."""
    if _VERSION.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def _rfc1123(seconds: int) -> str:
    return formatdate(seconds, usegmt=True) if seconds < _NEVER_SECONDS else NEVER


def rfc1123(instant: int) -> str:
    """Format nanoseconds since 1970 as `Sun, 15 Nov 2026 06:18:39 GMT`."""
    return _rfc1123(instant // SECOND)


def expiry(instant: int) -> str:
    """Format an expiry time like `rfc1123`. 0 means never."""
    return _rfc1123(instant // SECOND) if instant else NEVER


def iso(instant: int) -> str:
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=1024)
def parse_iso(text: str) -> int | None:
    """Return nanoseconds since 1970 of an ISO 8601 date or time in UTC, or None if the text is not one."""
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
