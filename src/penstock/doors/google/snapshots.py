"""Snapshots, and seeking to them or to an instant."""

from __future__ import annotations

from typing import Any

from penstock.broker.model import SECOND
from penstock.doors.google import names, paging
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import already_exists, bad_argument, failed_precondition, invalid, not_found
from penstock.doors.google.masks import merged
from penstock.doors.google.messages import Empty, Snapshot, response
from penstock.doors.google.subscriptions import found
from penstock.doors.google.topics import check_labels
from penstock.engine.port import Queue, SnapshotDump, SubscriptionMetadata

MUTABLE = {"labels", "expire_time"}
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # the years 1 to 9999, all that a Timestamp may say


class Snapshots:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def create(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription)
        if not request.name:
            request.name = names.made_up(names.project_of(request.subscription), "snapshots")
        name = names.snapshot(request.name)
        if name in await self._known():
            raise already_exists(name)
        check_labels(request.labels)
        return await self._message(await self._queue.create_snapshot(name, subscription.name, dict(request.labels)))

    async def get(self, request: Any, context: Context) -> Any:
        return await self._message(await self._found(request.snapshot))

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.project)}/snapshots/"
        known = {name: snapshot for name, snapshot in (await self._known()).items() if name.startswith(prefix)}
        chosen, token = paging.page(known, request.page_size, request.page_token)
        listed = [await self._message(known[name]) for name in chosen]
        return response("ListSnapshotsResponse")(snapshots=listed, next_page_token=token)

    async def update(self, request: Any, context: Context) -> Any:
        snapshot = await self._found(request.snapshot.name)
        changed = merged(await self._message(snapshot), request.snapshot, request.update_mask.paths, MUTABLE)
        check_labels(changed.labels)
        expires_at = _instant(changed.expire_time, "expire_time") if changed.HasField("expire_time") else 0
        if not snapshot.at < expires_at <= snapshot.expires_at:
            raise bad_argument("expire_time")
        labels = dict(changed.labels)
        return await self._message(
            await self._queue.change_snapshot(snapshot.name, expires_at=expires_at, labels=labels)
        )

    async def delete(self, request: Any, context: Context) -> Any:
        await self._queue.delete_snapshot((await self._found(request.snapshot)).name)
        return Empty()

    async def seek(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription)
        target = request.WhichOneof("target")
        if target == "time":
            await self._queue.seek_to_time(subscription.name, _instant(request.time, "time"))
        elif target == "snapshot":
            snapshot, topic = await self._found(request.snapshot), await self._queue.find_topic(subscription.topic)
            if topic is None or snapshot.topic != topic.number:  # one made anew is another topic
                raise invalid("The snapshot and the subscription must be of the same topic.")
            await self._queue.seek_to_snapshot(subscription.name, snapshot.name)
        else:
            raise invalid("No target was specified in the SeekRequest. Must specify either a time or a snapshot.")
        return response("SeekResponse")()

    async def _subscription(self, name: str) -> SubscriptionMetadata:
        subscription = await found(self._queue, name)
        if subscription.detached:
            raise failed_precondition("The subscription has no topic.")
        return subscription

    async def _known(self) -> dict[str, SnapshotDump]:
        return {snapshot.name: snapshot for snapshot in await self._queue.snapshots()}

    async def _found(self, name: str) -> SnapshotDump:
        known = (await self._known()).get(name)
        if known is None:
            raise not_found(names.snapshot(name))
        return known

    async def _message(self, snapshot: SnapshotDump) -> Any:
        gone = await self._queue.find_topic(snapshot.topic_name) is None
        message = Snapshot(name=snapshot.name, topic=names.DELETED_TOPIC if gone else snapshot.topic_name)
        message.labels.update(snapshot.labels)
        message.expire_time.FromNanoseconds(snapshot.expires_at)
        return message


def _instant(timestamp: Any, field: str) -> int:
    """Nanoseconds since 1970; what is before is the beginning of every log."""
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos < SECOND:
        raise bad_argument(field)
    return max(int(seconds * SECOND + nanos), 0)
