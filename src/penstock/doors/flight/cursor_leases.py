"""Leases on cursors: which live reader uses a cursor, so that a second one is refused.

A reader renews its lease once a second. Leases are kept in memory only: after a restart of the server the readers that
are alive take them again. A reader that gives no owner needs no lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.doors.flight import codec
from penstock.errors import FailedPreconditionError, InvalidArgumentError

LEASE_SECONDS = 5.0  # a reader that has not renewed its lease for this time is gone
SURE_SECONDS = 0.5  # a holder that renews its lease later than this after it was contested is alive
LOOK_SECONDS = 0.1
LEASES_MAX = 10_000

Key = tuple[str, str]  # consumer and topic


@dataclass(slots=True)
class Lease:
    owner: str
    reader: str  # what the reader says about itself
    seen: float


class CursorLeases:
    def __init__(self, names: codec.Names, clock: Callable[[], float] | None = None) -> None:
        self._names = names
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._leases: dict[Key, Lease] = {}

    async def hold(self, asked: codec.CursorHold) -> dict[str, Any]:
        """Take the cursors of a consumer, or renew them.

        A cursor of another reader is taken when that reader is gone. Raise FailedPreconditionError if it is alive.
        """
        if not 0 < len(asked.owner) <= 200 or len(asked.reader) > 200:
            raise InvalidArgumentError("cursor.hold: owner has 1 to 200 characters, reader at most 200")
        keys = [(asked.name, self._names.topic(topic)) for topic in asked.topics]
        began = self._clock()
        while (taken := self._find_taken(keys, asked.owner)) is not None:
            (_, topic), lease = taken
            if not asked.wait or lease.seen - began > SURE_SECONDS:
                raise FailedPreconditionError(
                    f"The consumer {asked.name} of {topic} is used by another live query ({lease.reader}): stop that "
                    "query, or give this one another name"
                )
            await asyncio.sleep(LOOK_SECONDS)
        self._drop_old()
        for key in keys:
            self._leases[key] = Lease(asked.owner, asked.reader, self._clock())
        return {"held": [topic for _, topic in keys]}

    async def release(self, asked: codec.CursorRelease) -> dict[str, Any]:
        own = [key for key, lease in self._leases.items() if key[0] == asked.name and lease.owner == asked.owner]
        for key in own:
            del self._leases[key]
        return {"released": len(own)}

    def _find_taken(self, keys: Sequence[Key], owner: str) -> tuple[Key, Lease] | None:
        """Return a cursor that another reader has."""
        oldest = self._clock() - LEASE_SECONDS
        for key in keys:
            lease = self._leases.get(key)
            if lease is not None and lease.owner != owner and lease.seen > oldest:
                return key, lease
        return None

    def _drop_old(self) -> None:
        if len(self._leases) >= LEASES_MAX:
            oldest = self._clock() - LEASE_SECONDS
            self._leases = {key: lease for key, lease in self._leases.items() if lease.seen > oldest}
