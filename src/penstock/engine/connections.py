"""Consumers as time travel sees them: which are connected, and which subscriptions are polled.

Noted here because only the queue sees every pull. Nothing in the engine depends on it.
"""

from __future__ import annotations


class Connections:
    def __init__(self) -> None:
        self.lease_seconds: dict[tuple[int, str], float] = {}  # of connected consumers: subscription number and holder
        self.polled: set[str] | None = None  # subscriptions whose last pull found nothing and did not wait

    def note_poll(self, subscription: str, *, found: bool) -> None:
        """Record a pull that did not wait. Its caller will pull again, so an automatic clock counts it as waiting."""
        if self.polled is None:  # no clock is automatic
            return
        if found:
            self.polled.discard(subscription)
        else:
            self.polled.add(subscription)
