"""Forgetting everything, for tests that share one server."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress

from penstock.doors.google.policies import KIND as POLICY
from penstock.doors.google.schemas import KIND as SCHEMA
from penstock.engine.port import Queue
from penstock.errors import NotFoundError


class Reset:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def run(self) -> None:
        queue = self._queue
        for subscription in await queue.subscriptions():
            await _gone(queue.delete_subscription(subscription.name))
        for snapshot in await queue.snapshots():
            await _gone(queue.delete_snapshot(snapshot.name))
        for topic in await queue.topics():
            await _gone(queue.delete_topic(topic.name))
        for kind in (SCHEMA, POLICY):
            for name in await queue.documents(kind):
                await _gone(queue.remove_document(kind, name))


async def _gone(deletion: Awaitable[None]) -> None:
    with suppress(NotFoundError):  # someone else was first
        await deletion
