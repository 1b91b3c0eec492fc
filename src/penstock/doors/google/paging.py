"""Pages as Pub/Sub has them: sorted by name."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.doors.google.errors import bad_argument
from penstock.doors.paging import PAGE_SIZE, PAGE_SIZE_MAX, page_of
from penstock.errors import InvalidArgumentError


def page(names: Iterable[str], page_size: int, page_token: str) -> tuple[list[str], str]:
    """One page of names, and the token for the next; empty when there is none."""
    if page_size < 0:
        raise bad_argument("page_size")
    try:
        found = page_of(names, min(page_size, PAGE_SIZE_MAX) or PAGE_SIZE, page_token)
    except InvalidArgumentError:
        raise bad_argument("page_token") from None
    return found.items, found.next_page_token
