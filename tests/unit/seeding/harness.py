"""A broker in memory with its seeding service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from penstock.assembly import SERVER_LIMITS
from penstock.doors.azure.seeds import Seeds as AzureSeeds
from penstock.doors.google.endpoints import Endpoints
from penstock.doors.google.seeds import Seeds as GoogleSeeds
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.seeding.seeding import Seeding
from penstock.seeding.topology import Vendors
from penstock.wire.turns import Share

T = TypeVar("T")
Document = dict[str, Any]


class Harness:
    """A broker, and the seeding of a server whose default project is `penstock`."""

    def __init__(self) -> None:
        self.queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS)
        google = GoogleSeeds(Endpoints(["127.0.0.0/8"], []), self.queue.clock.now)
        vendors = Vendors({"pubsub": google, "azure": AzureSeeds()}, google)
        self.seeding = Seeding(self.queue, "penstock", lambda: vendors)
        self.share = Share(lambda: 0)

    async def seed(self, document: Document, **how: bool) -> dict[str, str]:
        """Return the finding of each resource, by name."""
        plan = await self.seeding.apply(document, **how)
        return {each.name: each.what for each in plan.findings}

    async def document(self, project: str | None = None) -> Document:
        return await self.seeding.document(project, self.share)

    async def taken(self, subscription: str) -> list[bytes]:
        return [each.message.data for each in await self.queue.pull(subscription, 100)]


def run(scenario: Callable[[Harness], Awaitable[T]]) -> T:
    async def running() -> T:
        harness = Harness()
        await harness.queue.start()
        try:
            return await scenario(harness)
        finally:
            await harness.queue.close()

    return asyncio.run(running())
