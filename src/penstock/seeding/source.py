"""A seed as it was read: the document, and what to say about the place where something in it is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.seeding.topology import Place, SeedError, shown_place

_PART = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_PLACE = re.compile(r"((?:project|schemas|topics|queues|subscriptions)(?:\[\d+\]|\.[\w-]+)*): (.*)", re.DOTALL)


class Source(NamedTuple):
    label: str  # the file, or what else it was read from
    document: Mapping[str, Any]
    origins: Mapping[Place, str]  # "seed.toml, line 12", or the name of a variable
    notes: Sequence[str] = ()  # what it has and nobody reads

    def explain(self, place: Place, reason: str) -> str:
        """One sentence about what is wrong, with the line where it stands."""
        inner = place
        while inner and not self._begins(inner):
            inner = inner[:-1]
        rest = shown_place(place[len(inner) :])
        named = f"{rest}: " if rest and not rest.startswith("[") else ""
        return f"{self._begins(inner) or self.label}: {named}{reason}"

    def _begins(self, place: Place) -> str:
        """Where a value stands, or the first thing inside it."""
        found = (origin for known, origin in self.origins.items() if place and known[: len(place)] == place)
        return self.origins.get(place) or next(found, "")

    def located(self, sentence: str) -> str:
        """What a server says of the document, in terms of the file; what names no place stays as it is."""
        found = _PLACE.fullmatch(sentence)
        if found is None:
            return f"{self.label}: {sentence}"
        parts = _PART.findall(found[1])
        return self.explain(tuple(int(number) if number else name for number, name in parts), found[2])

    def explained(self, error: SeedError) -> SeedError:
        return SeedError(self.explain(error.place, error.reason))
