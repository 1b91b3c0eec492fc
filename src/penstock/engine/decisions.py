"""Decisions for callers with many small requests: made at once, durable later, many to a commit.

The rule kept here: a decision is applied before the call returns and answers nothing yet. Whoever owes an answer to
somebody waits for `committed` first; one future serves for all that was decided before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.broker.consuming import Delivery, Pulled, Settled
from penstock.broker.model import Draft
from penstock.broker.publishing import Appended, Once
from penstock.engine.lookups import Lookups


class Decisions(Lookups):
    def _committed(self, number: int) -> asyncio.Future[None]:
        """A future that is done when a decision is durable."""
        raise NotImplementedError

    def _pass_on(self, name: str) -> None:
        """Somebody has looked at a subscription: let the next one look, if there is reason to."""
        raise NotImplementedError

    def committed(self) -> asyncio.Future[None]:
        """Done when all that was decided so far is durable, or failed if it never will be."""
        return self._committed(self._submit())

    def decide_publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, sizes: Sequence[int] | None = None
    ) -> Appended:
        """`sizes`: of drafts that the caller has checked itself, against limits no wider than the broker's."""
        self._check()
        self._refuse_when_full()
        try:
            appended = self._broker.publish(self._now(), topic_name, drafts, once, sizes)
            self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise
        return appended

    def decide_pull(
        self, name: str, max_messages: int, *, lease_seconds: float | None, max_bytes: int, holder: str = ""
    ) -> Pulled:
        """One look at what is in memory; if the answer says what else it needs, `load` that and ask again."""
        self._check()
        try:
            pulled = self._broker.pull(
                self._now(), name, max_messages, lease_seconds=lease_seconds, max_bytes=max_bytes, holder=holder
            )
            self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise
        self._pass_on(name)
        return pulled

    def decide_acks(self, receipts: Sequence[str], *, lapsed: bool = False) -> Settled:
        """Ack what was delivered; `lapsed`: also leases that ended after the ack was given, if nobody noticed yet."""
        self._check()
        try:
            settled = self._broker.ack(self._now(), receipts, lapsed)
            self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise
        return settled

    def decide_extend(self, receipts: Sequence[str], seconds: float, *, lapsed: bool = False) -> Settled:
        """Extend leases; `lapsed`: also those that ended while their holder was at work, if nobody noticed yet."""
        self._check()
        try:
            settled = self._broker.extend(self._now(), receipts, seconds, lapsed)
            self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise
        return settled

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return what was pulled for somebody and never reached him: the attempt does not count."""
        if deliveries and not self._closed and self._pipeline.stalled is None:
            try:
                self._broker.nack(self._now(), [delivery.receipt for delivery in deliveries], unseen=True)
                self._submit()
            except Exception as error:
                self._guard.judge(error)
                raise

    def decide_ack(self, subscription: int, places: Sequence[tuple[int, ...]]) -> int:
        """Ack deliveries of a subscription by offset and stamp; how many of them were still good."""
        self._check()
        try:
            acked = self._broker.ack_delivered(self._now(), subscription, places)
            self._submit()
        except Exception as error:
            self._guard.judge(error)
            raise
        return acked
