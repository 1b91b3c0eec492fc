"""Who consumes through a door just now: what doors say of their clients, and the list that those who wait are in.

Nothing is counted a message: a consumer is noted when it comes and forgotten when it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["stream", "pull", "push", "cursor"]


class Batch(NamedTuple):
    """What a reader of the log went past in its last step."""

    first: int
    until: int
    at: int


class Consumer(NamedTuple):
    kind: Kind | None  # an open stream, a call that waits, an endpoint, a reader of the log; None: wants no more
    holder: str  # as its leases name it
    address: str = ""  # of its connection; empty where there is none
    since: int = 0  # 0: not known
    window: int = 0  # so many it may have at a time; 0: no limit of its own
    held: Collection[tuple[int, ...]] | None = None  # offset first; where its leases do not name it
    batch: Batch | None = None


class Consumers:
    """Those of one door that come and go, by the name of their subscription."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._present: dict[str, dict[int, Consumer]] = {}
        self._next = 0

    @contextmanager
    def present(self, subscription: str, consumer: Consumer) -> Iterator[None]:
        """For as long as the context lasts."""
        self._next = number = self._next + 1
        self._present.setdefault(subscription, {})[number] = consumer._replace(since=self._now())
        try:
            yield
        finally:
            present = self._present[subscription]
            del present[number]
            if not present:
                del self._present[subscription]

    def of(self, subscription: str) -> Sequence[Consumer]:
        return tuple(self._present.get(subscription, {}).values())


def pull_holder(number: int, address: str) -> str:
    """Every call on its own: a caller has no name."""
    return f"pull-{number} of {address}" if address else f"pull-{number}"
