"""Snapshots, and seeks to a snapshot or to a time."""

from __future__ import annotations

from typing import Any

from penstock.broker.model import SECOND
from penstock.doors.google import names, paging
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import already_exists, bad_argument, failed_precondition, invalid, not_found
from penstock.doors.google.messages import Empty, Snapshot, response
from penstock.doors.google.subscriptions import get_subscription
from penstock.doors.google.topics import check_labels
from penstock.doors.google.update_masks import apply_update_mask
from penstock.engine.port import Queue, SnapshotDump, SubscriptionMetadata

MUTABLE = {"labels", "expire_time"}
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # the years 1 to 9999, the range of a Timestamp


class Snapshots:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def create(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription)
        if not request.name:
            request.name = names.generate_name(names.project_of(request.subscription), "snapshots")
        name = names.snapshot(request.name)
        if name in await self._snapshots():
            raise already_exists(name)
        check_labels(request.labels)
        return await self._message(await self._queue.create_snapshot(name, subscription.name, dict(request.labels)))

    async def get(self, request: Any, context: Context) -> Any:
        return await self._message(await self._get_snapshot(request.snapshot))

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.project)}/snapshots/"
        snapshots = {name: snapshot for name, snapshot in (await self._snapshots()).items() if name.startswith(prefix)}
        names_of_page, token = paging.page(snapshots, request.page_size, request.page_token)
        listed = [await self._message(snapshots[name]) for name in names_of_page]
        return response("ListSnapshotsResponse")(snapshots=listed, next_page_token=token)

    async def update(self, request: Any, context: Context) -> Any:
        snapshot = await self._get_snapshot(request.snapshot.name)
        changed = apply_update_mask(await self._message(snapshot), request.snapshot, request.update_mask.paths, MUTABLE)
        check_labels(changed.labels)
        expires_at = _instant(changed.expire_time, "expire_time") if changed.HasField("expire_time") else 0
        if not snapshot.at < expires_at <= snapshot.expires_at:
            raise bad_argument("expire_time")
        labels = dict(changed.labels)
        return await self._message(
            await self._queue.change_snapshot(snapshot.name, expires_at=expires_at, labels=labels)
        )

    async def delete(self, request: Any, context: Context) -> Any:
        await self._queue.delete_snapshot((await self._get_snapshot(request.snapshot)).name)
        return Empty()

    async def seek(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription)
        target = request.WhichOneof("target")
        if target == "time":
            await self._queue.seek_to_time(subscription.name, _instant(request.time, "time"))
        elif target == "snapshot":
            snapshot, topic = (
                await self._get_snapshot(request.snapshot),
                await self._queue.find_topic(subscription.topic),
            )
            if topic is None or snapshot.topic != topic.number:  # a recreated topic has another number
                raise invalid("The snapshot and the subscription must be of the same topic.")
            await self._queue.seek_to_snapshot(subscription.name, snapshot.name)
        else:
            raise invalid("No target was specified in the SeekRequest. Must specify either a time or a snapshot.")
        return response("SeekResponse")()

    async def _subscription(self, name: str) -> SubscriptionMetadata:
        subscription = await get_subscription(self._queue, name)
        if subscription.detached:
            raise failed_precondition("The subscription has no topic.")
        return subscription

    async def _snapshots(self) -> dict[str, SnapshotDump]:
        return {snapshot.name: snapshot for snapshot in await self._queue.snapshots()}

    async def _get_snapshot(self, name: str) -> SnapshotDump:
        snapshot = (await self._snapshots()).get(name)
        if snapshot is None:
            raise not_found(names.snapshot(name))
        return snapshot

    async def _message(self, snapshot: SnapshotDump) -> Any:
        is_deleted = await self._queue.find_topic(snapshot.topic_name) is None
        message = Snapshot(name=snapshot.name, topic=names.DELETED_TOPIC if is_deleted else snapshot.topic_name)
        message.labels.update(snapshot.labels)
        message.expire_time.FromNanoseconds(snapshot.expires_at)
        return message


def _instant(timestamp: Any, field: str) -> int:
    """Return a Timestamp as nanoseconds since 1970. Earlier times become 0."""
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos < SECOND:
        raise bad_argument(field)
    return max(int(seconds * SECOND + nanos), 0)
