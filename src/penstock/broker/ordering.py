"""The order of messages with the same ordering key.

Within a lane (one key of one subscription) messages are delivered in publish order. A lane is three runs in that order:
leased, then waiting to be delivered again, then held (never delivered). When a message is returned, the later leased
messages of its key are returned with it, so the runs never mix.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque


class Lane:
    """The outstanding messages of one ordering key, oldest first."""

    __slots__ = ("held", "held_sizes", "holder", "leased", "live")

    def __init__(self) -> None:
        self.holder = ""  # the consumer of the leased messages; not part of the state
        self.live: list[int] = []  # offsets with an entry; the first `leased` of them are leased
        self.leased = 0
        self.held: deque[int] = deque()
        self.held_sizes: deque[int] = deque()

    def waiting(self, steps: int) -> int | None:
        """Return the offset that is `steps` after the next one to deliver."""
        index = self.leased + steps
        if index < len(self.live):
            return self.live[index]
        index -= len(self.live)
        return self.held[index] if index < len(self.held) else None

    def is_held_by_another(self, holder: str) -> bool:
        """Return whether another consumer has leased messages. Only that consumer gets more, to keep the order."""
        return self.leased > 0 and self.holder != holder

    def waiting_count(self) -> int:
        return len(self.live) - self.leased + len(self.held)

    def lease(self, offset: int) -> None:
        if self.held and self.held[0] == offset:
            self._unhold()
        else:
            index = bisect_left(self.live, offset)
            if self.live[index : index + 1] != [offset]:  # straight from the log, perhaps before a delayed one
                self.live.insert(index, offset)
        self.leased += 1

    def hold(self, offset: int, size: int) -> None:
        self.held.append(offset)
        self.held_sizes.append(size)

    def wait(self, offset: int) -> None:
        """Add a message that was never delivered and has an entry, in publish order."""
        if self.held and self.held[0] == offset:
            self._unhold()
        else:
            insort(self.live, offset)

    def leave(self, offset: int) -> None:
        """Remove a settled message."""
        index = bisect_left(self.live, offset)
        del self.live[index]
        if index < self.leased:
            self.leased -= 1

    def later_leased(self, offset: int) -> list[int]:
        """Return the leased messages from `offset` on, which are returned together."""
        return self.live[bisect_left(self.live, offset) : self.leased]

    def __bool__(self) -> bool:
        return bool(self.live or self.held)

    def _unhold(self) -> None:
        insort(self.live, self.held.popleft())
        self.held_sizes.popleft()
