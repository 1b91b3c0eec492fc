"""A seed that was read: the document, and the file and line of each of its values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.seeding.topology import Place, SeedError, format_place

_PART = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_PLACE = re.compile(r"((?:project|schemas|topics|queues|subscriptions)(?:\[\d+\]|\.[\w-]+)*): (.*)", re.DOTALL)


class Source(NamedTuple):
    """A seed document with the origins of its values."""

    label: str  # the file, or another source
    document: Mapping[str, Any]
    origins: Mapping[Place, str]  # "seed.toml, line 12", or the name of a variable
    notes: Sequence[str] = ()  # remarks about parts that are ignored

    def explain(self, place: Place, reason: str) -> str:
        """Return an error sentence with the file and line of the place."""
        inner = place
        while inner and not self._origin(inner):
            inner = inner[:-1]
        rest = format_place(place[len(inner) :])
        named = f"{rest}: " if rest and not rest.startswith("[") else ""
        return f"{self._origin(inner) or self.label}: {named}{reason}"

    def _origin(self, place: Place) -> str:
        """Return the origin of a value or of the first value inside it."""
        inner = (origin for known, origin in self.origins.items() if place and known[: len(place)] == place)
        return self.origins.get(place) or next(inner, "")

    def locate(self, sentence: str) -> str:
        """Replace the place in a server's error sentence by the file and line."""
        match = _PLACE.fullmatch(sentence)
        if match is None:
            return f"{self.label}: {sentence}"
        parts = _PART.findall(match[1])
        return self.explain(tuple(int(number) if number else name for number, name in parts), match[2])

    def locate_error(self, error: SeedError) -> SeedError:
        return SeedError(self.explain(error.place, error.reason))
