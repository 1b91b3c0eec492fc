"""Lists in pages: sorted by name, each page with the token of the next."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable

from penstock.doors.google.errors import bad_argument

PAGE_SIZE_MAX = 1000
PAGE_SIZE = 100


def page(names: Iterable[str], page_size: int, page_token: str) -> tuple[list[str], str]:
    """One page of names, and the token for the next; empty when there is none."""
    if page_size < 0:
        raise bad_argument("page_size")
    ordered = sorted(names)
    start = bisect_right(ordered, _name_in(page_token)) if page_token else 0
    chosen = ordered[start : start + (min(page_size, PAGE_SIZE_MAX) or PAGE_SIZE)]
    more = start + len(chosen) < len(ordered)
    return chosen, base64.urlsafe_b64encode(chosen[-1].encode()).decode() if more else ""


def _name_in(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise bad_argument("page_token") from None
