"""The class Snapshot: a saved state of a subscription, to seek back to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.broker.dump import SnapshotDump
from penstock.errors import FailedPreconditionError
from penstock.names import SNAPSHOTS, check_new_name
from penstock.pubsub.options import call_timeout
from penstock.pubsub.resource import Resource

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub
    from penstock.pubsub.subscription import Subscription


class Snapshot(Resource[SnapshotDump]):
    """A saved state of a subscription: the messages that were unacked then, and all later messages.

    >>> snapshot = await subscription.create_snapshot("before-release")
    >>> await subscription.seek(snapshot)
    """

    def __init__(self, pubsub: PubSub, name: str, subscription: Subscription | None = None) -> None:
        super().__init__(pubsub, SNAPSHOTS, name)
        self.subscription = subscription

    async def create(self, labels: dict[str, str] | None = None) -> Snapshot:
        """Save the subscription's state now. Raise AlreadyExistsError if the name is taken."""
        subscription = self._require_subscription("create()")
        await self._session.use().create_snapshot(check_new_name(self.name, SNAPSHOTS), subscription.name, labels)
        return self

    async def seek(self) -> None:
        """Set the subscription back to this snapshot."""
        await self._require_subscription("seek()").seek(self)

    async def delete(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Delete the snapshot, or raise NotFoundError. Option: `timeout`, in milliseconds."""
        async with call_timeout(options, more):
            await self._session.use().delete_snapshot(self.name)

    async def _find(self) -> SnapshotDump | None:
        stored = await self._session.use().snapshots()
        return next((snapshot for snapshot in stored if snapshot.name == self.name), None)

    def _require_subscription(self, method: str) -> Subscription:
        if self.subscription is None:
            raise FailedPreconditionError(f"Snapshot.{method} needs a subscription: use subscription.snapshot(name)")
        return self.subscription
