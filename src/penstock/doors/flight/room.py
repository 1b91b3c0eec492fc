"""How many bytes of publishes may be on their way from the reader process to the server at a time.

The rule kept here: a publish takes all the room it needs before any of it is sent and gives it back with its answer,
so those who wait are waited for by nobody. Whoever is larger than all the room goes alone.
"""

from __future__ import annotations

import threading

ROOM_BYTES = 64 << 20


class Room:
    """For threads; whoever has to wait reads nothing more from its client meanwhile."""

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._size = size
        self._left = size
        self._changed = threading.Condition()

    def take(self, size: int) -> int:
        """Wait until there is room; how much was taken."""
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        return size

    def give_back(self, size: int) -> None:
        with self._changed:
            self._left += size
            self._changed.notify_all()
