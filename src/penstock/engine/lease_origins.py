"""Origins of leases: the door, the consumer and the time of each.

Origins are in memory only and unknown after a restart. A pull draws one stamp for all its messages and so has one
entry. Entries of ended leases are removed once they outnumber the others, so memory follows the messages in flight.
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
    holder: str  # the consumer, as its door names it; may be empty
    at: int


class LeaseOrigins:
    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._stamps: dict[int, dict[int, LeaseOrigin]] = {}  # subscription -> stamp
        self._sweep_at: dict[int, int] = {}  # subscription -> number of entries that starts the next sweep

    def note(self, deliveries: Sequence[Delivery], origin: LeaseOrigin) -> None:
        number, stamp = deliveries[0].subscription, deliveries[0].stamp
        stamps = self._stamps.setdefault(number, {})
        stamps[stamp] = origin
        if deliveries[-1].stamp != stamp:  # the pull took more than one step
            stamps.update(dict.fromkeys((delivery.stamp for delivery in deliveries), origin))
        if len(stamps) > self._sweep_at.get(number, KEPT_MIN):
            self._sweep(number)

    def find(self, subscription: int, stamp: int) -> LeaseOrigin | None:
        return self._stamps.get(subscription, {}).get(stamp)

    def forget(self, deliveries: Sequence[Delivery]) -> None:
        """Remove the origins of leases that have no consumer."""
        for delivery in deliveries:
            self._stamps.get(delivery.subscription, {}).pop(delivery.stamp, None)

    def replace(self, subscription: int, old: int, new: int) -> None:
        """Keep the origin of a lease that continues under another stamp."""
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
        self._stamps[number] = {stamp: origin for stamp, origin in self._stamps[number].items() if stamp in live}
        self._sweep_at[number] = max(KEPT_MIN, 2 * len(live))
