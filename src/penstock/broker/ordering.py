"""The order of messages with the same ordering key.

Within a lane (one key of one subscription) messages leave in publish order. The lane is three runs in that order:
leased, then waiting to be delivered again, then held (never delivered). Whatever returns a message returns the later
leased ones of its key with it, so the runs never mix.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque


class Lane:
    """The outstanding messages of one ordering key, oldest first."""

    __slots__ = ("held", "held_sizes", "holder", "leased", "live")

    def __init__(self) -> None:
        self.holder = ""  # who has the leased ones, while there are any; not part of the state
        self.live: list[int] = []  # offsets with an entry; the first `leased` of them are leased
        self.leased = 0
        self.held: deque[int] = deque()
        self.held_sizes: deque[int] = deque()

    def waiting(self, place: int) -> int | None:
        """The offset that is `place` steps behind the next one to leave."""
        index = self.leased + place
        if index < len(self.live):
            return self.live[index]
        index -= len(self.live)
        return self.held[index] if index < len(self.held) else None

    def is_held_by_another(self, holder: str) -> bool:
        """Consumers side by side would undo the order: while one has messages of the key, only it gets more."""
        return self.leased > 0 and self.holder != holder

    def waiting_count(self) -> int:
        return len(self.live) - self.leased + len(self.held)

    def lease(self, offset: int) -> None:
        if self.held and self.held[0] == offset:
            self._unhold()
        else:
            index = bisect_left(self.live, offset)
            if self.live[index : index + 1] != [offset]:  # straight from the log, perhaps before one that was put off
                self.live.insert(index, offset)
        self.leased += 1

    def hold(self, offset: int, size: int) -> None:
        self.held.append(offset)
        self.held_sizes.append(size)

    def wait(self, offset: int) -> None:
        """A message never delivered gets an entry of its own, behind everything before it."""
        if self.held and self.held[0] == offset:
            self._unhold()
        else:
            insort(self.live, offset)

    def leave(self, offset: int) -> None:
        """The message is settled."""
        index = bisect_left(self.live, offset)
        del self.live[index]
        if index < self.leased:
            self.leased -= 1

    def later_leased(self, offset: int) -> list[int]:
        """The leased messages from `offset` on: they are returned with it."""
        return self.live[bisect_left(self.live, offset) : self.leased]

    def __bool__(self) -> bool:
        return bool(self.live or self.held)

    def _unhold(self) -> None:
        insort(self.live, self.held.popleft())
        self.held_sizes.popleft()
