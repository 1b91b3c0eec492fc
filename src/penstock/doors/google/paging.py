"""Pages of lists, sorted by name, with Pub/Sub's errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.doors.google.errors import bad_argument
from penstock.doors.paging import PAGE_SIZE, PAGE_SIZE_MAX, page_of, page_of_names
from penstock.engine.port import Kind, NameLists
from penstock.errors import InvalidArgumentError


def page(names: Iterable[str], page_size: int, page_token: str) -> tuple[list[str], str]:
    """Return one page of names and the token of the next page, which is empty at the end."""
    size = _size(page_size)
    try:
        result = page_of(names, size, page_token)
    except InvalidArgumentError:
        raise bad_argument("page_token") from None
    return result.items, result.next_page_token


async def names_page(queue: NameLists, kind: Kind, prefix: str, request: Any) -> tuple[list[str], str]:
    """Return one page of the names that begin with a prefix. The cost depends on the size of the page only."""
    size = _size(request.page_size)
    try:
        result = await page_of_names(queue, kind, prefix, size, request.page_token)
    except InvalidArgumentError:
        raise bad_argument("page_token") from None
    return result.items, result.next_page_token


def _size(page_size: int) -> int:
    if page_size < 0:
        raise bad_argument("page_size")
    return min(page_size, PAGE_SIZE_MAX) or PAGE_SIZE
