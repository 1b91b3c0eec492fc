"""Clocks of resources, and the consumers whose leases a moved clock extends, as doors see them."""

from __future__ import annotations

from typing import Protocol

from penstock.engine.clock import Clock


class Clocks(Protocol):
    @property
    def clock(self) -> Clock:
        """The server's clock, for the time that callers wait."""

    def clock_of(self, name: str) -> Clock:
        """Return the clock of a topic, a subscription or a snapshot."""

    def connect_consumer(self, subscription: int, holder: str, lease_seconds: float) -> None:
        """Record a consumer that extends its leases by itself until `disconnect_consumer`. 0: it does not extend them.

        When the clock of a project is moved, the leases of these consumers are extended on their behalf.
        """

    def disconnect_consumer(self, subscription: int, holder: str) -> None: ...
