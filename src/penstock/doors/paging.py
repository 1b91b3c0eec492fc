"""Lists in pages: sorted, each page with the token of the next."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.errors import InvalidArgumentError

T = TypeVar("T")

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1000


class Page(NamedTuple):
    items: list[Any]
    next_page_token: str
    total: int


def page_of(
    items: Iterable[T], size: int, token: str, key: Callable[[T], Any] = lambda item: item, *, descending: bool = False
) -> Page:
    """What follows the place that the token names: what comes or goes meanwhile does not shift it.

    The key is a name, or a tuple that ends with one, so that no two are the same.
    """
    ordered = sorted(items, key=key, reverse=descending)
    start = _place(ordered, key, token, descending) if token else 0
    chosen = ordered[start : start + size]
    more = start + len(chosen) < len(ordered)
    following = base64.urlsafe_b64encode(msgspec.json.encode(key(chosen[-1]))).decode() if more else ""
    return Page(chosen, following, len(ordered))


def _place(ordered: list[T], key: Callable[[T], Any], token: str, descending: bool) -> int:
    try:
        last = msgspec.json.decode(base64.b64decode(token, altchars=b"-_", validate=True))
        last = tuple(last) if isinstance(last, list) else last
        low, high = 0, len(ordered)
        while low < high:
            middle = (low + high) // 2
            found = key(ordered[middle])
            if found < last if descending else found > last:
                high = middle
            else:
                low = middle + 1
        return low
    except (binascii.Error, msgspec.DecodeError, TypeError, ValueError):
        raise InvalidArgumentError("This page_token is not one of this list") from None
