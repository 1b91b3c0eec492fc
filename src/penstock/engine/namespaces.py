"""Namespaces: names that share a clock, and the clocks of namespaces with their own time.

Subscriptions, leases and snapshots use the clock of their topic, which is the clock of its namespace. Only instants of
one topic are compared, so namespaces may be at different times. A dead letter that moves to another namespace gets the
time of its new topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from penstock.broker.dump import SnapshotDump
from penstock.broker.ledger import Ledger
from penstock.broker.model import FOREVER
from penstock.broker.names import parse_receipt
from penstock.broker.state import State
from penstock.broker.subscription import Subscription
from penstock.engine.clock import Alarm, Alarms, Clock

NamespaceOf: TypeAlias = Callable[[str], str]  # the namespace of a resource by its name; empty: the engine's clock

DOCUMENTS = "clocks"  # kind of the documents that store clocks, by namespace


def no_namespace(_: str) -> str:
    return ""


class Clocks:
    """The clocks of the engine and of its namespaces."""

    def __init__(self, clock: Clock, namespace_of: NamespaceOf, state: Callable[[], State]) -> None:
        self._clock = clock
        self._state = state
        self.namespace_of = namespace_of
        self.own: dict[str, NamespaceClock] = {}  # by namespace; most servers have none

    def of(self, *about: str | int) -> Clock:
        """Return the clock of the resources of a command, given by names or by the number of a subscription.

        The first resource that exists counts. If none exists, the first name counts.
        """
        if not self.own:
            return self._clock
        state = self._state()
        for key in about:
            if isinstance(key, int):
                resource: Subscription | SnapshotDump | None = state.subscriptions.get(key)
            else:
                resource = state.subscription_names.get(key) or state.snapshots.get(key)
            if resource is not None:
                return self.of_topic(resource.topic_name)
            if key in state.topic_names:
                return self.of_topic(str(key))
        return self.of_topic(next((key for key in about if isinstance(key, str)), ""))

    def of_topic(self, name: str) -> Clock:
        return self.own.get(self.namespace_of(name), self._clock) if self.own else self._clock

    def of_receipts(self, receipts: Sequence[str]) -> Clock:
        """Return the clock of receipts. All receipts of a call are of one namespace."""
        parsed = parse_receipt(receipts[0]) if self.own and receipts else None
        return self.of(parsed[0]) if parsed is not None else self._clock

    def time_of(self, topic_name: str) -> int:
        return self.of_topic(topic_name).now()

    def time_at(self, topic_name: str, now: int) -> int:
        """Return the time of a topic, while it is `now` for the command."""
        return self.time_of(topic_name) if self.own else now

    def recover(self, broker: Ledger) -> int:
        """Restore the stored clocks. Return the latest instant in the store of all names without their own clock."""
        kept = broker.state.documents.get(DOCUMENTS, {})
        for namespace, body in kept.items():
            clock = self.own[namespace] = NamespaceClock.load(self._clock, body)
            clock.not_before(broker.latest(partial(self._is_in, frozenset({namespace}))))
        if not kept:
            return broker.recovered_at
        own = frozenset(kept)
        return max(broker.dumped_at, broker.latest(lambda name: not self._is_in(own, name)))

    def _is_in(self, namespaces: frozenset[str], name: str) -> bool:
        return self.namespace_of(name) in namespaces


class NamespaceClock:
    """A clock that runs ahead of or behind its base, or stands still. It is moved forward, never back."""

    def __init__(self, base: Clock) -> None:
        self._base = base
        self._shift = 0  # nanoseconds ahead of the base while it runs
        self._stands_at: int | None = None
        self._alarms = Alarms()
        # Alarm of the base for the earliest alarm here, while the clock runs.
        self._next: tuple[int, Alarm] | None = None

    def now(self) -> int:
        return self._base.now() + self._shift if self._stands_at is None else self._stands_at

    def wall(self) -> int:
        """Return the wall time, shifted from the base's wall time like `now`."""
        return self.now() + self._base.wall() - self._base.now()

    @property
    def stands(self) -> bool:
        return self._stands_at is not None

    @property
    def ahead(self) -> int:
        """Nanoseconds ahead of the base. Negative: behind it."""
        return self.now() - self._base.now()

    def not_before(self, at: int) -> None:
        if self._stands_at is not None:
            self._stands_at = max(self._stands_at, at)
        else:
            self._shift += max(0, at - self.now())

    def begin_at(self, at: int) -> None:
        """Set the time of a namespace that has no resources yet."""
        if self._stands_at is not None:
            self._stands_at = at
        else:
            self._shift = at - self._base.now()

    # ------------------------------------------------------------------ alarms

    def alarm(self, at: int, ring: Callable[[], object]) -> Alarm:
        alarm = self._alarms.add(at, ring)
        self._watch()
        return alarm

    def next_alarm(self) -> int:
        """Return the next instant that a caller waits for, or FOREVER."""
        return self._alarms.next_at()

    def _watch(self) -> None:
        """Set the base's alarm for the earliest alarm, while the clock runs."""
        at = FOREVER if self._stands_at is not None else self._alarms.next_at()
        if self._next is not None and self._next[0] == at:
            return
        if self._next is not None:
            self._next[1].cancel()
            self._next = None
        if at < FOREVER:
            self._next = (at, self._base.alarm(at - self._shift, self._ring))

    def _ring(self) -> None:
        self._next = None
        self._ring_until(self.now())
        self._watch()

    def _ring_until(self, at: int) -> None:
        while self._alarms.next_at() <= at:
            self._alarms.ring_next()

    # ------------------------------------------------------------------ moving

    def stand(self) -> None:
        self._stands_at = self.now()
        self._watch()

    def run(self) -> None:
        """Continue from where the clock stands."""
        self._shift = self.now() - self._base.now()
        self._stands_at = None
        self._watch()

    def move(self, at: int) -> None:
        """Stand still at a later instant, and ring the alarms up to it."""
        self._stands_at = max(at, self.now())
        self._watch()
        self._ring_until(self._stands_at)

    # ------------------------------------------------------------------ as a document

    def dump(self) -> bytes:
        shown = {"shift": self._shift} if self._stands_at is None else {"stands_at": self._stands_at}
        return json.dumps(shown).encode()

    @classmethod
    def load(cls, base: Clock, document: bytes) -> NamespaceClock:
        clock, kept = cls(base), json.loads(document)
        clock._shift, clock._stands_at = kept.get("shift", 0), kept.get("stands_at")
        return clock
