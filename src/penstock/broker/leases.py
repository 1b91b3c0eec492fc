"""Outstanding messages, and the times at which they fall due.

Messages that fall due together share a timer, and commands look at the heap of timers. A settled message only counts
its timer down. Timers without messages are removed once they outnumber the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from penstock.broker.dump import EntryDump
from penstock.broker.limits import SECONDS_MAX
from penstock.broker.model import FOREVER, SECOND

NO_RECEIPT = -1  # the stamp of a message that was handed back; no receipt has it


def deadline_of(now: int, seconds: float) -> int:
    return FOREVER if seconds > SECONDS_MAX else now + int(seconds * SECOND)


class Timer:
    """Offsets of one subscription that fall due at the same instant."""

    __slots__ = ("due", "live", "offsets", "queued")

    def __init__(self, due: int, offsets: Sequence[int]) -> None:
        self.due = due
        self.offsets = offsets
        self.live = len(offsets)  # number of entries with this timer
        self.queued = True  # whether it is in the heap


@dataclass(slots=True, eq=False)
class Entry:
    """One outstanding message: leased, or waiting to be delivered (again) from `due` on."""

    leased: bool
    stamp: int  # of the valid receipt; 0: never delivered, and only its publisher's receipt is valid
    attempts: int  # deliveries so far
    due: int  # leased: the deadline; waiting: when it may be delivered
    size: int
    key: str  # empty without message ordering
    expires_at: int
    body: bytes | None  # replaces the data of the message, for this subscription
    timer: Timer | None
    extensions: int = 0  # of this lease so far

    def dump(self, offset: int) -> EntryDump:
        e = self
        fields = (e.leased, e.stamp, e.attempts, e.due, e.size, e.key, e.expires_at, e.body, e.extensions)
        return EntryDump(offset, *fields)


class Timers:
    """The timers of one subscription, earliest first."""

    __slots__ = ("_heap", "_number", "dead")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._number = 0  # breaks ties in the order of creation, so that runs repeat exactly
        self.dead = 0

    def make(self, due: int, offsets: Sequence[int]) -> Timer | None:
        """Return a timer for offsets that fall due together, or None if they never fall due."""
        if due >= FOREVER:
            return None
        timer = Timer(due, offsets)
        self._number += 1
        heappush(self._heap, (due, self._number, timer))
        if self.dead > 64 and self.dead * 2 > len(self._heap):
            self._heap = [item for item in self._heap if item[2].live]
            heapify(self._heap)
            self.dead = 0
        return timer

    def meet(self, offset: int, entry: Entry, due: int) -> None:
        """Set the timer of a waiting entry to its due time or its expiry, whichever comes first."""
        due = min(due, entry.expires_at) if entry.expires_at else due
        if entry.timer is None or entry.timer.due != due:
            self.leave(entry.timer)
            entry.timer = self.make(due, (offset,))

    def put_back(self, timer: Timer) -> None:
        timer.queued = True
        self._number += 1
        heappush(self._heap, (timer.due, self._number, timer))

    def leave(self, timer: Timer | None) -> None:
        """Remove one entry from a timer."""
        if timer is not None:
            timer.live -= 1
            if not timer.live:
                timer.offsets = ()
                self.dead += timer.queued

    def take_due(self, now: int) -> Timer | None:
        """Remove the earliest due timer from the heap and return it."""
        while self._heap and self._heap[0][0] <= now:
            timer = heappop(self._heap)[2]
            timer.queued = False
            if timer.live:
                return timer
            self.dead -= 1
        return None

    def next_due(self) -> int:
        while self._heap and not self._heap[0][2].live:
            heappop(self._heap)
            self.dead -= 1
        return self._heap[0][0] if self._heap else FOREVER

    def __len__(self) -> int:
        return len(self._heap) - self.dead
