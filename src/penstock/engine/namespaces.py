"""Namespaces: names that have one time in common, and the clocks of those whose time is their own.

All that hangs on a topic (its subscriptions, their leases, its snapshots) has the time of the topic, and so of the
namespace that the topic's name belongs to. Two instants are compared only where they are of one topic, so namespaces
may be at different times; what crosses from one to the other, a dead letter, is dated where it arrives.
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

NamespaceOf: TypeAlias = Callable[[str], str]  # of a resource by its name; empty: the engine's own time

DOCUMENTS = "clocks"  # the kind of the documents that remember them, by namespace


def no_namespace(_: str) -> str:
    return ""


class Clocks:
    """Which clock counts for what."""

    def __init__(self, clock: Clock, namespace_of: NamespaceOf, state: Callable[[], State]) -> None:
        self._clock = clock
        self._state = state
        self.namespace_of = namespace_of
        self.own: dict[str, NamespaceClock] = {}  # by namespace; most servers have none

    def of(self, *about: str | int) -> Clock:
        """The clock of what a command is about, by names or the number of a subscription: that of the topic.

        The first that is known counts; where nothing is, the first name.
        """
        if not self.own:
            return self._clock
        state = self._state()
        for each in about:
            if isinstance(each, int):
                known: Subscription | SnapshotDump | None = state.subscriptions.get(each)
            else:
                known = state.subscription_names.get(each) or state.snapshots.get(each)
            if known is not None:
                return self.of_topic(known.topic_name)
            if each in state.topic_names:
                return self.of_topic(str(each))
        return self.of_topic(next((each for each in about if isinstance(each, str)), ""))

    def of_topic(self, name: str) -> Clock:
        return self.own.get(self.namespace_of(name), self._clock) if self.own else self._clock

    def of_receipts(self, receipts: Sequence[str]) -> Clock:
        """Those of one call are of one namespace."""
        parsed = parse_receipt(receipts[0]) if self.own and receipts else None
        return self.of(parsed[0]) if parsed is not None else self._clock

    def time_of(self, topic_name: str) -> int:
        return self.of_topic(topic_name).now()

    def time_at(self, topic_name: str, now: int) -> int:
        """When it is at a topic, while it is `now` where a command acts."""
        return self.time_of(topic_name) if self.own else now

    def recover(self, broker: Ledger) -> int:
        """Clocks as they were; and the latest instant that the store knows of in the time of all others."""
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
    """A clock beside another: it runs with it, ahead or behind, or it stands; it is moved forward, and never back."""

    def __init__(self, base: Clock) -> None:
        self._base = base
        self._shift = 0  # ahead of the base, while it runs
        self._stands_at: int | None = None
        self._alarms = Alarms()
        self._next: tuple[int, Alarm] | None = None  # the base's alarm for the earliest of these, while it runs

    def now(self) -> int:
        return self._base.now() + self._shift if self._stands_at is None else self._stands_at

    def wall(self) -> int:
        """As far from the base's wall as `now` is from its `now`."""
        return self.now() + self._base.wall() - self._base.now()

    @property
    def stands(self) -> bool:
        return self._stands_at is not None

    @property
    def ahead(self) -> int:
        """Nanoseconds before the base; negative: behind it."""
        return self.now() - self._base.now()

    def not_before(self, at: int) -> None:
        if self._stands_at is not None:
            self._stands_at = max(self._stands_at, at)
        else:
            self._shift += max(0, at - self.now())

    def begin_at(self, at: int) -> None:
        """Another time for a namespace in which nothing has happened yet."""
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
        """The next moment somebody waits for; FOREVER if nobody does."""
        return self._alarms.next_at()

    def _watch(self) -> None:
        """While it runs, the base rings for the earliest alarm."""
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
        """Go on from where it stands."""
        self._shift = self.now() - self._base.now()
        self._stands_at = None
        self._watch()

    def move(self, at: int) -> None:
        """Stand at a later moment; whoever waited for it is woken."""
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
