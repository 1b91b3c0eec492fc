"""Names in sorted order, so that a page of names costs no more than the page."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable
from typing import Protocol

CHANGES_MAX = 1000  # changed names that are applied one by one; with more, all names are sorted again


class Names(Container[str], Iterable[str], Protocol):
    pass


class NameIndex:
    """The sorted names of a mapping. The owner of the mapping reports every name that it adds or removes.

    Changes are collected and applied at the next lookup, so that they cost nothing without lookups.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._sorted: list[str] = []
        self._changed: set[str] | None = None  # reported since the last lookup; None: too many to keep

    def note(self, name: str) -> None:
        """Record that a name was added or removed."""
        if self._changed is not None:
            self._changed.add(name)
            if len(self._changed) > CHANGES_MAX:
                self._changed = None

    def count(self, prefix: str = "") -> int:
        first, until = self._range(prefix)
        return until - first

    def names(
        self, prefix: str = "", after: str | None = None, most: int = 0, *, descending: bool = False
    ) -> list[str]:
        """Return at most `most` names with a prefix, in order, that come after `after`. `most` 0 means all."""
        first, until = self._range(prefix)
        if after is not None and descending:
            until = max(first, min(until, bisect_left(self._sorted, after)))
        elif after is not None:
            first = min(until, max(first, bisect_right(self._sorted, after)))
        if descending:
            return self._sorted[max(first, until - most) if most else first : until][::-1]
        return self._sorted[first : min(until, first + most) if most else until]

    def _range(self, prefix: str) -> tuple[int, int]:
        self.sort()
        if not prefix:
            return 0, len(self._sorted)
        first, length = bisect_left(self._sorted, prefix), len(prefix)
        return first, bisect_right(self._sorted, prefix, first, key=lambda name: name[:length])

    def sort(self) -> None:
        """Apply the reported changes. Lookups do this; a recovery does it before a client waits."""
        if self._changed is None:
            self._sorted = sorted(self._names)
        for name in self._changed or ():
            index = bisect_left(self._sorted, name)
            is_there = index < len(self._sorted) and self._sorted[index] == name
            if name in self._names and not is_there:
                self._sorted.insert(index, name)
            elif is_there and name not in self._names:
                del self._sorted[index]
        self._changed = set()
