"""Who leased what: through which door, for which consumer and when.

A pull draws one stamp for all its messages, so it is one entry here, in memory only: after a restart nobody knows. What
is no longer leased is swept once it outnumbers the rest, so memory follows what is in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.broker.consuming import Delivery
from penstock.broker.facts import SubscriptionDeleted
from penstock.broker.state import State

KEPT_MIN = 1024  # entries of a subscription before the first sweep


class LeaseOrigin(NamedTuple):
    door: str
    holder: str  # as the door calls its consumer; may be empty
    at: int


class LeaseOrigins:
    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._stamps: dict[int, dict[int, LeaseOrigin]] = {}  # subscription -> stamp
        self._sweep_at: dict[int, int] = {}  # subscription -> how many entries it may have until the next sweep

    def note(self, deliveries: Sequence[Delivery], origin: LeaseOrigin) -> None:
        number, stamp = deliveries[0].subscription, deliveries[0].stamp
        stamps = self._stamps.setdefault(number, {})
        stamps[stamp] = origin
        if deliveries[-1].stamp != stamp:  # it took more than one look
            stamps.update(dict.fromkeys((each.stamp for each in deliveries), origin))
        if len(stamps) > self._sweep_at.get(number, KEPT_MIN):
            self._sweep(number)

    def find(self, subscription: int, stamp: int) -> LeaseOrigin | None:
        return self._stamps.get(subscription, {}).get(stamp)

    def forget(self, deliveries: Sequence[Delivery]) -> None:
        """Nobody has them, although they are leased."""
        for each in deliveries:
            self._stamps.get(each.subscription, {}).pop(each.stamp, None)

    def replace(self, subscription: int, old: int, new: int) -> None:
        """A lease goes on under another stamp."""
        origin = self.find(subscription, old)
        if origin is not None:
            self._stamps[subscription][new] = origin

    def on_deleted(self, fact: SubscriptionDeleted) -> None:
        self._stamps.pop(fact.subscription, None)
        self._sweep_at.pop(fact.subscription, None)

    def _sweep(self, number: int) -> None:
        subscription = self._state().subscriptions.get(number)
        entries = subscription.outstanding.values() if subscription is not None else ()
        live = {entry.stamp for entry in entries if entry.leased}
        self._stamps[number] = {stamp: each for stamp, each in self._stamps[number].items() if stamp in live}
        self._sweep_at[number] = max(KEPT_MIN, 2 * len(live))
