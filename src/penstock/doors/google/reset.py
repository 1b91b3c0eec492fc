"""Forgetting everything, for tests that share one server.

The rule kept here: only where the operator said so; subscriptions go before their topics, and every door sees it.
"""

from __future__ import annotations

from contextlib import suppress

from penstock.doors.google.policies import KIND as POLICY
from penstock.doors.google.schemas import KIND as SCHEMA
from penstock.errors import NotFoundError
from penstock.faces.awaitable import AsyncMessageQueue


class Reset:
    def __init__(self, queue: AsyncMessageQueue) -> None:
        self._queue = queue

    async def run(self) -> None:
        queue = self._queue
        with suppress(NotFoundError):  # someone else deleted it first
            for subscription in queue.subscriptions():
                await queue.delete_subscription(subscription.name)
            for snapshot in queue.snapshots():
                await queue.delete_snapshot(snapshot.name)
            for topic in queue.topics():
                await queue.delete_topic(topic.name)
            for kind in (SCHEMA, POLICY):
                for name in queue.documents(kind):
                    await queue.remove_document(kind, name)
