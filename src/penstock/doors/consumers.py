"""The connected consumers of a door: their records, and the list of them.

Consumers are recorded when they connect and removed when they disconnect. Nothing is updated per message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["stream", "pull", "push", "cursor"]


class Batch(NamedTuple):
    """The offsets that a reader of the log passed in its last step."""

    first: int
    until: int
    at: int


class Consumer(NamedTuple):
    kind: Kind | None  # an open stream, a waiting call, an endpoint, a reader of the log. None: it takes no more
    holder: str  # the holder of its leases
    address: str = ""  # of its connection. Empty without a connection
    since: int = 0  # time of the connect in nanoseconds. 0: unknown
    window: int = 0  # maximum number of messages in flight. 0: no limit of its own
    held: Collection[tuple[int, ...]] | None = None  # tuples that begin with the offset, if its leases do not name it
    batch: Batch | None = None


class Consumers:
    """The connected consumers of one door, by the name of their subscription."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._present: dict[str, dict[int, Consumer]] = {}
        self._next = 0

    @contextmanager
    def present(self, subscription: str, consumer: Consumer) -> Iterator[None]:
        """Record a consumer for the duration of the context."""
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
    """Return a holder name for one pull call. Callers have no names, so each call gets one."""
    return f"pull-{number} of {address}" if address else f"pull-{number}"
