"""What is outstanding, and when each piece of it falls due.

The rule kept here: no timer per message. Messages that fall due together share one appointment, the agenda is a
heap of appointments, and it is looked at when someone asks. A settled message only counts its appointment down;
appointments that nobody waits for are swept once they outnumber the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from penstock.broker.dump import EntryDump
from penstock.broker.model import FOREVER

NO_RECEIPT = -1  # a stamp that no receipt can carry: the message was handed back


class Appointment:
    """Offsets of one subscription that fall due at the same instant."""

    __slots__ = ("due", "live", "offsets", "queued")

    def __init__(self, due: int, offsets: Sequence[int]) -> None:
        self.due = due
        self.offsets = offsets
        self.live = len(offsets)  # how many entries still point here
        self.queued = True  # whether it is in the agenda's heap


class Entry:
    """One outstanding message: leased, or waiting to be delivered (again) from `due` on."""

    __slots__ = ("appointment", "attempts", "body", "due", "expires_at", "extensions", "key", "leased", "size", "stamp")

    def __init__(
        self,
        leased: bool,
        stamp: int,
        attempts: int,
        due: int,
        size: int,
        key: str,
        expires_at: int,
        body: bytes | None,
        appointment: Appointment | None,
    ) -> None:
        self.leased = leased
        self.stamp = stamp  # of the receipt that is good; 0: never delivered, its publisher's receipt is
        self.attempts = attempts  # deliveries so far
        self.due = due  # leased: the deadline; waiting: when it may be delivered
        self.size = size
        self.key = key  # empty where the subscription does not order
        self.expires_at = expires_at
        self.body = body  # what a holder replaced the data with
        self.appointment = appointment
        self.extensions = 0  # of this lease so far

    def dump(self, offset: int) -> EntryDump:
        return EntryDump(
            offset,
            self.leased,
            self.stamp,
            self.attempts,
            self.due,
            self.size,
            self.key,
            self.expires_at,
            self.body,
            self.extensions,
        )


class Agenda:
    """The appointments of one subscription, earliest first."""

    __slots__ = ("_heap", "_number", "dead")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Appointment]] = []
        self._number = 0  # breaks ties in the order of making, so that runs repeat exactly
        self.dead = 0

    def make(self, due: int, offsets: Sequence[int]) -> Appointment | None:
        """An appointment for offsets that fall due at once; none is needed for what never falls due."""
        if due >= FOREVER:
            return None
        appointment = Appointment(due, offsets)
        self._number += 1
        heappush(self._heap, (due, self._number, appointment))
        if self.dead > 64 and self.dead * 2 > len(self._heap):
            self._sweep()
        return appointment

    def meet(self, offset: int, entry: Entry, due: int) -> None:
        """Let a waiting entry be looked at when it falls due or its life ends, whichever comes first."""
        due = min(due, entry.expires_at) if entry.expires_at else due
        if entry.appointment is None or entry.appointment.due != due:
            self.leave(entry.appointment)
            entry.appointment = self.make(due, (offset,))

    def put_back(self, appointment: Appointment) -> None:
        appointment.queued = True
        self._number += 1
        heappush(self._heap, (appointment.due, self._number, appointment))

    def leave(self, appointment: Appointment | None) -> None:
        """One entry no longer waits for this appointment."""
        if appointment is not None:
            appointment.live -= 1
            if not appointment.live:
                appointment.offsets = ()
                self.dead += appointment.queued

    def take_due(self, now: int) -> Appointment | None:
        """The earliest appointment that has come, removed from the agenda."""
        while self._heap and self._heap[0][0] <= now:
            appointment = heappop(self._heap)[2]
            appointment.queued = False
            if appointment.live:
                return appointment
            self.dead -= 1
        return None

    def next_due(self) -> int:
        while self._heap and not self._heap[0][2].live:
            heappop(self._heap)
            self.dead -= 1
        return self._heap[0][0] if self._heap else FOREVER

    def __len__(self) -> int:
        return len(self._heap) - self.dead

    def _sweep(self) -> None:
        self._heap = [item for item in self._heap if item[2].live]
        heapify(self._heap)
        self.dead = 0
