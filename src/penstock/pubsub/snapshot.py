"""Snapshot: a named place in a subscription's stream to which it can return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.dump import SnapshotDump
from penstock.errors import FailedPreconditionError
from penstock.names import SNAPSHOTS
from penstock.pubsub.resource import Resource

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub
    from penstock.pubsub.subscription import Subscription


class Snapshot(Resource[SnapshotDump]):
    """What was not acked when it was taken, and everything later.

    >>> snapshot = await subscription.create_snapshot("before-release")
    >>> await subscription.seek(snapshot)
    """

    def __init__(self, pubsub: PubSub, name: str, subscription: Subscription | None = None) -> None:
        super().__init__(pubsub, SNAPSHOTS, name)
        self.subscription = subscription

    async def create(self, labels: dict[str, str] | None = None) -> Snapshot:
        """Remember where the subscription stands now."""
        subscription = self._of("create()")
        await self._session.use().create_snapshot(self.name, subscription.name, labels)
        return self

    async def seek(self) -> None:
        """Set the subscription back to this place."""
        await self._of("seek()").seek(self)

    async def delete(self) -> None:
        await self._session.use().delete_snapshot(self.name)

    async def _find(self) -> SnapshotDump | None:
        stored = await self._session.use().snapshots()
        return next((snapshot for snapshot in stored if snapshot.name == self.name), None)

    def _of(self, what: str) -> Subscription:
        if self.subscription is None:
            raise FailedPreconditionError(f"Snapshot.{what} needs a subscription: use subscription.snapshot(name)")
        return self.subscription
