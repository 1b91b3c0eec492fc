"""Pages of topics and subscriptions: by name at the cost of the page, by another column in slices of a share.

A column has a least value, which most resources have: no rate, no backlog. Only resources with another value are
compared; the others follow by their names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from penstock.doors.http.admin.calls import Context
from penstock.doors.http.admin.paging import Paging
from penstock.doors.paging import WRONG_TOKEN, Page, key_of, page_of_names, token_of
from penstock.engine.port import Kind
from penstock.errors import InvalidArgumentError
from penstock.names import prefix
from penstock.wire.turns import Share

CHUNK_NAMES = 100  # names between two looks at the clock
CHUNK_ROWS = 10  # rows of an answer between two looks at the clock

Value: TypeAlias = float | str
Ranked: TypeAlias = tuple[Any, str]  # the value of a column, and a name
Count: TypeAlias = Callable[[Sequence[str]], Awaitable[Mapping[str, Value]]]  # of names: the values above the least


async def matching_names(context: Context, kind: Kind, project: str, search: str) -> list[str]:
    """Return the sorted names of a project, or of all projects, that contain a text."""
    names = (await context.queue.names(kind, _prefix(kind, project))).names
    return await context.listing.filter(lambda name: search in name, names) if search else names


async def page_by_name(
    context: Context, kind: Kind, project: str, search: str, query: Paging, *, descending: bool
) -> Page:
    if search:
        names = await matching_names(context, kind, project, search)
        return page_of_sorted(names, query, descending=descending)
    size, token = query.page_size, query.page_token
    return await page_of_names(context.queue, kind, _prefix(kind, project), size, token, descending=descending)


def _prefix(kind: Kind, project: str) -> str:
    return prefix(project, kind) if project else ""


def page_of_sorted(names: Sequence[str], query: Paging, *, descending: bool) -> Page:
    last = key_of(query.page_token) if query.page_token else None
    if last is not None and not isinstance(last, str):
        raise InvalidArgumentError(WRONG_TOKEN)
    chosen = _names_behind(names, last, query.page_size + 1, {}, descending=descending)
    return _page(chosen, chosen, query, len(names))


async def page_by_value(
    context: Context, names: Sequence[str], count: Count, query: Paging, *, least: Value = 0, descending: bool
) -> Page:
    """Return a page of names by the values of a column. The names are sorted; names without a value have the least."""
    last = _last_of(query.page_token, least)
    values = await count(names)
    most = query.page_size + 1
    zeros: list[Ranked] = []
    if last is None or last[0] == least or descending:
        behind = last[1] if last is not None and last[0] == least else None
        zeros = [(least, name) for name in _names_behind(names, behind, most, values, descending=descending)]
    pairs = ((value, name) for name, value in values.items())
    ranked = await _best(context.listing, pairs, last, most, descending=descending)
    chosen = ([*ranked, *zeros] if descending else [*zeros, *ranked])[:most]
    return _page([name for _, name in chosen], chosen, query, len(names))


async def count_in_chunks(share: Share, names: Sequence[str], count: Count) -> dict[str, Value]:
    """Return the values of names, which are counted in slices of a share."""

    async def work(chunk: Sequence[str]) -> list[tuple[str, Value]]:
        return [(name, value) for name, value in (await count(chunk)).items() if value]

    return dict(await share.map_chunks(work, names, CHUNK_NAMES))


def within(names: Sequence[str], values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of those names that are in a sorted list."""

    def has(name: str) -> bool:
        index = bisect_left(names, name)
        return index < len(names) and names[index] == name

    return {name: value for name, value in values.items() if value and has(name)}


def _last_of(token: str, least: Value) -> Ranked | None:
    """Return the last item of the previous page."""
    if not token:
        return None
    last = key_of(token)
    if not (isinstance(last, tuple) and len(last) == 2 and isinstance(last[1], str)):
        raise InvalidArgumentError(WRONG_TOKEN)
    if isinstance(last[0], str) != isinstance(least, str) or not isinstance(last[0], int | float | str):
        raise InvalidArgumentError(WRONG_TOKEN)
    return last[0], last[1]


def _names_behind(
    names: Sequence[str], last: str | None, most: int, left_out: Mapping[str, Any], *, descending: bool
) -> list[str]:
    if descending:
        start = len(names) if last is None else bisect_left(names, last)
        places: Iterable[int] = range(start - 1, -1, -1)
    else:
        places = range(0 if last is None else bisect_right(names, last), len(names))
    found: list[str] = []
    for place in places:
        if names[place] not in left_out:
            found.append(names[place])
            if len(found) == most:
                break
    return found


async def _best(
    share: Share, pairs: Iterable[Ranked], last: Ranked | None, most: int, *, descending: bool
) -> list[Ranked]:
    """Return the first `most` of the pairs that follow the last one, in order, without sorting them all."""
    kept: list[Ranked] = []

    def add(pair: Ranked) -> None:
        if last is None or (pair < last if descending else pair > last):
            kept.append(pair)
            if len(kept) > 2 * most:
                kept.sort(reverse=descending)
                del kept[most:]

    await share.map(add, pairs)
    return sorted(kept, reverse=descending)[:most]


def _page(names: Sequence[str], keys: Sequence[Any], query: Paging, total: int) -> Page:
    """Return a page. `names` and `keys` have one more item than the page if there is a next page."""
    size = query.page_size
    return Page(list(names[:size]), token_of(keys[size - 1]) if len(names) > size else "", total)
