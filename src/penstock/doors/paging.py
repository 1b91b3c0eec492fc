"""Pages of sorted lists. Each page has the token of the next page."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.engine.port import Kind, NameLists
from penstock.errors import InvalidArgumentError

T = TypeVar("T")

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1000
WRONG_TOKEN = "This page_token is not one of this list"  # noqa: S105 - not a secret


class Page(NamedTuple):
    items: list[Any]
    next_page_token: str
    total: int


def page_of(
    items: Iterable[T], size: int, token: str, key: Callable[[T], Any] = lambda item: item, *, descending: bool = False
) -> Page:
    """Return the page after the item that the token names. Added or deleted items do not shift the pages.

    `key` returns a name, or a tuple that ends with a name, so that all keys are different.
    """
    ordered = sorted(items, key=key)
    first, until = 0, len(ordered)
    if token:
        try:
            if descending:
                until = bisect_left(ordered, key_of(token), key=key)
            else:
                first = bisect_right(ordered, key_of(token), key=key)
        except TypeError:
            raise InvalidArgumentError(WRONG_TOKEN) from None
    chosen = ordered[first:until][::-1] if descending else ordered[first:until]
    more = len(chosen) > size
    return Page(chosen[:size], token_of(key(chosen[size - 1])) if more else "", len(ordered))


async def page_of_names(
    queue: NameLists, kind: Kind, prefix: str, size: int, token: str, *, descending: bool = False
) -> Page:
    """Return a page of the sorted names that begin with a prefix. The cost depends on the size of the page only."""
    last = key_of(token) if token else None
    if last is not None and not isinstance(last, str):
        raise InvalidArgumentError(WRONG_TOKEN)
    names, total = await queue.names(kind, prefix, last, size + 1, descending=descending)
    return Page(names[:size], token_of(names[size - 1]) if len(names) > size else "", total)


def token_of(key: object) -> str:
    """Return the token of the page that follows the item with this key."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode()


def key_of(token: str) -> Any:
    try:
        key = msgspec.json.decode(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, ValueError, RecursionError):
        raise InvalidArgumentError(WRONG_TOKEN) from None
    return tuple(key) if isinstance(key, list) else key
