"""Paging parameters of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import msgspec

from penstock.doors import paging
from penstock.doors.paging import PAGE_SIZE, PAGE_SIZE_MAX, Page

T = TypeVar("T")

PageSize = Annotated[int, msgspec.Meta(ge=1, le=PAGE_SIZE_MAX, description="Maximum number of items in the page.")]
PageToken = Annotated[str, msgspec.Meta(description="next_page_token of the previous page.")]


class Paging(msgspec.Struct, forbid_unknown_fields=True):
    page_size: PageSize = PAGE_SIZE
    page_token: PageToken = ""


def page_of(
    items: Iterable[T], query: Paging, key: Callable[[T], Any] = lambda item: item, *, descending: bool = False
) -> Page:
    return paging.page_of(items, query.page_size, query.page_token, key, descending=descending)
