"""Who is told what a face decided, besides the journal.

The rule kept here: a watcher hears every fact once, in order, before the caller of the command gets its answer and
under the face's lock. It notes what it has to do and returns; it never calls back into the face.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.broker.facts import Fact
from penstock.broker.state import State


class Watcher(Protocol):
    def heed(self, facts: Sequence[Fact], state: State, now: int) -> None:
        """This was decided; `state` is what it led to."""

    def close(self) -> None:
        """Nothing more will come."""
