"""The offset below which each topic has been forgotten. Only gaps above it are damage."""

from __future__ import annotations

from collections import OrderedDict

from penstock.broker.names import MAX_OFFSET

GONE = MAX_OFFSET  # the floor of a deleted topic
GONE_KEPT = 4096  # deleted topics remembered, for readers that have begun


class Floors:
    def __init__(self) -> None:
        self._floors: dict[int, int] = {}
        self._gone: OrderedDict[int, None] = OrderedDict()

    def __getitem__(self, topic: int) -> int:
        return self._floors.get(topic, 0)

    def lift(self, topic: int, until: int) -> bool:
        """Raise the floor of a topic. Return False if it was as high already."""
        if until <= self._floors.get(topic, 0):
            return False
        self._floors[topic] = until
        if until >= GONE:
            self._gone[topic] = None
            if len(self._gone) > GONE_KEPT:  # topic numbers are never used again, so the oldest can go
                oldest, _ = self._gone.popitem(last=False)
                del self._floors[oldest]
        return True
